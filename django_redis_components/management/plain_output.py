"""Output of commands on terminals, and to files, whose encoding does not have all characters."""

from __future__ import annotations

import codecs
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser, DjangoHelpFormatter

#: Name of the handler of characters that a stream cannot encode.
_ERRORS = "django_redis_components.plain"
#: Replacements of characters in the package's own texts. Others are escaped.
_PLAIN = {"…": "...", "≈": "~", "→": "->", "–": "-", "—": "-", "×": "x", "·": "-", "“": '"', "”": '"', "’": "'"}


class HelpFormatter(DjangoHelpFormatter):
    """Wraps each paragraph of a help text by itself; argparse joins them."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(part, width, indent) for part in text.split("\n\n"))


class PlainOutputCommand(BaseCommand):
    """A command that writes any text to any stream: names, messages and its own texts may have any characters."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Accept any help text, and keep its paragraphs."""
        accept_any_text(sys.stdout)
        kwargs.setdefault("formatter_class", HelpFormatter)
        return super().create_parser(prog_name, subcommand, **kwargs)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Accept any output."""
        for stream in (options.get("stdout") or self.stdout, options.get("stderr") or self.stderr):
            accept_any_text(stream)
        return super().execute(*args, **options)


def accept_any_text(stream: Any) -> None:
    """Have a text stream replace characters that its encoding does not have, instead of raising UnicodeEncodeError."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:  # not a stream of a test, or of a program that replaced it
        reconfigure(errors=_ERRORS)


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(one) or ascii(one)[1:-1] for one in characters), error.end


codecs.register_error(_ERRORS, _substitute)
