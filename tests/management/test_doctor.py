"""`manage.py redis doctor`: each problem is found, with its cause and fix; exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command

from django_redis_components import autocomplete, search
from django_redis_components.analytics import PageViews
from django_redis_components.autocomplete import RecentList
from django_redis_components.core.client import connections
from django_redis_components.core.observability.catalog import RECORDER
from django_redis_components.management.redis.doctor import names
from django_redis_components.management.redis.doctor.keyspace import COMPONENTS
from django_redis_components.management.redis.doctor.permissions import COMMANDS, TRANSACTION_COMMANDS
from django_redis_components.management.redis.doctor.server import replica_findings, server_findings
from django_redis_components.ratelimits import RateLimit
from django_redis_components.semaphores import semaphore
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.shards import home
from tests.architecture.commands import called_commands, sent_commands
from tests.architecture.sources import PACKAGE_DIR, modules
from tests.conftest import components_settings
from tests.dashboard.support import write_poller, write_queue, write_worker
from tests.management.support import command_data, refusal, run_command
from tests.support import Store
from tests.support.pools import close_pools
from tests.support.stores import Stores
from tests.taskqueue.tasks import add
from tools.localserver import LocalServer

pytestmark = pytest.mark.django_db

#: Commands of nodes and Sentinels, of which no user is asked; and the one of `doctor` itself.
OTHERS = {"CLUSTER", "SENTINEL", "ASKING", "CONFIG", "MEMORY"}
HEALTHY = {"maxmemory_policy": "noeviction", "aof_enabled": "1", "maxmemory": "0", "used_memory": "9", "role": "master"}


def doctor_report() -> dict[str, Any]:
    """Return the report, whatever the exit code."""
    out = io.StringIO()
    with contextlib.suppress(SystemExit):
        call_command("redis", "doctor", "--json", stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def doctor_findings() -> list[dict[str, str]]:
    """Return the findings, whatever the exit code."""
    found: list[dict[str, str]] = doctor_report()["findings"]
    return found


class GroupSearch(search.ModelSearch):
    model = Group
    fields: ClassVar[dict[str, float]] = {"name": 1}


class Groups(autocomplete.ModelIndex):
    model, name, text = Group, "groups", "name"


def test_indexes_that_are_not_filled_are_reported(redis_server: Store) -> None:
    Group.objects.bulk_create(Group(name=f"group {number}") for number in range(30))
    searched, completed = search.register(GroupSearch), autocomplete.register(Groups)
    try:
        found = [one for one in doctor_findings() if one["code"] == "index_not_filled"]
        assert [(one["text"], one["command"]) for one in found] == [
            (
                "Search auth.group has 0 of 30 objects of the database: the others are not found.",
                "python manage.py rebuild_search",
            ),
            (
                "Index groups has 0 of 30 objects of the database: the others are not found.",
                "python manage.py rebuild_autocomplete",
            ),
        ]
        searched.rebuild()
        completed.rebuild()
        assert [one for one in doctor_findings() if one["code"] == "index_not_filled"] == []
    finally:
        search.unregister(searched.name)
        autocomplete.unregister(completed.name)


def test_index_whose_objects_cannot_be_read_is_skipped(redis_server: Store) -> None:
    class Broken(GroupSearch):
        name = "broken"

        def queryset(self) -> Any:
            raise KeyError("tenant")

    registered = search.register(Broken)
    try:
        assert "Search broken: KeyError('tenant')" in doctor_report()["skipped"]
    finally:
        search.unregister(registered.name)


def test_healthy_site_has_no_findings(own_server: Store) -> None:
    write_poller(own_server)
    write_worker(own_server, "here:7")
    write_queue(own_server, "default", ready=2, running=1)

    printed = run_command("redis", "doctor")

    assert printed.splitlines()[-1] == "No problems found.", printed
    assert re.search(
        r"^Queues: 1\. Workers: 1\. Poller: active\.\nKeys: scanned about (\d+) of \1\. Largest:$", printed, re.M
    )
    facts = command_data("redis", "doctor")["facts"]
    assert (facts["append_only_file"], facts["role"], abs(facts["clock_offset_s"]) < 1) == (True, "master", True)
    assert own_server.prefix in facts["largest_keys"][0]["key"]


def test_each_problem_is_reported_with_its_fix(own_server: Store) -> None:
    own_server.raw.config_set("appendonly", "no")
    own_server.raw.config_set("maxmemory-policy", "allkeys-lru")
    write_queue(own_server, "mail", ready=3)
    write_queue(own_server, "-odd", unregistered=1)
    write_worker(own_server, "lost:9", seen_s=60)
    base = f"{own_server.prefix}:taskqueue:{{default}}"
    own_server.raw.hset(f"{base}:t:lost", mapping={"q": "mail", "s": "running"})
    own_server.raw.rpush(f"{base}:q:unlisted:ready", "x")
    own_server.raw.zadd(f"{base}:q:unlisted:grouped", {"a\t100\t1\tx": 0})
    own_server.raw.rpush(f"{base}:q:mail:successful", "a list of finished tasks belongs to its queue")
    own_server.raw.set(f"{own_server.prefix}:leftover", "x")
    Permission.objects.filter(codename="purge_queue").delete()

    found = command_data("redis", "doctor", code=2)

    by_code = {each["code"]: each for each in found["findings"]}
    severities = [each["severity"] for each in found["findings"]]
    assert severities == sorted(severities), "critical ones come first"
    assert {code for code, each in by_code.items() if each["severity"] == "critical"} >= {
        "evicts",
        "no_worker",
        "poller_missing",
    }
    assert {"worker_lost", "unregistered", "orphaned_keys", "permissions"} <= set(by_code)
    assert {"no_persistence", "no_append_only_file"} & set(by_code)
    assert by_code["no_worker"]["text"].startswith("Queue mail has 3 ready tasks and no live worker. Oldest: ")
    assert by_code["no_worker"]["command"] == "python manage.py runworker mail"
    assert by_code["unregistered"]["command"] == "python manage.py runworker -- -odd"
    assert by_code["permissions"]["command"] == "python manage.py migrate"
    assert "purge_queue" in by_code["permissions"]["text"]
    orphans = by_code["orphaned_keys"]["text"]
    assert orphans.startswith("4 keys without a component, queue or lease: ")
    assert all(key in orphans for key in (":t:lost", ":q:unlisted:ready", ":q:unlisted:grouped", ":leftover"))
    printed = run_command("redis", "doctor", code=2).splitlines()
    at = printed.index("CRITICAL evicts")
    assert printed[at + 1].endswith("maxmemory-policy is allkeys-lru.")
    assert printed[at + 2].startswith("  Fix: ")
    assert (
        printed[at + 3] == f"    {connections.endpoint('default').redis_cli()} CONFIG SET maxmemory-policy noeviction"
    )


def test_tasks_that_wait_for_more_replicas_than_there_are_are_named(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = add.name
    monkeypatch.setitem(registry.tasks, name, add.using(min_replicas=2))

    [found] = [each for each in doctor_findings() if each["code"] == "too_few_replicas"]

    assert found["text"] == (
        f"The server has 0 replicas. Tasks that wait for more (min_replicas): {name}. Each call of them takes 1 s"
        " longer."
    )


@pytest.mark.parametrize(("replicas", "counted"), [(0, "0 replicas"), (1, "1 replica")])
def test_finding_of_replicas_counts_them(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, replicas: int, counted: str
) -> None:
    monkeypatch.setitem(registry.tasks, add.name, add.using(min_replicas=2))

    [found] = replica_findings(home(), replicas)

    assert found.text.startswith(f"The server has {counted}. ")


def test_suggested_commands_keep_the_connection(redis_server: Store, settings: Any) -> None:
    connections = {"far": {"URL": redis_server.url}, "default": {"URL": redis_server.url}}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": connections}
    write_queue(redis_server, "mail", ready=3, unregistered=1)

    found = command_data("redis", "doctor", "--using", "far", "--scan", "0", code=2)["findings"]

    commands = {each["code"]: each["command"] for each in found}
    assert commands["no_worker"] == "python manage.py runworker --using far mail"
    assert commands["poller_missing"] == "python manage.py runpoller --using far"
    assert commands["unregistered"] == "python manage.py runworker --using far mail"


def test_scan_is_bounded_and_reports_its_bound(redis_server: Store) -> None:
    write_queue(redis_server, "default", ready=1_500)

    printed = run_command("redis", "doctor", "--scan", "100", code=2)

    assert re.search(r"^Keys: scanned about 100 of [\d,]+\. Largest:$", printed, re.M), printed
    assert "Orphaned and large keys: --scan 0." in command_data("redis", "doctor", "--scan", "0", code=2)["skipped"]


@pytest.fixture
def user(redis_server: Store, settings: Any) -> Iterator[str]:
    """A Redis user whom a test may restrict; the connection of the settings is that user's."""
    name = f"u{redis_server.prefix}"
    redis_server.raw.execute_command("ACL", "SETUSER", name, "on", ">secret", f"~{redis_server.prefix}:*", "+@all")
    url = redis_server.url.replace("redis://", f"redis://{name}:secret@")
    settings.REDIS_COMPONENTS = components_settings(redis_server) | {"CONNECTIONS": {"default": {"URL": url}}}
    yield name
    redis_server.raw.execute_command("ACL", "DELUSER", name)


