"""The console script ``bihm``: finds the command, turns expected failures into one line."""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
from collections.abc import Sequence

from bihm_repro import __version__
from bihm_repro.errors import InputError, SetupError

__all__ = ["main"]

COMMANDS = ("doctor", "data", "train", "evaluate", "layers", "sample", "inpaint", "tables",
            "figures", "gallery", "reproduce")


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are one line, like every other."""

    def error(self, message: str) -> None:
        """Refuse the command line."""
        raise InputError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bihm", description="Bidirectional Helmholtz Machines: data, training, estimates, "
        "samples, tables and figures.")
    parser.add_argument("--version", action="version", version=f"bihm-repro {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"bihm_repro.cli.{name}")
        sub = subparsers.add_parser(name, help=module.HELP, description=module.HELP,
                                    formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        module.add_arguments(sub)
        sub.set_defaults(execute=module.run)
    return parser


def _explain(error: OSError) -> str:
    """One line for a failure of the file system, with the fix where there is one."""
    fixes = {
        errno.ENOSPC: "; free some space and run the same command again: nothing was lost",
        errno.EACCES: "; check the permissions, or choose another folder",
        errno.EROFS: "; the folder is read-only: choose another one",
    }
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}{fixes.get(error.errno, '')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 success, 2 bad input, 130 interrupted."""
    try:
        args = _parser().parse_args(arguments)
        return args.execute(args)
    except (InputError, SetupError) as error:
        message = " ".join(str(error).split())
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        message = _explain(error)
    except MemoryError as error:
        first = (str(error).splitlines() or ["an array did not fit"])[0]
        message = (f"not enough memory ({first}); smaller layers, mini-batches or numbers of "
                   "samples need less")
    except KeyboardInterrupt:
        print("bihm: interrupted", file=sys.stderr)
        return 130
    print(f"bihm: error: {message}", file=sys.stderr)
    return 2
