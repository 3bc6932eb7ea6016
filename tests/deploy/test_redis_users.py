"""Each component works with the Redis user of deploy/redis/users.acl, and needs each of its rights."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from redis.exceptions import AuthenticationError, NoPermissionError

from django_redis_components.core.client import connections
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.observability.catalog import RECORDER
from django_redis_components.core.scripts import LuaScript
from django_redis_components.locks import Lock
from django_redis_components.management.redis.doctor.permissions import COMMANDS, TRANSACTION_COMMANDS
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import home
from tests.architecture import examples
from tests.architecture.commands import called_commands, sent_commands
from tests.architecture.sources import LAYERS, PACKAGE, PACKAGE_DIR, ROOT, components, modules
from tests.deploy.redis_users import PREFIX, RedisUser, redis_users
from tests.support import Store, eventually
from tests.taskqueue.support import running_worker

pytestmark = pytest.mark.docs

CORE = PACKAGE_DIR / "core"
USES_CATALOG = re.compile(r"\b(?:component|declared_names) import\b")
USES_LIVE_EVENTS = re.compile(r"\b(?:live_events import|import live_events)\b")
USES_REPLICAS = re.compile(r"import .*\backnowledgement\b")
USES_KEY_SCAN = re.compile(r"import .*\bkey_scan\b|\bkey_scan import\b")
USES_FORMATS = re.compile(r"\bstored_formats import\b")
#: Components that store keys, each with a separate user.
COMPONENTS = [name for name in components() if 0 < LAYERS[name] < 3]
#: Components whose docstrings alone are run: the pages have examples with other components, for which the user has no
#: rights, or take long.
WITHOUT_PAGE = {"aggregation", "autocomplete", "bloom", "search"}
#: Keys in the examples that are those of the site.
KEYS_OF_EXAMPLES = {"transactions": ("~account:*", "~purse:*", "+decrby", "+sadd")}
#: The rights to the only subcommand that is sent.
SUBCOMMANDS = {"MEMORY": "memory|usage", "PUBSUB": "pubsub|shardnumsub"}
#: What any user may run, and what the tests send.
OTHERS = {"auth", "config|resetstat", "flushdb"}


@pytest.fixture(autouse=True)
def _registered_by_examples() -> Iterator[None]:
    with examples.registrations_undone():
        yield


def named_commands(component: str) -> set[str]:
    """Return the commands that the scripts and modules of a component name."""
    found = {"client|setinfo", "info"}
    for script in scripts_of(component):
        found |= lower(called_commands(script.source))
        found |= lower({script.evalsha, script.evalsha.replace("EVALSHA", "EVAL")})
    return found | commands_of_modules(python_of(component))


def scripts_of(component: str) -> list[LuaScript]:
    """Return the scripts of a component; those of locks and semaphores are declared by their kinds."""
    names: list[dict[str, Any]] = []
    for module in modules():
        if module.component == component:
            names.append(vars(importlib.import_module(module.name)))
    names.extend(vars(kind.scripts) for kind in kinds_of(component))
    return [value for each in names for value in each.values() if is_script_of(component, value)]


def kinds_of(component: str) -> list[type[ScriptedKind]]:
    """Return the kinds of locks or semaphores of a component."""
    return [kind for kind in ScriptedKind.__subclasses__() if kind.__module__.split(".")[1] == component]


def is_script_of(component: str, value: object) -> bool:
    return isinstance(value, LuaScript) and (value.kind or value.component).split("/")[0] == component


def patterns_of(component: str) -> set[str]:
    """Return the patterns of the keys and channels that a component uses."""
    python = python_of(component)
    parts = [component, *(["catalog"] if USES_CATALOG.search(python) else [])]
    parts += ["live"] if USES_LIVE_EVENTS.search(python) else []
    parts += ["format"] if USES_FORMATS.search(python) else []
    channels = {f"&{PREFIX}:{component}:*"} if 'send("SSUBSCRIBE"' in python else set()
    return channels | {f"~{PREFIX}:{part}:*" for part in parts}


def python_of(component: str) -> str:
    """Return the modules of a component, and those of the core that send something for it."""
    text = "".join(path.read_text() for path in (PACKAGE_DIR / component).rglob("*.py"))
    paths = [CORE / "leasing"] if kinds_of(component) else []
    paths += [CORE / "rebuild.py"] if "core.rebuild import" in text else []
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    return text + "".join(file.read_text() for file in files)


def commands_of_modules(python: str) -> set[str]:
    """Return the commands that modules send, by themselves or by what they use of the core."""
    found = lower(sent_commands(python))
    if USES_CATALOG.search(python):
        found |= commands_of_modules((CORE / "observability" / "catalog.py").read_text()) - {"zrevrange"}  # of readers
    if USES_LIVE_EVENTS.search(python):
        found |= commands_of_modules((CORE / "observability" / "live_events.py").read_text())
    if USES_REPLICAS.search(python):
        found |= commands_of_modules((CORE / "replicas.py").read_text())
    if USES_KEY_SCAN.search(python):
        found |= {"scan", "dbsize"} if "scan_keys" in python else {"scan"}
    return found | ({"blpop"} if re.search(r"\b(?:Wait|BlockingPop)\(", python) else set())


def lower(commands: set[str]) -> set[str]:
    """Return the commands as rights name them: a subcommand has a separate right."""
    return {SUBCOMMANDS.get(command, command.lower()) for command in commands}


def log_in(name: str, server: Store, settings: Any, *more: str) -> None:
    """Create the user on the server, with the rights of the file, and have the site use it."""
    rights = redis_users()[name].rights
    server.raw.execute_command("ACL", "SETUSER", name, "reset", ">secret", *rights, *more)
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "PREFIX": PREFIX,
        "CATALOG": True,
        "LIVE_EVENTS": True,
        "DASHBOARD": {"WATCH": False},  # a worker that watches reads what the dashboard reads
        "CONNECTIONS": {"default": {"URL": server.url, "USERNAME": name, "PASSWORD": "secret"}},
    }


def run_examples(component: str, server: Store) -> None:
    """Run the examples of a component's docstring, and those of its page on an empty server."""
    docstring = importlib.import_module(f"{PACKAGE}.{component}").__doc__ or ""
    examples.run(examples.of_docstring(component, docstring))
    if component not in WITHOUT_PAGE:
        server.raw.flushdb()
        examples.run(examples.of_markdown(ROOT / "docs" / "components" / f"{component}.md"))
    RECORDER.flush()


