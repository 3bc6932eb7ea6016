"""Names and defaults on the pages are those of the code, and each name of the code is on its page of the reference.

Commands: `test_named_commands` and `test_docs` compare their names, this module the options of command lines.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class
from django.urls import get_resolver

from django_redis_components import checks
from django_redis_components.aggregation import LogAggregator
from django_redis_components.bloom import BloomFilter
from django_redis_components.contrib.django_tasks import checks as task_checks
from django_redis_components.core.settings import conf
from django_redis_components.core.settings.sections import Settings
from django_redis_components.expiry import cached
from django_redis_components.files import FileChannel
from django_redis_components.geoip import IpLookup
from django_redis_components.locks import Lock
from django_redis_components.management.redis.doctor.permissions import expected_permissions
from django_redis_components.management.redis.groups import GROUPS, GroupParser
from django_redis_components.messaging import Retention
from django_redis_components.ratelimits import RateLimit, rate_limit
from django_redis_components.search import SearchIndex
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import TaskContext
from django_redis_components.transactions import atomic_update
from tests.architecture.sources import PACKAGE_DIR, ROOT, modules

DOCS = ROOT / "docs"
#: The pages for users of the package.
PAGES = [
    path
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst"), *ROOT.glob("README*.md")])
    if not {"decisions", "contributing"} & set(path.parts)
]
SECTIONS = {conf.key_of(field): field for field in dataclasses.fields(Settings)}


def identifier(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def settings_of(section: str) -> dict[str, Any]:
    """Return the defaults of a section of the settings."""
    field = SECTIONS[section]
    kind = field.metadata.get("section") or field.metadata["table"]
    found = {}
    for each in dataclasses.fields(kind):
        default = each.default_factory() if callable(each.default_factory) else each.default
        found[conf.key_of(each)] = default
    return found


# System checks


def ids_in_code() -> set[str]:
    """Return the ids of checks that the package reports."""
    return {
        node.value
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"drc\.[EW]\d+", node.value)
    }


def test_page_of_the_system_checks_has_each_id() -> None:
    text = f"{checks.__doc__}{task_checks.__doc__}"

    assert set(re.findall(r"^(drc\.[EW]\d{3}) ", text, re.MULTILINE)) == ids_in_code()


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_system_checks_that_a_page_names_exist(page: Path) -> None:
    assert set(re.findall(r"drc\.[EW]\d{3}", page.read_text())) - ids_in_code() == set()


# Metrics


@cache
def metrics_in_code() -> set[str]:
    """Return the names of the metrics of Prometheus."""
    prefixes = {"PREFIX": "redis_components", "QUEUE": "redis_components_taskqueue"}
    found = set()
    for path in (PACKAGE_DIR / "contrib").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        for node in nodes:
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.FormattedValue):
                prefix, end = prefixes.get(ast.unparse(node.values[0].value), ""), node.values[1:]
                if prefix and isinstance(end[0], ast.Constant):
                    ends = [""] if len(end) == 1 else _first_words(nodes)
                    found |= {f"{prefix}{end[0].value}{word}" for word in ends}
    return {name.removesuffix("_total") for name in found} - {"redis_components_taskqueue"}


def _first_words(nodes: list[ast.AST]) -> list[str]:
    """Return the names of the rows of a table of metrics: name, help, values."""
    firsts = [
        node.elts[0]
        for node in nodes
        if isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[2], ast.DictComp)
    ]
    return [first.value for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)]


def metrics_on_page() -> set[str]:
    rows = re.findall(r"^   \* - (``[a-z_`, ]+)$", (DOCS / "reference" / "metrics.rst").read_text(), re.MULTILINE)
    return {f"redis_components_{name}" for row in rows for name in re.findall(r"``(\w+)``", row)}


def test_page_of_the_metrics_has_each() -> None:
    assert {name.removesuffix("_total") for name in metrics_on_page()} == metrics_in_code()


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_metrics_that_a_page_names_exist(page: Path) -> None:
    ends = "_total", "_bucket", "_count", "_sum"
    named = {
        next((name.removesuffix(end) for end in ends if name.endswith(end)), name)
        for name in re.findall(r"\bredis_components_[a-z_]*[a-z]\b", page.read_text())
    }

    assert named - metrics_in_code() - OTHER_NAMES == set()


#: Names that begin as metrics do: of the template tags, fixtures and logs.
OTHER_NAMES = {"redis_components_server"}


# Permissions


def test_page_of_the_permissions_has_each() -> None:
    text = (DOCS / "reference" / "dashboard-permissions.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)

    first = {name for row in rows for name in re.findall(r"`(\w+)`", row.partition(", with")[0])}
    assert first == expected_permissions()


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_permissions_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"django_redis_components\.([a-z]+_[a-z_]+)[`\"' |]", text)
    named += re.findall(r"permissions? `(\w+)`", text)

    assert {name for name in named if not name.startswith("view_tests")} - expected_permissions() - MODULES == set()


#: What follows the name of the package on pages without being a permission: modules, and a task.
MODULES = {"pytest_plugin", "async_urls", "start_flow"}


# URLs


def urls_in_code() -> set[str]:
    namespace = get_resolver("django_redis_components.urls")
    return {str(name) for name in namespace.reverse_dict if isinstance(name, str)}


def test_page_of_the_public_api_has_each_url() -> None:
    named = set(re.findall(r"redis_components:([a-z_]+)", (DOCS / "api.md").read_text()))

    assert named == urls_in_code()


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_urls_that_a_page_names_exist(page: Path) -> None:
    assert set(re.findall(r"\bredis_components:([a-z_]+)", page.read_text())) - urls_in_code() == set()


# Settings


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r'\b([A-Z]+)"?\]?\["([A-Z_]+)"\]', page.read_text())

    unknown = {(section, key) for section, key in named if section in SECTIONS and key not in settings_of(section)}
    assert unknown == set()


# Defaults


def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of the parameters of a function or a class."""
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


