"""``bihm completion``: a script that completes commands and options in the user's shell."""

from __future__ import annotations

import argparse

HELP = 'print a completion script for a shell: eval "$(bihm completion bash)"'
SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from bihm_repro.cli.main import build_parser

    print(shtab.complete(build_parser(), shell=args.shell))
    return 0
