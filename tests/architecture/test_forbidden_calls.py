"""The package never unpickles, evaluates text, sends unbounded commands, calls Redis in a thread, or logs unguarded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import Module, called_name, modules

#: Modules that turn bytes into code.
CODE_FROM_DATA = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}

#: Commands that block the server in proportion to its data, or delete it.
UNBOUNDED = {"KEYS", "FLUSHALL", "FLUSHDB", "SMEMBERS", "MONITOR"}

#: Modules that may name such commands. With the reason.
MAY_NAME = {
    "django_redis_components.transactions.connection_commands": "it rejects them",
    "django_redis_components.testing.server": "it empties a server that it has started itself, for tests",
}

#: Modules that use Python's loggers. Others use `core.guarded_logger`: the site's logging must change no outcome.
MAY_GET_LOGGERS = {
    "django_redis_components.core.guarded_logger",
    "django_redis_components.management.logs",  # it adds handlers, and logs nothing
}

#: Calls that run a function in another thread. An async method must not run its sync twin that way.
THREAD_HOPS = {"sync_to_async", "to_thread", "run_in_executor"}

#: Functions that may: they call the site's own code or its database, never Redis. With the reason.
MAY_HOP = {
    "call_on_commit": "Django's transactions live on a thread of their own, and on_commit must be asked there",
    "send_on_commit": "Django's transactions live on a thread of their own, and on_commit must be asked there",
    "report": "middleware of a coroutine may use the ORM, in the thread of the coroutine's connections",
    "run_in_the_test": "a test without Redis runs the site's task there, in the thread of its database connections",
    "callback": "middleware of the site may use the ORM, on the thread of Django's database connections",
    "called_here": "a task that its caller runs at once, on the thread of Django's database connections",
    "_query": "the permission and the scope of a request are functions of the site, which may use the ORM",
    "fenced_update": "a transaction of the site's database, on the thread of Django's connections",
    "self.operation": "an operation on local files, which would block the event loop",
    "_close_all_or_log": "Django's connections belong to the thread that opened them",
}


def test_nothing_is_unpickled_or_evaluated() -> None:
    assert findings(modules(), code_from_data) == []


def test_no_unbounded_command_is_sent() -> None:
    assert findings([module for module in modules() if module.name not in MAY_NAME], unbounded_commands) == []


def test_async_twins_do_not_run_in_threads() -> None:
    assert findings(modules(), thread_hops) == []


def test_nothing_is_logged_unguarded() -> None:
    assert findings([module for module in modules() if module.name not in MAY_GET_LOGGERS], python_loggers) == []


def test_scripts_are_in_lua_files_only() -> None:
    assert findings([module for module in modules() if module.component != "core"], inline_scripts) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("code_from_data", "import pickle"),
        ("code_from_data", "from marshal import loads"),
        ("code_from_data", "eval(reply)"),
        ("code_from_data", "def f():\n    exec(reply)"),
        ("code_from_data", "yaml.load(reply)"),
        ("unbounded_commands", "Command('KEYS', '*')"),
        ("unbounded_commands", "client.flushdb()"),
        ("unbounded_commands", "client.keys('a*')"),
        ("unbounded_commands", "client.smembers(key)"),
        ("thread_hops", "await sync_to_async(client.get)(key)"),
        ("thread_hops", "@sync_to_async\ndef read():\n    client.get(key)"),
        ("thread_hops", "await asyncio.to_thread(client.get, key)"),
        ("python_loggers", "logger = logging.getLogger(__name__)"),
        ("python_loggers", "from logging import getLogger as get"),
        ("python_loggers", "logging.warning('Redis is slow.')"),
        ("python_loggers", "logger.target.warning('Redis is slow.')"),
        ("inline_scripts", "client.register_script(text)"),
        ("inline_scripts", "client.eval(text, 1, key)"),
        ("inline_scripts", "Command('EVAL', text)"),
    ],
)
def test_forbidden_call_is_found(rule: str, text: str) -> None:
    assert findings([Module("django_redis_components.locks.lock", text)], globals()[rule]) != []


@pytest.mark.parametrize("text", ["mapping.keys()", "KEYS = 1", "model.evaluate()", "sync_to_async(send_on_commit)()"])
def test_similar_call_is_allowed(text: str) -> None:
    module = Module("django_redis_components.locks.lock", text)

    assert all(findings([module], rule) == [] for rule in (code_from_data, unbounded_commands, thread_hops))


def findings(found: list[Module], rule) -> list[str]:
    return [
        f"{module.name}:{node.lineno}: {ast.unparse(node)[:80]}"
        for module in found
        for node in module.nodes
        if any(rule(node))
    ]


def code_from_data(node: ast.AST) -> Iterator[bool]:
    if isinstance(node, ast.Import):
        yield any(alias.name.split(".")[0] in CODE_FROM_DATA for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        yield (node.module or "").split(".")[0] in CODE_FROM_DATA
    if isinstance(node, ast.Call):
        yield isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")
        yield ast.unparse(node.func) in ("yaml.load", "yaml.unsafe_load")


def unbounded_commands(node: ast.AST) -> Iterator[bool]:
    if isinstance(node, ast.Constant):
        yield isinstance(node.value, str) and node.value in UNBOUNDED
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield node.func.attr.upper() in UNBOUNDED - {"KEYS"}
        yield node.func.attr == "keys" and bool(node.args or node.keywords)


def thread_hops(node: ast.AST) -> Iterator[bool]:
    if isinstance(node, ast.FunctionDef):
        yield any(ast.unparse(decorator).rpartition(".")[2] in THREAD_HOPS for decorator in node.decorator_list)
    if isinstance(node, ast.Call) and called_name(node) in THREAD_HOPS:
        yield not MAY_HOP.keys() & {ast.unparse(arg) for arg in node.args}


def python_loggers(node: ast.AST) -> Iterator[bool]:
    methods = ("debug", "info", "warning", "error", "exception", "critical", "log")
    if isinstance(node, ast.ImportFrom) and node.module == "logging":
        yield any(alias.name in ("getLogger", *methods) for alias in node.names)
    if isinstance(node, ast.Call):
        yield called_name(node) == "getLogger"
        yield isinstance(node.func, ast.Attribute) and node.func.attr in methods and _is_python_logger(node.func.value)


def _is_python_logger(node: ast.expr) -> bool:
    return ast.unparse(node) == "logging" or (isinstance(node, ast.Attribute) and node.attr == "target")


def inline_scripts(node: ast.AST) -> Iterator[bool]:
    if isinstance(node, ast.Call):
        yield called_name(node) in ("register_script", "evalsha", "script_load")
        yield isinstance(node.func, ast.Attribute) and node.func.attr == "eval"
    if isinstance(node, ast.Constant):
        yield node.value in ("EVAL", "EVALSHA")
