"""`redis schedules export` and `import`: exact round trips, refused lines, and all or nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import Schedules, every, schedules
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.schedules.transfer import NewSchedule, import_all, parse_lines
from django_redis_components.taskqueue.shards import home
from tests.management.support import command_data, refusal, run_command
from tests.support import Proxy, Store
from tests.taskqueue.schedulers import next_round, scheduler_of, state_key, waiting
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import add, note

NOTE = {"name": "s", "task": note.name, "every": 60, "args": ["x"]}


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


def fill(store: Store) -> None:
    """One schedule of each kind, one that has sent a task, and one that is paused."""
    start = datetime(2040, 1, 1, tzinfo=UTC)
    Schedules().add("once", note, at=datetime(2040, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC), args=["ü\u2028"])
    Schedules().add("nightly", add, cron="30 3 * * *", tz="Europe/Rome", kwargs={"a": 1, "b": 2.5}, misfire="all")
    Schedules().add("zone of the site", note, cron="@daily", args=[{"k": [None, True]}], max_age=60, jitter=0.5)
    Schedules().add("later", note, every=1.5, start=start, end=start.replace(year=2041), args=["x"])
    Schedules().add("ten", note, every=60, args=["x"], count=10, options={"queue_name": "mail", "timeout": (5, None)})
    next_round(poller := Poller(home(), connections.client()))
    last_ms = int(store.raw.hget(state_key(store, "ten"), "last"))
    store.raw.hset(state_key(store, "ten"), "last", last_ms - 120_000)
    scheduler_of(poller).invalidate()
    next_round(poller)
    Schedules().pause("later", author="ada")


def written(path: Path, *lines: Any) -> str:
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines))
    return str(path)


def clear(store: Store) -> None:
    for key in list(store.keys()):
        store.raw.delete(key)


@pytest.mark.contract
def test_round_trip_is_exact(store: Store, tmp_path: Path) -> None:
    fill(store)
    exported = run_command("redis", "schedules", "export")
    definitions = store.raw.hgetall(base_key(store, "added_schedules"))
    clear(store)
    assert schedules() == []

    imported = run_command("redis", "schedules", "import", written(tmp_path / "s.jsonl", exported))

    assert imported == "Added 5, replaced 0.\n"
    assert run_command("redis", "schedules", "export") == exported
    assert store.raw.hgetall(base_key(store, "added_schedules")) == definitions
    assert [(each.name, each.state, each.sent) for each in schedules()] == [
        ("later", "paused", 0), ("nightly", "new", 0), ("once", "new", 0), ("ten", "new", 1),
        ("zone of the site", "new", 0),
    ]  # fmt: skip
    next_round(Poller(home(), connections.client()))
    assert waiting(store) == []


def test_import_again_changes_nothing(redis_server: Store, tmp_path: Path) -> None:
    fill(redis_server)
    exported = run_command("redis", "schedules", "export")

    imported = run_command("redis", "schedules", "import", written(tmp_path / "s.jsonl", exported))

    assert imported == "Added 0, replaced 5.\n"
    assert run_command("redis", "schedules", "export") == exported


def test_old_export_takes_no_sent_tasks_back(redis_server: Store, tmp_path: Path) -> None:
    fill(redis_server)
    old = written(tmp_path / "s.jsonl", NOTE | {"name": "ten", "count": 10})

    assert command_data("redis", "schedules", "import", old) == {"added": 0, "replaced": 1, "dry_run": False}

    assert [each.sent for each in schedules() if each.name == "ten"] == [1]


def test_dry_run_imports_nothing(redis_server: Store, tmp_path: Path) -> None:
    Schedules().add("s", note, every=60, args=["x"])
    before = redis_server.raw.hgetall(base_key(redis_server, "added_schedules"))
    file = written(tmp_path / "s.jsonl", NOTE | {"args": ["y"]}, NOTE | {"name": "t"})

    text = run_command("redis", "schedules", "import", file, "--dry-run")

    assert text == "Nothing was imported (dry run). Would add 1 and replace 1.\n"
    assert redis_server.raw.hgetall(base_key(redis_server, "added_schedules")) == before


def test_count_that_was_removed_is_not_exported(redis_server: Store, tmp_path: Path) -> None:
    fill(redis_server)
    Schedules().add("ten", note, every=60, args=["x"])

    exported = run_command("redis", "schedules", "export")

    assert "sent" not in exported
    imported = run_command("redis", "schedules", "import", written(tmp_path / "s.jsonl", exported))
    assert imported == "Added 0, replaced 5.\n"


def test_schedules_of_the_code_are_not_exported(redis_server: Store) -> None:
    every(60, name="mine", args=(1,))(note)
    next_round(Poller(home(), connections.client(), schedules=declared.registered()))

    assert run_command("redis", "schedules", "export").strip() == ""
    assert command_data("redis", "schedules", "export") == {"schedules": [], "damaged": []}


def test_damaged_definition_is_named(redis_server: Store) -> None:
    Schedules().add("s", note, every=60, args=["x"])
    for name, text in (("a", b"[]"), ("b", b"\xff"), ("c", b"[" * 5_000)):
        redis_server.raw.hset(base_key(redis_server, "added_schedules"), name, text)

    error = refusal("redis", "schedules", "export")

    assert error == "Not exported, since the definition is damaged: a, b, c."


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "Line 2: it is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 ("),
        ("[]", "Line 2: []: expected a JSON object in each line."),
        ({"task": note.name, "every": 60}, 'Line 2: "name" is missing: expected the name of the schedule.'),
        (NOTE | {"name": "a{b}"}, "Line 2: name 'a{b}': braces are not accepted"),
        (NOTE | {"name": 7}, "Line 2: name 7: expected a string"),
        (NOTE | {"name": "good"}, "Line 2 ('good'): line 1 has this name. Names are unique."),
        ({"name": "s", "every": 60}, "Line 2 ('s'): \"task\" is missing: expected the name of a task."),
        (NOTE | {"task": "shop.gone"}, "Line 2 ('s'): the task 'shop.gone' is not registered in this process."),
        (NOTE | {"task": None}, "Line 2 ('s'): the task None is not registered in this process."),
        (NOTE | {"misfre": "all"}, "Line 2 ('s'): unknown field 'misfre'. Did you mean 'misfire'? Accepted: task,"),
        (NOTE | {"enabled": False}, "Line 2 ('s'): unknown field 'enabled'."),
        (NOTE | {"misfire": "never"}, "Line 2 ('s'): misfire='never'"),
        (NOTE | {"cron": "@daily"}, "Line 2 ('s'): every and cron: expected one of every, cron and at."),
        ({"name": "s", "task": note.name}, "Line 2 ('s'): no times: expected one of every, cron and at."),
        (NOTE | {"every": 0.1}, "Line 2 ('s'): every=0.1: expected at least a second; durations are in seconds."),
        (NOTE | {"every": float("nan")}, "Line 2 ('s'): every=nan"),
        (NOTE | {"tz": "UTC"}, "Line 2 ('s'): tz: not accepted with every."),
        (NOTE | {"start": "soon"}, "Line 2 ('s'): start='soon': expected a time such as '2026-11-26T15:00:00+00:00'."),
        (NOTE | {"end": "2040-01-01T00:00:00"}, "Line 2 ('s'): end='2040-01-01T00:00:00': expected a time such as"),
        (NOTE | {"count": 0}, "Line 2 ('s'): count=0: expected an integer from 1 to 1000000000."),
        (NOTE | {"args": "x"}, "Line 2 ('s'): args='x': expected"),
        (NOTE | {"args": [1, 2]}, "does not take these arguments"),
        (NOTE | {"options": {"priority": 500}}, "Line 2 ('s'): priority=500: expected an integer from -100 to 100."),
        (NOTE | {"options": {"id": "x"}}, "Line 2 ('s'): options: 'id' is not accepted. Accepted: queue_name,"),
        (NOTE | {"sent": 3}, "Line 2 ('s'): sent=3: expected with count only."),
        (NOTE | {"sent": -1, "count": 5}, "Line 2 ('s'): sent=-1: expected an integer from 0 to 1000000000."),
        (NOTE | {"paused": True}, "Line 2 ('s'): paused=True: expected a string."),
        (NOTE | {"args": ["x" * 100_000]}, "characters, at most 100,000 are accepted."),
        (NOTE | {"name": "mine"}, "Line 2 ('mine'): the code declares a schedule of this name."),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_line_is_refused_by_its_name_and_nothing_is_imported(
    line: Any, error: str, redis_server: Store, tmp_path: Path
) -> None:
    every(60, name="mine", args=(1,))(note)
    lines = [json.dumps(NOTE | {"name": "good"}), line if isinstance(line, str) else json.dumps(line)]

    _, refused = parse_lines(lines, "default")
    text = refusal("redis", "schedules", "import", written(tmp_path / "s.jsonl", *lines))

    assert error in str(refused[0])
    assert text == "Refused: 1 of 2 lines. Nothing was imported."
    assert not redis_server.raw.exists(base_key(redis_server, "added_schedules"))


def test_file_that_cannot_be_read_is_named(redis_server: Store, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xff\xfe")

    with pytest.raises(CommandError, match="nothing' cannot be read: "):
        run_command("redis", "schedules", "import", str(tmp_path / "nothing"))
    with pytest.raises(CommandError, match="latin' cannot be read: "):
        run_command("redis", "schedules", "import", str(tmp_path / "latin"))


def test_too_many_are_refused_as_a_whole(redis_server: Store, tmp_path: Path) -> None:
    key = base_key(redis_server, "added_schedules")
    redis_server.raw.hset(key, mapping={f"s{number}": "{}" for number in range(9_999)})
    file = written(tmp_path / "s.jsonl", NOTE | {"name": "s1"}, NOTE | {"name": "a"}, NOTE | {"name": "b"})

    for words in ((), ("--dry-run",)):
        error = refusal("redis", "schedules", "import", file, *words)
        assert error == "Nothing was imported: there would be 10,001 added schedules, at most 10,000."

    assert redis_server.raw.hget(key, "s1") == b"{}"
    assert redis_server.raw.hlen(key) == 9_999


def test_import_is_made_once_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    accepted, _ = parse_lines([json.dumps(NOTE | {"name": "named"})], "default")
    proxy.drop_next_reply(after=b"named")

    counts = home("proxied").run(import_all(home("proxied"), accepted))

    assert (proxy.dropped, counts) == (1, (1, 0))


def test_two_imports_at_once_leave_one_of_them(redis_server: Store) -> None:
    """Never a part of each."""
    sets: list[list[NewSchedule]] = []
    for args in (["x"], ["y"]):
        lines = [json.dumps(NOTE | {"name": f"s{number}", "args": args}) for number in range(200)]
        sets.append(parse_lines(lines, "default")[0])
    threads = [threading.Thread(target=lambda new=new: home().run(import_all(home(), new))) for new in sets * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = {json.loads(text)["args"][0] for text in redis_server.raw.hvals(base_key(redis_server, "added_schedules"))}

    assert found in ({"x"}, {"y"})
    assert len(schedules()) == 200