#: Where the defaults of a table are from: page, first heading, and the source by name.
TABLES: dict[tuple[str, str], Callable[[], dict[str, Any]]] = {
    ("components/analytics", "Key"): lambda: settings_of("ANALYTICS"),
    ("components/autocomplete", 'Setting in `REDIS_COMPONENTS["AUTOCOMPLETE"]`'): lambda: settings_of("AUTOCOMPLETE"),
    ("components/transactions", "Option"): lambda: parameters_of(atomic_update),
    ("components/search", "Argument of `SearchIndex`"): lambda: parameters_of(SearchIndex),
    ("components/aggregation", "Argument of `LogAggregator`"): lambda: parameters_of(LogAggregator),
    ("components/locks", "Option"): lambda: parameters_of(Lock),
    ("components/dashboard", "Key"): lambda: settings_of("DASHBOARD"),
    ("components/semaphores", "Option"): lambda: parameters_of(Semaphore),
    ("components/files", "Argument"): lambda: parameters_of(FileChannel),
    ("components/taskqueue", "Key"): lambda: settings_of("TASKQUEUE"),
    ("components/ratelimits", "Option"): lambda: parameters_of(RateLimit),
    ("components/ratelimits", "Option of `@rate_limit`"): lambda: parameters_of(rate_limit),
    ("components/ratelimits", "Setting"): lambda: settings_of("RATELIMITS"),
    ("components/bloom", "Argument"): lambda: parameters_of(BloomFilter),
    ("components/messaging", "Argument"): lambda: parameters_of(Retention),
    ("components/messaging", "Setting"): lambda: settings_of("MESSAGING"),
    ("components/expiry", "Option"): lambda: parameters_of(cached),
    ("components/geoip", "Argument of `IpLookup`"): lambda: parameters_of(IpLookup),
    ("components/workers", "`runworker [queue …]`"): lambda: options_of("runworker"),
    ("guides/monitoring", "Setting"): lambda: settings_of("MONITORING"),
    ("guides/long-tasks", "Argument of `iterate`, `aiterate`"): lambda: parameters_of(TaskContext.iterate),
}
UNITS = {"MiB": 2**20, "days": 86_400, "day": 86_400}