def test_commands_that_the_server_has_disabled_are_named(stores: Stores, settings: Any) -> None:
    renamed = ("--rename-command", "INFO", "", "--rename-command", "BLPOP", "")
    with LocalServer(directory=stores.new_directory("renamed"), extra_args=renamed, die_with_parent=True) as server:
        settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": server.url}}}

        [found] = [each for each in doctor_findings() if each["code"] == "unknown_commands"]
        close_pools()

    assert found["text"].endswith("disabled or renamed: BLPOP, INFO.")


def test_commands_that_the_redis_user_lacks_are_named(redis_server: Store, user: str) -> None:
    found = {each["code"]: each for each in doctor_findings()}
    assert "acl_commands" not in found
    assert f"may not use the channels {redis_server.prefix}:*" in found["acl_channels"]["text"]
    redis_server.raw.execute_command("ACL", "SETUSER", user, "allchannels")
    assert "acl_channels" not in {each["code"] for each in doctor_findings()}

    redis_server.raw.execute_command("ACL", "SETUSER", user, "-zadd", "-blpop", "-config", "-watch", "-exec")

    [denied] = [each for each in doctor_findings() if each["code"] == "acl_commands"]
    assert denied["text"] == f"Redis user '{user}' may not run BLPOP, ZADD, WATCH, EXEC."
    assert (
        denied["command"]
        == f"{connections.endpoint('default').redis_cli()} ACL SETUSER {user} +blpop +zadd +watch +exec"
    )
    redis_server.raw.execute_command("ACL", "SETUSER", user, "resetkeys", "~other:*")
    assert f"may not read or write the keys {redis_server.prefix}:*" in str(doctor_findings())
    assert redis_server.keys() == [], "the check writes nothing"


