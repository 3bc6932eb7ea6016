"""Command lines of `manage.py`, as pages and commands advise them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def command_line(
    *words: str, arguments: Sequence[str] = (), options: Sequence[str] = (), using: str = "default"
) -> str:
    """Return a command line of `manage.py`, quoted for a shell.

    Args:
        words: the command and its subcommands.
        arguments: what is given by position; may begin with a hyphen.
    """
    alias = () if using == "default" else ("--using", using)
    dashes = ("--",) if any(argument.startswith("-") for argument in arguments) else ()
    return shlex.join(["python", "manage.py", *words, *alias, *options, *dashes, *arguments])