def rows_of(page: str, heading: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the defaults of a table."""
    text = (DOCS / f"{page}.md").read_text()
    [table] = re.findall(rf"^(\| {re.escape(heading)} \|.*\n(?:\|.*\n)+)", text, re.MULTILINE)
    lines = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in table.splitlines()]
    column = lines[0].index("Default")
    for cells in lines[2:]:
        for name in re.findall(r"`(--)?([\w-]+)[^`]*`", cells[0]):
            if "(" not in cells[0]:
                yield name[1], cells[column]


class Words(str):
    """A default that a page describes."""

    __slots__ = ()


def value_of(text: str) -> Any:
    """Return the value that a page states."""
    text = text.strip("`") if text.count("`") == 2 else text
    number, _, unit = text.replace("a day", "1 day").replace(",", "").partition(" ")
    if unit in UNITS:
        return int(number) * UNITS[unit]
    try:
        return plain(ast.literal_eval(number if number.isdecimal() and not unit else text))
    except (SyntaxError, ValueError):
        return Words(text)


def plain(value: Any) -> Any:
    """Return a default in the form in which pages state it: seconds, lists."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple | list) else value


def is_stated(stated: Any, default: Any) -> bool:
    """Return whether a page states this default. Words may stand for one that is no number, and no text."""
    if not isinstance(stated, Words):
        return bool(stated == plain(default))
    return stated == default or not isinstance(default, int | float | str) or default in (False, "")


@pytest.mark.parametrize(("page", "heading"), TABLES, ids=[f"{page} {heading}" for page, heading in TABLES])
def test_defaults_of_a_table_are_those_of_the_code(page: str, heading: str) -> None:
    defaults, rows = TABLES[page, heading](), list(rows_of(page, heading))

    assert rows
    assert [name for name, _ in rows if name not in defaults] == []
    wrong = {name: (stated, defaults[name]) for name, stated in rows if not is_stated(value_of(stated), defaults[name])}
    assert wrong == {}


def test_each_setting_of_a_table_is_in_it() -> None:
    for page, heading in (
        ("components/taskqueue", "Key"),
        ("components/dashboard", "Key"),
        ("components/analytics", "Key"),
    ):
        named = {name for name, _ in rows_of(page, heading)}
        assert set(TABLES[page, heading]()) - named == set(), page


# Options of command lines


@cache
def parser_of(name: str) -> Any:
    return load_command_class("django_redis_components", name).create_parser("manage.py", name)


def subcommands_of(parser: Any) -> dict[str, Any]:
    """Return the parsers of subcommands by name."""
    actions = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def leaf_of(*words: str) -> Any:
    """Return the parser of a command."""
    parser = parser_of(words[0])
    for word in words[1:]:
        choices = subcommands_of(parser)
        if word not in choices:
            break
        parser = choices[word]
        if isinstance(parser, GroupParser):
            parser.load()
    return parser


def options_of(*words: str) -> dict[str, Any]:
    """Return the options of a command, and their defaults."""
    return {
        option.lstrip("-"): action.default
        for action in leaf_of(*words)._actions
        for option in (*action.option_strings, action.dest)
    }


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of the command lines of this package that a text names."""
    text = text.replace("\\\n", " ")
    found = re.findall(
        r"manage\.py ((?:redis_?|run|rebuild_|reconcile_|aggregate_|load_ip|distribute_)[^\n`#&|;]*)", text
    )
    found += [f"redis {line}" for line in re.findall(rf"`redis ((?:{'|'.join(GROUPS)}) [^`\n]*)`", text)]
    for line in found:
        try:
            yield shlex.split(line)
        except ValueError:
            continue


@pytest.mark.parametrize("page", PAGES, ids=identifier)
def test_options_of_command_lines_exist(page: Path) -> None:
    unknown = []
    for words in command_lines(page.read_text()):
        if words[0] in ("runserver", "rundramatiq", "run_huey"):
            continue
        known = options_of(*words)
        named = [word.partition("=")[0].lstrip("-") for word in words if re.match(r"--[a-z]", word)]
        unknown += [(words, name) for name in named if name.rstrip(".,:)]") not in known]
    assert unknown == []


def all_options() -> set[str]:
    """Return the options of all commands."""
    names = [path.stem for path in (PACKAGE_DIR / "management" / "commands").glob("[a-z]*.py")]
    found = set()
    for words in [*((name,) for name in names), *(("redis", group) for group in GROUPS)]:
        verbs = subcommands_of(leaf_of(*words))
        for line in [words, *((*words, verb) for verb in verbs)]:
            found |= set(options_of(*line))
    return found


#: Options of other programs: redis-cli, redis-server, celery, and the benchmarks.
OF_OTHERS = {"appendonly", "autoscale", "cluster", "cluster-replace", "failover", "full-coverage", "output"}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if not re.search("choosing|moving-from|compared", page.as_posix())], ids=identifier
)
def test_options_that_a_page_names_alone_exist(page: Path) -> None:
    named = set(re.findall(r"`--([a-z][a-z-]+)[ =`…]", page.read_text()))

    assert named - all_options() - OF_OTHERS == set()