def test_index_that_the_redis_user_may_not_read_is_skipped(redis_server: Store, user: str) -> None:
    searched, completed = search.register(GroupSearch), autocomplete.register(Groups)
    redis_server.raw.execute_command("ACL", "SETUSER", user, "allchannels", "-@scripting", "-@read")
    try:
        report = doctor_report()
    finally:
        search.unregister(searched.name)
        autocomplete.unregister(completed.name)

    [denied] = [each for each in report["findings"] if each["code"] == "acl_commands"]
    assert {"EVALSHA", "ZRANGE"} <= set(re.findall("[A-Z]+", denied["text"]))
    skipped = [text for text in report["skipped"] if text.startswith(("Search auth.group: ", "Index groups: "))]
    assert len(skipped) == 2
    assert all("permission" in text for text in skipped)


def test_permissions_are_asked_for_every_command_of_the_components() -> None:
    lua = "".join(path.read_text() for path in PACKAGE_DIR.rglob("*.lua"))
    others = (".management.", ".testing.")
    python = "".join(module.text for module in modules() if not any(part in module.name for part in others))
    sent = called_commands(lua) | sent_commands(python)

    asked = {command.split()[0] for command in (*COMMANDS, *TRANSACTION_COMMANDS)}

    missing = sent - OTHERS - asked
    assert not missing, f"Add {sorted(missing)} to COMMANDS in management/redis/doctor/permissions.py."
    assert set(re.findall(r'\bkeys?\.key\("(\w+)"', python)) <= COMPONENTS


