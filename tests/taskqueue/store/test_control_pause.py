"""A paused queue is not fetched and notifies no worker; a pause with an end expires by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import queue_stats
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.scripts import MAINTAIN
from django_redis_components.taskqueue.worker import prefetch
from tests.conftest import components_settings
from tests.support import Store, eventually, run_async, run_together
from tests.support.clients import blocked_ids
from tests.taskqueue.support import (
    Held,
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    recover,
    running_worker,
    server_ms,
    work_off,
)
from tests.taskqueue.tasks import hold, note, recorded


def pause_of(name: str = "default") -> Any:
    return get_queue(name).info().paused


def has_wakeup(store: Store, name: str = "q:default") -> int:
    """Return whether the wakeup key of the queue exists."""
    return store.raw.exists(base_key(store, "wakeup", name))


def silence(store: Store, *names: str) -> None:
    for name in names or ("q:default", "poller"):
        store.raw.delete(base_key(store, "wakeup", name))


def waits_begun(store: Store) -> int:
    """Return the number of blocking waits that the server has executed."""
    return store.raw.info("commandstats").get("cmdstat_bzpopmin", {}).get("calls", 0)


def maintain() -> list[Any]:
    """A poller's round: [holds, next_due_ms, now_us, recovered, next, busy]."""
    settings = {"poller_lease_ms": 10_000, "lease_ms": 15_000, "prune": 0, "keep_ms": 60_000, "failed_limit": 100}
    call = MAINTAIN(
        base=home().base,
        poller="here:poller",
        contact="",
        lost_error=b"{}",
        max_deliveries=3,
        lost_fingerprint="0",
        lost_description="{}",
        first=0,
        **finished_bounds(),
        **settings,
    )
    reply: list[Any] = connections.client().execute(call)
    return reply


def test_paused_queue_is_not_fetched_until_it_is_resumed(store: Store) -> None:
    queue = get_queue("default")
    note.enqueue("plain")
    note.using(priority=9).enqueue("urgent")
    fall_due(store, note.using(run_after=60).enqueue("due"))

    queue.pause("mail server is down", author="ada")

    assert work_off() == []
    assert queue.info().ready == 3
    assert queue.resume() is True
    assert [job.id for job in work_off()] != []
    assert recorded == ["due", "urgent", "plain"]


def test_other_queues_are_served_during_a_pause(store: Store) -> None:
    note.using(queue_name="high").enqueue("high")
    note.using(queue_name="low").enqueue("low")

    get_queue("high").pause()
    work_off("high", "low")

    assert recorded == ["low"]


def test_pause_stores_reason_user_and_server_time(store: Store) -> None:
    before_ms = int(server_ms(store))

    get_queue("default").pause('no | "mail" \u4f60\u597d', author="ada")

    paused = pause_of()
    assert (paused.reason, paused.author, paused.ends_at) == ('no | "mail" \u4f60\u597d', "ada", None)
    assert before_ms <= paused.at.timestamp() * 1_000 <= server_ms(store)


def test_repeated_pause_replaces_reason_and_end(store: Store) -> None:
    queue = get_queue("default")
    queue.pause("first", until=3_600)

    queue.pause("second")

    assert (pause_of().reason, pause_of().ends_at) == ("second", None)
    assert queue.resume() is True


def test_queue_paused_before_its_first_task_is_listed(store: Store) -> None:
    note.enqueue("known")
    get_queue("default").pause()

    get_queue("new").pause("not yet")

    shown = run(connections.client(), queue_stats.read_overview(home())).queues
    assert [(each.name, each.paused is not None) for each in shown] == [("default", True), ("new", True)]


def test_resume_of_a_queue_that_is_not_paused_returns_false(store: Store) -> None:
    assert get_queue("default").resume() is False


def test_concurrent_resumes_return_true_once(store: Store) -> None:
    get_queue("default").pause()

    assert sorted(run_together(8, get_queue("default").resume)) == [False] * 7 + [True]


@pytest.mark.parametrize("until", [timedelta(hours=1), 3_600, 3_600.0])
def test_until_in_seconds_counts_from_the_server_clock(store: Store, until: Any) -> None:
    before_ms = int(server_ms(store))

    get_queue("default").pause(until=until)

    until_ms = pause_of().ends_at.timestamp() * 1_000
    assert before_ms + 3_600_000 <= until_ms <= server_ms(store) + 3_600_000


def test_until_may_be_a_datetime(store: Store) -> None:
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)

    get_queue("default").pause(until=moment)

    assert pause_of().ends_at == moment


