"""Sphinx directives that write reference pages from the code, so that they cannot be out of date.

====================  ===========================================================================
``settings-tables``   every key of `REDIS_COMPONENTS`: type, default, accepted values, effect
``command-tables``    every management command with its options, from its parser
``component-keys``    the Redis keys of each component, from the docstring of its package
``module-docstring``  the docstring of a module: signals, system checks
====================  ===========================================================================
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management import load_command_class
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import django_redis_components
from django_redis_components.core.settings import conf, sections
from django_redis_components.management import commands
from django_redis_components.management.base import EXIT_CODES
from django_redis_components.management.redis.groups import GroupParser

#: Options that every command of Django has.
DJANGO_OPTIONS = {
    "verbosity",
    "force_color",
    "no_color",
    "pythonpath",
    "settings",
    "skip_checks",
    "traceback",
    "version",
    "help",
}


class _GeneratedDirective(SphinxDirective):
    """A directive whose content is the reStructuredText that `lines` yields."""

    def run(self) -> list[nodes.Node]:
        """Parse the generated text."""
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)

    def lines(self) -> Iterator[str]:
        """The text, line by line."""
        raise NotImplementedError


class SettingsTables(_GeneratedDirective):
    """One table for each section of `REDIS_COMPONENTS`."""

    def lines(self) -> Iterator[str]:
        """See the base class."""
        for kind, path in _sections():
            yield from _heading(path)
            rows = [_setting_row(kind, field) for field in dataclasses.fields(kind) if "check" in field.metadata]
            yield from _table(("Key", "Type", "Default", "Effect"), rows, widths="22 14 20 44")


class CommandTables(_GeneratedDirective):
    """One section for each management command."""

    def lines(self) -> Iterator[str]:
        """See the base class."""
        for name in sorted(module.name for module in pkgutil.iter_modules(commands.__path__)):
            command = load_command_class("django_redis_components", name)
            parser = command.create_parser("manage.py", name)
            yield from _heading(f"``manage.py {name}``")
            for paragraph in command.help.split("\n\n"):
                yield from (_escape(paragraph), "")
            yield from _parser_lines(parser)


class ComponentKeys(_GeneratedDirective):
    """One section for each component that writes keys."""

    def lines(self) -> Iterator[str]:
        """See the base class."""
        for module in pkgutil.iter_modules(django_redis_components.__path__, "django_redis_components."):
            blocks = _key_blocks(module.name) if module.ispkg else []
            if blocks:
                yield from _heading(f"``{module.name.rpartition('.')[2]}``")
                for block in blocks:
                    yield from (*block.splitlines(), "")


class ModuleDocstring(_GeneratedDirective):
    """The docstring of the module that the argument names."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """See the base class."""
        yield from inspect.cleandoc(importlib.import_module(self.arguments[0]).__doc__ or "").splitlines()


def _sections() -> Iterator[tuple[type[Any], str]]:
    yield sections.Settings, conf.SETTING
    for field in dataclasses.fields(sections.Settings):
        key = conf.key_of(field)
        if "table" in field.metadata:
            yield field.metadata["table"], f'{conf.SETTING}["{key}"][ALIAS]'
        elif "section" in field.metadata:
            yield field.metadata["section"], f'{conf.SETTING}["{key}"]'


def _setting_row(kind: type[Any], field: dataclasses.Field[Any]) -> tuple[str, ...]:
    comments = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    effect = " ".join(comments[(kind.__name__, field.name)]).strip()
    shown_type = re.sub(r"\s*\|\s*", " or ", str(field.type))
    return (f"``{conf.key_of(field)}``", f"``{shown_type}``", f"``{field.default!r}``", effect)


def _parser_lines(parser: argparse.ArgumentParser, words: str = "") -> Iterator[str]:
    """Yield the arguments of a parser and of its subcommands; `words` are the subcommands before it."""
    rows = [_option_row(action) for action in parser._actions if _is_own(action)]
    if rows:
        yield from _table(("Argument", "Meaning"), rows, widths="35 65")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                if isinstance(child, GroupParser):
                    child.load()
                own = "" if child.epilog == EXIT_CODES else child.epilog or ""
                yield from (f"**{words}{name}** — {_escape(f'{child.description} {own}')}", "")
                yield from _parser_lines(child, f"{words}{name} ")


def _is_own(action: argparse.Action) -> bool:
    is_listed = action.dest not in DJANGO_OPTIONS and action.help is not argparse.SUPPRESS
    return is_listed and not isinstance(action, argparse._SubParsersAction)


def _option_row(action: argparse.Action) -> tuple[str, ...]:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    name = ", ".join(action.option_strings) or metavar
    if action.option_strings and action.nargs != 0:
        name += f" {metavar}"
    return (f"``{name}``", _escape(action.help or ""))


def _key_blocks(package: str) -> list[str]:
    """Return the paragraphs and tables of a package's docstring that document its keys."""
    docstring = inspect.cleandoc(importlib.import_module(package).__doc__ or "")
    blocks = itertools.dropwhile(lambda block: not block.startswith("Keys"), docstring.split("\n\n"))
    found = list(itertools.takewhile(lambda block: block.startswith(("Keys", "==")), blocks))
    return found if len(found) > 1 else []


def _heading(title: str) -> Iterator[str]:
    yield from (title, "-" * len(title), "")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], *, widths: str) -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in (head, *rows):
        for number, cell in enumerate(row):
            yield f"   {'*' if number == 0 else ' '} - {cell}"
    yield ""


def _escape(text: str) -> str:
    return re.sub(r"([*`|\\])", r"\\\1", " ".join(text.split()))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("settings-tables", SettingsTables)
    app.add_directive("command-tables", CommandTables)
    app.add_directive("component-keys", ComponentKeys)
    app.add_directive("module-docstring", ModuleDocstring)
    return {"parallel_read_safe": True}
