"""What uses the memory: measured by the watching process, shown on the page of memory."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import STALE_S
from django_redis_components.dashboard.problems.watched import memory
from django_redis_components.dashboard.problems.watched.memory import full_in, growth_per_s
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from tests.dashboard.support import URL, client_of, text_of, write_queue
from tests.support import Store

pytestmark = pytest.mark.django_db

MEMORY = "/admin/django_redis_components/memory/"


@pytest.fixture
def root() -> Client:
    return client_of("superuser")


def data(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(MEMORY, {"format": "json"}).json()
    return found


def test_memory_is_shown_by_component_and_queue_with_the_largest_keys(own_server: Store, root: Client) -> None:
    write_queue(own_server, "mail", ready=20, failed=3)
    own_server.raw.set("session:abc", "x" * 50_000)
    own_server.raw.set(f"{own_server.prefix}:locks:{{order}}:holder", "x" * 3_000)
    unwatched = text_of(root.get(MEMORY).content.decode())
    assert "Nothing is measured" in unwatched
    assert f"Growth {NO_VALUE} not measured Full in {NO_VALUE} no maximum" in unwatched

    ProblemWatcher("default").round()

    found = data(root)
    components = {each["name"]: each for each in found["components"]}
    assert found["components"][0]["name"] == "session:…"
    assert components["locks"]["keys"] == 1
    assert components["locks"]["bytes"] > 3_000
    assert [each["name"] for each in found["queues"]] == ["mail"]
    assert found["largest_keys"][0]["key"] == "session:abc"
    assert found["measured_keys"] == sum(each["keys"] for each in components.values())
    text = text_of(root.get(MEMORY).content.decode())
    assert "Measured key by key; the last pass over all" in text
    assert "session:abc" in text
    assert f"Growth {NO_VALUE} not measured yet: it takes 10 min" in text

    own_server.raw.config_set("maxmemory", "1gb")
    watched = json.loads(own_server.raw.get(keyspace.key("facts")))
    at, used = watched["memory"][1]["used"][-1]
    watched["memory"][1]["used"] = [[at - 3_600, used], [at, used]]
    own_server.raw.set(keyspace.key("facts"), json.dumps(watched))
    text = text_of(root.get(MEMORY).content.decode())
    assert f"over 1 h 0 min Full in {NO_VALUE} it does not grow" in text, text[text.index("Growth") :]


def test_growth_continues_after_an_outage(own_server: Store, root: Client) -> None:
    watcher = ProblemWatcher("default")
    watcher.round()
    key = keyspace.key("facts")
    (_, found), before = json.loads(own_server.raw.get(key))["memory"], time.time() - STALE_S - 60
    hour_ago = [before - 3_600, 1_000]
    stored = {"memory": [before, found | {"used": [hour_ago]}], "hung": [before, "of a check that starts anew"]}
    own_server.raw.set(key, json.dumps(stored))

    watcher.round()

    assert data(root)["growth_per_hour"] > 0
    assert json.loads(own_server.raw.get(key))["memory"][1]["used"][0] == hour_ago


def test_memory_that_may_not_be_read_says_so(own_server: Store, root: Client) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "default", "-info")

    assert f"Used {NO_VALUE} the Redis user may not run INFO" in text_of(root.get(MEMORY).content.decode())


def test_many_keys_are_measured_in_several_rounds(
    own_server: Store, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "COUNT", 100)
    own_server.raw.mset({f"session:{number}": "x" for number in range(1_000)})
    watcher = ProblemWatcher("default")

    watcher.round()
    first = data(root)["measured_keys"]
    assert 0 < first < 1_000
    assert "Measured so far:" in text_of(root.get(MEMORY).content.decode())
    for _ in range(40):
        watcher.round()

    assert data(root)["measured_keys"] >= 1_000
    assert len(own_server.raw.get(keyspace.key("facts"))) < 20_000


def test_number_of_groups_is_bounded(own_server: Store, root: Client) -> None:
    own_server.raw.mset({f"program{number}:x": "x" for number in range(200)})

    ProblemWatcher("default").round()

    assert len(data(root)["components"]) <= memory.MAX_GROUPS + 1
    assert "…" in {each["name"] for each in data(root)["components"]}


def test_memory_that_is_full_soon_is_a_problem(own_server: Store, root: Client) -> None:
    own_server.raw.config_set("maxmemory", 500_000_000)
    watcher = ProblemWatcher("default")
    watcher.round()
    stored = json.loads(own_server.raw.get(keyspace.key("facts")))
    at, used = stored["memory"][1]["used"][0]
    stored["memory"][1]["used"] = [[at - 3_600, used - 50_000_000], [at - 70, used]]
    own_server.raw.set(keyspace.key("facts"), json.dumps(stored))

    found = {each["code"]: each for each in root.get(URL, {"format": "json"}).json()["problems"]}

    text = found["memory_growth"]["text"]
    assert text.startswith("Redis grows by ")
    assert "is full in about " in text


@pytest.mark.parametrize(("policy", "severity"), [("noeviction", "critical"), ("allkeys-lru", "warning")])
def test_full_memory_is_critical_where_it_rejects_tasks(
    own_server: Store, root: Client, policy: str, severity: str
) -> None:
    write_queue(own_server, "default", ready=1)
    watcher = ProblemWatcher("default")
    watcher.round()
    stored = json.loads(own_server.raw.get(keyspace.key("facts")))
    at, used = stored["memory"][1]["used"][0]
    stored["memory"][1]["used"] = [[at - 3_600, used - 50_000_000], [at - 70, used]]
    own_server.raw.set(keyspace.key("facts"), json.dumps(stored))
    own_server.raw.config_set("maxmemory-policy", policy)
    own_server.raw.config_set("maxmemory", "500kb")

    found = {each["code"]: each for each in root.get(URL, {"format": "json"}).json()["problems"]}

    assert found["memory"]["severity"] == severity
    assert found["memory"]["advice"].startswith("It rejects new tasks") is (severity == "critical")
    assert "memory_growth" not in found, "the memory is full already"


@pytest.mark.parametrize(
    ("used", "growth", "full_s"),
    [
        ([], 0.0, None),
        ([[0.0, 100]], 0.0, None),
        ([[0.0, 100], [60.0, 200]], 0.0, None),
        ([[0.0, 100], [1_000.0, 50]], -0.05, None),
        ([[0.0, 100], [1_000.0, 200]], 0.1, 8_000.0),
        ([[0.0, 100], [1_000.0, 2_000]], 1.9, 0.0),
    ],
)
def test_growth_needs_some_time(used: list[list[float]], growth: float, full_s: float | None) -> None:
    assert growth_per_s(used) == pytest.approx(growth)
    assert full_in(used, 1_000) == (None if full_s is None else pytest.approx(full_s))


def test_page_needs_its_permission() -> None:
    assert client_of("staff").get(MEMORY).status_code == 403