@pytest.mark.parametrize(
    ("until", "error", "text"),
    [
        (datetime(2020, 1, 2, tzinfo=UTC), ValueError, r"until=2020-01-02 00:00:00\+00:00: that moment has passed\."),
        (0, ValueError, r"until=0: that moment has passed\."),
        (-1, ValueError, r"until=-1: expected a number of seconds of at least 0, or a timedelta\."),
        (datetime.max.replace(tzinfo=UTC), ValueError, r"until=.*: expected a date up to December 30, 9999\."),
        (datetime(2030, 1, 2), ValueError, r"until=.*: expected an aware datetime, since USE_TZ is on\."),  # noqa: DTZ001
        ("soon", TypeError, r"until='soon': expected a datetime, or a number of seconds or a timedelta from now\."),
        (True, TypeError, r"until=True: expected a datetime, or a number of seconds or a timedelta from now\."),
    ],
)
def test_until_in_the_past_raises(redis_server: Store, until: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        get_queue("default").pause(until=until)

    assert pause_of() is None


@pytest.mark.parametrize("what", ["reason", "author"])
def test_reason_that_is_not_text_raises(redis_server: Store, what: str) -> None:
    with pytest.raises(TypeError, match=rf"{what}=5: expected a string\."):
        get_queue("default").pause(**{what: 5})


@pytest.mark.parametrize("what", ["reason", "author"])
def test_long_reason_is_cut(redis_server: Store, what: str) -> None:
    with pytest.raises(ValueError, match=rf"^{what}='x+…: expected at most 1,000 characters, got 1,001\.$"):
        get_queue("default").pause(**{what: "x" * 1_001})

    assert pause_of() is None


def test_running_tasks_finish_during_a_pause(store: Store) -> None:
    held = Held(store, "a")
    result = hold.enqueue("a")
    with running_worker():
        held.started()

        get_queue("default").pause()
        held.release()

        assert result.get(60) == "a"


def test_pause_during_a_batch_leaves_the_rest_in_the_queue(store: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(6)])
    fetcher = new_fetcher()
    leased = fetcher.fetch("0", 2)

    get_queue("default").pause()

    assert fetcher.fetch("0", 4) == []
    depth = get_queue("default").info()
    assert (depth.running, depth.ready) == (len(leased), 4)


def test_returned_tasks_wait_in_a_paused_queue(store: Store) -> None:
    note.enqueue("taken")
    [job] = new_fetcher(worker="dies").fetch("0", 1)
    get_queue("default").pause()
    silence(store)
    end_lease(store, job.id)

    assert recover() == [(job.id, "default", "requeued")]

    assert has_wakeup(store) == 0
    assert work_off() == []
    get_queue("default").resume()
    assert [each.id for each in work_off()] == [job.id]


def test_paused_queue_notifies_no_worker(store: Store) -> None:
    get_queue("default").pause()
    silence(store)

    note.enqueue("plain")
    note.using(priority=5).enqueue("urgent")
    note.enqueue_many([((number,), {}) for number in range(5)])
    note.using(run_after=60).enqueue("later").run_now()
    assert has_wakeup(store) == 0

    get_queue("default").resume()
    assert has_wakeup(store) == 1
    assert 0 < store.raw.pttl(base_key(store, "wakeup", "q:default")) <= 60_000


def test_idle_worker_is_not_woken_for_a_paused_queue(
    redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "MAX_WAIT_S", 60)
    patient = components_settings(redis_server)
    patient["CONNECTIONS"]["default"]["SOCKET_TIMEOUT"] = 60  # so that it does not repeat its wait meanwhile
    settings.REDIS_COMPONENTS = patient
    get_queue("default").pause()
    earlier = blocked_ids(redis_server)
    with running_worker(threads=2):
        eventually(lambda: blocked_ids(redis_server) - earlier)
        before = waits_begun(redis_server)

        for number in range(300):
            note.enqueue(number)
        assert waits_begun(redis_server) == before

        get_queue("default").resume()
        eventually(lambda: len(recorded) == 300)


def test_idle_worker_resumes_at_the_end_of_a_pause_without_a_poller(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "MAX_WAIT_S", 60)  # so that nothing else wakes it in time
    with running_worker():
        note.enqueue("first").get(60)

        get_queue("default").pause(until=0.3)
        until = pause_of().ends_at
        result = note.enqueue("second")

        assert result.get(60) == "second"
        assert result.started_at is not None
        assert result.started_at >= until
    assert pause_of() is None


def test_poller_notifies_the_queue_at_the_end_of_a_pause(store: Store) -> None:
    note.enqueue("waits")
    get_queue("default").pause(until=0.2)
    until_ms = pause_of().ends_at.timestamp() * 1_000
    silence(store)

    assert maintain()[1] == until_ms
    assert has_wakeup(store) == 0

    eventually(lambda: server_ms(store) > until_ms)
    maintain()
    assert has_wakeup(store) == 1


def test_pause_with_an_end_wakes_the_poller(store: Store) -> None:
    silence(store)
    get_queue("default").pause()
    assert has_wakeup(store, "poller") == 0

    get_queue("default").pause(until=60)
    assert has_wakeup(store, "poller") == 1


def test_due_tasks_of_a_paused_queue_do_not_shorten_rounds(store: Store) -> None:
    fall_due(store, note.using(run_after=60).enqueue("due"))
    get_queue("default").pause()
    silence(store)

    assert maintain()[1] == 0
    assert has_wakeup(store) == 0


def test_expired_pause_is_ignored_before_it_is_deleted(store: Store) -> None:
    get_queue("default").pause(until=0.001)
    silence(store)
    eventually(lambda: pause_of() is None)

    note.enqueue("rings")

    assert has_wakeup(store) == 1
    assert store.raw.hexists(base_key(store, "paused"), "default")
    work_off()
    assert recorded == ["rings"]
    assert not store.raw.hexists(base_key(store, "paused"), "default")


def test_async_methods_return_the_same(store: Store) -> None:
    queue = get_queue("default")

    async def act() -> tuple[bool, bool]:
        await queue.apause("why", author="ada", until=60)
        return await queue.aresume(), await queue.aresume()

    assert run_async(act) == (True, False)
    assert pause_of() is None