@pytest.fixture
def cataloged(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": True}


def name_findings() -> list[dict[str, str]]:
    RECORDER.flush()
    return [each for each in doctor_findings() if each["code"] in ("unbounded_names", "different_options")]


@pytest.mark.usefixtures("cataloged")
def test_kind_with_unbounded_names_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_NAMES", 3)
    for user in (1, 2):
        RateLimit(f"login-{user}", "5/m").hit("x")
        RecentList(f"user-{user}").touch(1, "a")
    assert name_findings() == []

    RateLimit("login-3", "5/m").hit("x")
    RecentList("user-3").touch(1, "a")

    [found] = name_findings()
    assert (found["severity"], found["code"]) == ("warning", "unbounded_names")
    assert re.fullmatch(
        r"RateLimit: at least 3 names are in use, the last ones ('login-\d', ){2}'login-\d'\. No more are kept, so the"
        r" dashboard does not list the others\.",
        found["text"],
    )
    assert "pass the id to the method: RateLimit('login').hit(user_id)" in found["fix"]


@pytest.mark.usefixtures("cataloged")
def test_name_with_two_sets_of_options_is_reported() -> None:
    RateLimit("login", "5/m", on_error="closed").hit("x")
    RateLimit("other", "5/m").hit("x")
    assert name_findings() == []

    RateLimit("login", "9/m", on_error="closed").hit("x")

    [found] = name_findings()
    assert (found["severity"], found["code"]) == ("warning", "different_options")
    assert re.fullmatch(
        r"RateLimit 'login' was used with different options within two hours: rates=\[\[[59], 60.0\]\]; or"
        r" rates=\[\[[59], 60.0\]\]\.",
        found["text"],
    )
    assert found["fix"].startswith("Give each use its own name, or deploy the same code everywhere.")


@pytest.mark.usefixtures("cataloged")
def test_semaphore_of_a_decorator_with_two_limits_is_reported() -> None:
    def deploy(limit: int) -> None:
        @semaphore("reports", limit=limit)
        def report() -> None: ...

        report()

    deploy(3)
    RECORDER.flush()
    RECORDER.reset()  # as in another process
    deploy(5)

    assert [each["text"].rpartition(": ")[2] for each in name_findings()] == ["limit=5; or limit=3."]


@pytest.mark.usefixtures("cataloged")
def test_options_of_a_former_deployment_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    RateLimit("login", "5/m").hit("x")
    RateLimit("login", "9/m").hit("x")
    monkeypatch.setattr(names, "RECENT_S", -60.0)

    assert name_findings() == []


def test_names_of_all_kinds_are_checked() -> None:
    text = "".join(module.text for module in modules())

    stated = set(re.findall(r'^ *(?:catalog_kind|KIND) = "(\w+)"$', text, re.M))

    assert set(names.KINDS) == stated


def test_missing_append_only_file_is_advice_unless_nothing_is_stored() -> None:
    off = HEALTHY | {"aof_enabled": "0"}

    assert [finding.code for finding in server_findings(off, "3600 1")] == ["no_append_only_file"]
    assert list(server_findings(off, "")) == [], "no_persistence says it"
    assert list(server_findings(HEALTHY, "")) == []


def test_unavailable_redis_has_its_own_exit_code() -> None:
    assert re.match(r"Redis is unavailable: .*127\.0\.0\.1:1", refusal("redis", "doctor", code=3))


def test_invalid_settings_are_findings(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIXX": "a"}

    assert "drc.E001" in run_command("redis", "doctor", code=2)


@pytest.mark.contract
@pytest.mark.parametrize(("site", "is_shared"), [("default", True), ("web", False)])
def test_page_views_in_the_slot_of_the_queue_are_reported_on_a_cluster(
    store: Store, settings: Any, site: str, is_shared: bool
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"SITE": site}}
    assert "shared_slot" not in [each["code"] for each in doctor_findings()], "nothing is counted"
    PageViews(site).hit("/")

    found = [each for each in doctor_findings() if each["code"] == "shared_slot"]

    assert bool(found) == (is_shared and store.is_cluster)
    if found:
        assert f'The page views of site "{site}" and the task queue are in one slot (5718)' in found[0]["text"]
