"""The console script ``bihm``: runs a command and reports expected failures in one line."""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from bihm_repro import __version__
from bihm_repro.cli.arguments import HelpFormatter
from bihm_repro.engine.parallel import several_hosts
from bihm_repro.errors import InputError, SetupError
from bihm_repro.progress import printable

__all__ = ["COMMANDS", "build_parser", "main"]

# Each is the module of that name in this package.
COMMANDS = (
    "doctor data train sweep evaluate layers sample inpaint tables figures gallery demo "
    "watch compare recipes reproduce completion"
).split()


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, as every other failure."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise InputError(f"{message}; see {self.prog} --help")


def build_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of ``commands``; only their modules are imported."""
    parser = _Parser(
        prog="bihm",
        description="Bidirectional Helmholtz Machines: data, training, estimates, "
        "samples, tables and figures.",
    )
    parser.add_argument("--version", action="version", version=f"bihm-repro {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in commands:
        module = importlib.import_module(f"bihm_repro.cli.{name}")
        sub = subparsers.add_parser(
            name, help=module.HELP, description=module.HELP, formatter_class=HelpFormatter
        )
        module.add_arguments(sub)
        sub.set_defaults(execute=module.run)
    return parser


def _explain(error: OSError) -> str:
    """Describe a failure of the file system in one line, with the fix where there is one."""
    fixes = {
        errno.ENOSPC: "; free some space and run the same command again: nothing was lost",
        errno.EACCES: "; check the permissions, or choose another folder",
        errno.EROFS: "; the folder is read-only: choose another one",
    }
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}{fixes.get(error.errno or 0, '')}"


def _replace_unprintable() -> None:
    """Print '?' for what the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 success, 2 bad input, 130 interrupted."""
    try:
        status = _execute(arguments)
    except Exception:
        if not several_hosts():
            raise
        traceback.print_exc()
        status = 1
    if several_hosts():
        from bihm_repro.engine.jax_parallel import end

        end(status)
    return status


def _execute(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    _replace_unprintable()
    try:
        parser = build_parser(words[:1] if words[:1] and words[0] in COMMANDS else COMMANDS)
        args = parser.parse_args(words)
        return args.execute(args)
    except (InputError, SetupError) as error:
        message = " ".join(str(error).split())
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        message = _explain(error)
    except RuntimeError as error:
        if not (several_hosts() and type(error).__name__ == "JaxRuntimeError"):
            raise
        from bihm_repro.engine.jax_parallel import lost

        lost("another host")
    except MemoryError as error:
        first = (str(error).splitlines() or ["an array did not fit"])[0]
        message = (
            f"not enough memory ({first}); smaller layers, mini-batches or numbers of "
            "samples need less"
        )
    except KeyboardInterrupt:
        print("bihm: interrupted", file=sys.stderr)
        return 130
    print(f"bihm: error: {printable(message)}", file=sys.stderr)
    return 2