def run_worker_and_poller() -> None:
    poller = Poller(home(), connections.client())
    poller.step()
    poller.wait(0.001)
    with running_worker("default", burst=True) as worker:
        eventually(lambda: not worker.is_alive())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("component", COMPONENTS)
def test_component_works_with_its_rights_and_needs_each(
    component: str, own_server: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    log_in(component, own_server, settings, *KEYS_OF_EXAMPLES.get(component, ()))
    own_server.raw.config_resetstat()

    run_examples(component, own_server)
    if component == "taskqueue":
        run_worker_and_poller()

    executed = {name.removeprefix("cmdstat_") for name in own_server.raw.info("commandstats")} - OTHERS
    assert own_server.raw.acl_log() == []
    assert "permission" not in caplog.text.lower()
    assert_rights(redis_users()[component], patterns_of(component), named_commands(component) | executed)


@pytest.mark.parametrize("store", ["redis7"], indirect=True)
def test_redis_7_0_knows_each_right_but_the_one_that_the_guide_names(store: Store) -> None:
    for name, user in redis_users().items():
        login = f"{store.prefix}-{name}"
        store.raw.execute_command("ACL", "SETUSER", login, *(each for each in user.rights if each != "+client|setinfo"))
        store.raw.execute_command("ACL", "DELUSER", login)


@pytest.mark.django_db
def test_user_of_a_site_passes_the_doctor_and_needs_each_right(own_server: Store, settings: Any) -> None:
    log_in("site", own_server, settings)

    out = io.StringIO()
    with contextlib.suppress(SystemExit):  # there is no worker
        call_command("redis", "doctor", "--json", stdout=out)

    data = json.loads(out.getvalue())

    assert [found for found in data["findings"] if found["code"].startswith("acl_")] == []
    assert data["skipped"] == []
    asked = lower({command.split()[0] for command in (*COMMANDS, *TRANSACTION_COMMANDS)})
    assert_rights(redis_users()["site"], {"~drc:*", "&drc:*"}, asked | {"config|get", "client|setinfo"})


@pytest.mark.django_db
def test_user_of_a_dashboard_reads_metrics_and_health_and_writes_nothing(own_server: Store, settings: Any) -> None:
    log_in("site", own_server, settings)
    run_worker_and_poller()
    log_in("dashboard", own_server, settings)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "MONITORING": {"PUBLIC": True}, "LIVE_EVENTS": False}

    metrics, health = (Client().get(reverse(f"django_redis_components:{name}")) for name in ("metrics", "healthz"))

    assert b"redis_components_up 1.0" in metrics.content
    assert b"redis_unreachable" not in health.content
    assert own_server.raw.acl_log() == []
    with pytest.raises(NoPermissionError):
        Lock("stock").acquire()


def test_user_of_a_site_has_the_rights_of_each_component() -> None:
    users = redis_users()

    assert set().union(*(users[name].commands for name in COMPONENTS)) - users["site"].commands == set()


def test_each_user_is_described_on_the_page_of_security() -> None:
    text = (ROOT / "docs" / "guides" / "security.md").read_text()

    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(redis_users())


def test_user_without_a_password_cannot_log_in(own_server: Store) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "site", "reset", *redis_users()["site"].rights)

    with pytest.raises(AuthenticationError):
        own_server.raw.execute_command("AUTH", "site", "")


def assert_rights(user: RedisUser, patterns: set[str], commands: set[str]) -> None:
    """Compare a user's rights with those that it needs."""
    words = ("on", "-@all", *(f"+{command}" for command in sorted(commands)))
    missing, unused = {*words, *patterns} - set(user.rights), set(user.rights) - {*words, *patterns}
    assert (missing, unused) == (set(), set()), f"Correct the user {user.name!r} in deploy/redis/users.acl."
