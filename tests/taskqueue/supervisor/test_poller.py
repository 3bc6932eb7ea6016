"""The poller: one is active; it notifies workers of due tasks, recovers tasks, prunes, and survives outages."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import poller as poller_module
from django_redis_components.taskqueue.poller import ACTIVE_LEASE_MS, Poller
from django_redis_components.taskqueue.shards import home
from tests.support import Proxy, Store, eventually
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    let_recovery_begin,
    new_fetcher,
    queue_key,
    renewal,
    running_worker,
    server_ms,
    taskqueue_settings,
)
from tests.taskqueue.tasks import note, recorded

#: Seconds that a lease lives in these tests: what a poller waits before it recovers anything.
LEASE_S = 0.3


@pytest.fixture(autouse=True)
def _short_lease(request: pytest.FixtureRequest, settings: Any) -> None:
    for server in ("store", "redis_server", "proxy"):
        if server in request.fixturenames:
            request.getfixturevalue(server)
    taskqueue_settings(settings, LEASE=LEASE_S)


def new_poller(using: str = "default", wake_fd: int | None = None) -> Poller:
    return Poller(home(using), connections.client(using), wake_fd=wake_fd)


def next_round(poller: Poller) -> None:
    poller.next_round_at = 0.0
    poller.step()


def seconds_to_next(poller: Poller) -> float:
    return poller.next_round_at - time.monotonic()


def cut_while_it_waits(proxy: Proxy, poller: Poller) -> None:
    """Cut the poller's connections until it has noticed."""
    while poller.is_active:
        threading.Timer(0.02, proxy.cut).start()
        poller.next_round_at = time.monotonic() + 1
        poller.wait(1)


@pytest.fixture
def waker() -> Iterator[tuple[int, int]]:
    """A pipe, as a signal handler writes to it."""
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


def test_only_one_poller_is_active(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first, second = new_poller(), new_poller()

    for _ in range(3):
        next_round(first)
        next_round(second)

    assert (first.is_active, second.is_active) == (True, False)
    assert store.raw.get(base_key(store, "poller")) == first.id.encode()
    assert 0 < store.raw.pttl(base_key(store, "poller")) <= ACTIVE_LEASE_MS
    assert caplog.text.count("is active.") == 1
    assert f"Poller {first.id} is active." in caplog.text


def test_active_poller_starts_a_round_before_its_lease_expires(store: Store, settings: Any) -> None:
    taskqueue_settings(settings)
    poller = new_poller()

    next_round(poller)

    assert 0.5 < seconds_to_next(poller) <= ACTIVE_LEASE_MS / 1_000 - 2


@pytest.mark.parametrize("leased", [True, False], ids=["running", "scheduled"])
def test_rounds_are_more_frequent_while_a_task_runs_or_is_scheduled(
    redis_server: Store, settings: Any, leased: bool
) -> None:
    taskqueue_settings(settings)
    poller = new_poller()
    next_round(poller)
    if leased:
        note.enqueue("x")
        new_fetcher().fetch("0", 1)
    else:
        note.using(run_after=3_600).enqueue("x")

    next_round(poller)
    next_round(poller)

    assert seconds_to_next(poller) <= 2.0


def test_poller_makes_a_full_round_at_once_when_an_idle_one_finds_a_running_task(redis_server: Store) -> None:
    poller = new_poller()
    next_round(poller)
    let_recovery_begin()
    result = note.enqueue("x")
    new_fetcher().fetch("0", 1)
    end_lease(redis_server, result.id)

    next_round(poller)
    assert seconds_to_next(poller) <= 0
    poller.step()

    result.refresh()
    assert result.state == "ready"


def test_standby_starts_a_round_when_the_lease_expires(store: Store) -> None:
    first, second = new_poller(), new_poller()
    next_round(first)
    store.raw.pexpire(base_key(store, "poller"), 3_000)

    next_round(second)
    assert 0 < seconds_to_next(second) <= 3.0

    store.raw.pexpire(base_key(store, "poller"), 40)
    started_s = time.monotonic()
    next_round(second)
    assert second.is_active or started_s < second.next_round_at <= time.monotonic() + 0.05, "never in a busy loop"
    eventually(lambda: store.raw.exists(base_key(store, "poller")) == 0)
    next_round(second)
    assert second.is_active


def test_round_of_a_standby_writes_nothing(redis_server: Store) -> None:
    next_round(new_poller())
    standby = new_poller()
    next_round(standby)
    before = redis_server.raw.hgetall(base_key(redis_server, "contact"))

    next_round(standby)

    assert not standby.is_active
    assert redis_server.raw.hgetall(base_key(redis_server, "contact")) == before
    assert 0.05 < seconds_to_next(standby) <= ACTIVE_LEASE_MS / 1_000


def test_close_releases_the_lease(store: Store) -> None:
    first, second = new_poller(), new_poller()
    next_round(first)
    next_round(second)

    second.close()
    assert store.raw.exists(base_key(store, "poller")) == 1, "a standby has no lease"
    first.close()

    assert store.raw.exists(base_key(store, "poller")) == 0
    next_round(second)
    assert second.is_active


def test_close_keeps_the_lease_of_a_poller_that_took_over(store: Store) -> None:
    first, second = new_poller(), new_poller()
    next_round(first)
    store.raw.delete(base_key(store, "poller"))  # it expired while the first one stalled
    next_round(second)

    first.close()

    assert store.raw.get(base_key(store, "poller")) == second.id.encode()


def test_poller_that_lost_its_lease_is_inactive(store: Store) -> None:
    first = new_poller()
    next_round(first)
    store.raw.set(base_key(store, "poller"), "another", px=5_000)

    next_round(first)

    assert not first.is_active


def has_wakeup(store: Store, name: str) -> bool:
    return store.raw.exists(base_key(store, "wakeup", name)) == 1


def test_poller_notifies_each_queue_with_a_due_task(store: Store, settings: Any) -> None:
    taskqueue_settings(settings)
    for queue in ("due", "later", "empty"):
        result = note.using(queue_name=queue, run_after=60).enqueue(1)
        if queue != "later":
            fall_due(store, result, queue=queue)
        store.raw.delete(base_key(store, "wakeup", f"q:{queue}"))
    new_fetcher("empty").fetch("0", 1)
    store.raw.delete(base_key(store, "wakeup", "q:empty"))

    poller = new_poller()
    started = time.monotonic()
    next_round(poller)

    assert [has_wakeup(store, f"q:{queue}") for queue in ("due", "later", "empty")] == [True, False, False]
    assert started < poller.next_round_at <= time.monotonic() + 1.0, "it notifies again until the task is fetched"


def test_poller_sleeps_until_the_next_due_time(store: Store, settings: Any) -> None:
    taskqueue_settings(settings)
    poller = new_poller()
    note.using(run_after=1.5).enqueue(1)
    note.using(run_after=60, queue_name="mail").enqueue(1)
    started = time.monotonic()

    next_round(poller)

    assert started <= poller.next_round_at <= time.monotonic() + 1.501, "a due time is rounded up to a millisecond"


def test_earlier_task_wakes_the_poller(store: Store) -> None:
    poller = new_poller()
    next_round(poller)
    poller.next_round_at = time.monotonic() + 60
    threading.Timer(0.02, lambda: note.using(run_after=60).enqueue(1)).start()

    poller.wait(60)

    assert seconds_to_next(poller) < 0, "the next round is due now"
    poller.close()


def test_wait_ends_after_its_timeout_or_at_the_next_round(store: Store, settings: Any) -> None:
    taskqueue_settings(settings)
    poller = new_poller()
    next_round(poller)

    poller.wait(0.01)
    assert seconds_to_next(poller) > 0.0
    poller.next_round_at = time.monotonic() + 0.01
    poller.wait(60)
    poller.step()

    assert seconds_to_next(poller) > 0.0
    poller.step()
    poller.close()


def test_wake_descriptor_ends_a_wait(store: Store, waker: tuple[int, int]) -> None:
    poller = new_poller(wake_fd=waker[0])
    next_round(poller)
    poller.next_round_at = time.monotonic() + 60
    os.write(waker[1], b"x")

    poller.wait(60)

    assert seconds_to_next(poller) > 0.0
    poller.close()


def lose_a_task(store: Store) -> str:
    """A task whose worker has died; its id."""
    result = note.enqueue("lost")
    new_fetcher(worker=f"dead:{result.id}").fetch("0", 1)
    end_lease(store, result.id)
    return result.id


def contact(store: Store, **from_now_ms: int) -> None:
    """Set fields of the contact record (`last_ms`, `hold_ms`), in milliseconds from now."""
    now_ms = int(server_ms(store))
    fields = {name.removesuffix("_ms"): now_ms + ms for name, ms in {"last_ms": 0, **from_now_ms}.items()}
    store.raw.hset(base_key(store, "contact"), mapping=fields)


def hold_ms(store: Store) -> float:
    """For how long nothing is recovered from now."""
    return float(store.raw.hget(base_key(store, "contact"), "hold")) - server_ms(store)


def waits_in_front(store: Store) -> list[bytes]:
    found: list[bytes] = store.raw.lrange(queue_key(store, "requeued"), 0, -1)
    return found


def test_task_of_a_dead_worker_is_recovered(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    task_id = lose_a_task(store)
    poller = new_poller()

    def brought_back() -> bool:
        next_round(poller)
        return waits_in_front(store) == [task_id.encode()]

    eventually(brought_back)

    assert has_wakeup(store, "q:default")
    assert f"Task {task_id} (queue default) has lost its worker: returned to its queue." in caplog.text


def test_nothing_is_recovered_in_the_first_lease_of_a_poller(store: Store, settings: Any) -> None:
    """After an outage the workers need that long to renew their leases."""
    taskqueue_settings(settings, LEASE=60)
    lose_a_task(store)
    poller = new_poller()

    next_round(poller)
    next_round(poller)

    assert waits_in_front(store) == []
    assert hold_ms(store) == pytest.approx(21_000, abs=8_000)
    contact(store, hold_ms=-1)
    next_round(poller)
    assert len(waits_in_front(store)) == 1


def test_poller_that_starts_recovers_at_once_while_supervisors_renew(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60)
    lose_a_task(store)
    let_recovery_begin()

    next_round(new_poller())

    assert len(waits_in_front(store)) == 1


def test_poller_that_starts_alone_recovers_before_a_lease_is_over(redis_server: Store, settings: Any) -> None:
    """As after a restart of the only worker: its leases ended long ago."""
    taskqueue_settings(settings, LEASE=30)
    lose_a_task(redis_server)
    contact(redis_server, last_ms=-3_600_000)
    poller = new_poller()

    next_round(poller)

    assert waits_in_front(redis_server) == []
    assert hold_ms(redis_server) == pytest.approx(11_000, abs=8_000)
    contact(redis_server, hold_ms=-1)
    next_round(poller)
    assert len(waits_in_front(redis_server)) == 1


@pytest.mark.parametrize("gap_ms", [16_000, 3_600_000, -7_200_000], ids=["stall", "clock forward", "clock back"])
def test_recovery_after_a_gap_waits_for_renewals(redis_server: Store, settings: Any, gap_ms: int) -> None:
    taskqueue_settings(settings, LEASE=30)
    task_id = lose_a_task(redis_server)
    poller = new_poller()
    next_round(poller)
    contact(redis_server, last_ms=-gap_ms, hold_ms=-1)

    next_round(poller)

    assert waits_in_front(redis_server) == []
    assert hold_ms(redis_server) == pytest.approx(30_000, abs=8_000)
    contact(redis_server, hold_ms=-1)
    next_round(poller)
    assert waits_in_front(redis_server) == [task_id.encode()]


@pytest.mark.parametrize("leases", [True, False], ids=["busy", "idle"])
def test_renewal_after_a_gap_delays_the_recovery(redis_server: Store, settings: Any, leases: bool) -> None:
    taskqueue_settings(settings, LEASE=30)
    lose_a_task(redis_server)
    poller = new_poller()
    next_round(poller)
    contact(redis_server, last_ms=-16_000, hold_ms=-1)

    pairs = ["some-task", "some-token"] if leases else []
    connections.client().execute(renewal("here", pairs, lease_ms=30_000))
    next_round(poller)

    assert waits_in_front(redis_server) == []


def test_shortest_lease_in_use_decides_what_a_gap_is(redis_server: Store, settings: Any) -> None:
    """While a site changes LEASE some workers have the old one."""
    taskqueue_settings(settings, LEASE=60)
    lose_a_task(redis_server)
    poller = new_poller()
    next_round(poller)
    connections.client().execute(renewal("other", [], lease_ms=10_000))
    contact(redis_server, last_ms=-6_000, hold_ms=-1)

    next_round(poller)

    assert waits_in_front(redis_server) == []
    assert hold_ms(redis_server) == pytest.approx(60_000, abs=8_000)


def test_lease_of_a_dead_worker_expires_although_the_clock_was_set_back(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=30)
    dead, alive = lose_a_task(redis_server), note.enqueue("alive").id
    [job] = new_fetcher(worker="alive").fetch("0", 1)
    two_hours_ahead = server_ms(redis_server) + 7_200_000
    redis_server.raw.zadd(queue_key(redis_server, "running"), {dead: two_hours_ahead, alive: two_hours_ahead}, xx=True)
    redis_server.raw.zadd(base_key(redis_server, "workers"), {"dead": two_hours_ahead})
    redis_server.raw.set(base_key(redis_server, "poller"), "dead", px=7_200_000)
    contact(redis_server, last_ms=7_200_000)
    poller = new_poller()

    next_round(poller)

    assert poller.is_active, "the lease of a dead poller is taken over"
    assert redis_server.raw.zscore(base_key(redis_server, "workers"), "dead") is None
    call = renewal("alive", [job.id, job.token], lease_ms=30_000)
    assert connections.client().execute(call)[:3] == [[], [], []]
    contact(redis_server, hold_ms=-1)
    next_round(poller)
    assert waits_in_front(redis_server) == [dead.encode()]


def test_failure_of_a_task_that_kills_its_workers_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = note.using(max_deliveries=1).enqueue("killer")
    new_fetcher(worker="dead").fetch("0", 1)
    end_lease(store, result.id)
    poller = new_poller()
    let_recovery_begin()

    next_round(poller)
    next_round(poller)

    assert f"Task {result.id} (queue default) has lost its worker: failed." in caplog.text


def test_poller_prunes_once_a_minute(store: Store) -> None:
    poller = new_poller()
    store.raw.zadd(base_key(store, "workers"), {"gone": 1})
    next_round(poller)
    assert store.raw.exists(base_key(store, "workers")) == 0
    store.raw.zadd(base_key(store, "workers"), {"gone": 1})

    next_round(poller)
    assert store.raw.exists(base_key(store, "workers")) == 1
    poller.next_prune_at = 0.0
    next_round(poller)

    assert store.raw.exists(base_key(store, "workers")) == 0


@pytest.mark.parametrize("with_signal", [True, False])
def test_nothing_is_recovered_for_a_lease_after_an_outage(
    proxy: Proxy,
    redis_server: Store,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    waker: tuple[int, int],
    with_signal: bool,
) -> None:
    monkeypatch.setattr(poller_module.random, "uniform", lambda low, high: 0.2)
    taskqueue_settings(settings, LEASE=60)
    poller = new_poller("proxied", waker[0] if with_signal else None)
    let_recovery_begin()
    next_round(poller)
    proxy.stop_accepting()
    proxy.cut()

    unavailable_at = time.monotonic()
    next_round(poller)
    lose_a_task(redis_server)
    assert "Poller: Redis is unavailable (" in caplog.text
    assert not poller.is_active
    assert unavailable_at < poller.next_round_at <= time.monotonic() + 0.2
    poller.wait(60)
    contact(redis_server, last_ms=-40_000, hold_ms=-1)  # as if the outage had lasted for that long
    proxy.accept_again()

    next_round(poller)
    next_round(poller)
    assert poller.is_active
    assert waits_in_front(redis_server) == []
    assert hold_ms(redis_server) == pytest.approx(60_000, abs=20_000)
    contact(redis_server, hold_ms=-1)
    next_round(poller)
    assert len(waits_in_front(redis_server)) == 1
    poller.close()


def test_cut_connection_does_not_delay_the_recovery(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    """If that happened more often than leases expire, nothing would ever be recovered."""
    taskqueue_settings(settings, LEASE=60)
    poller = new_poller("proxied")
    let_recovery_begin()
    next_round(poller)
    cut_while_it_waits(proxy, poller)
    lose_a_task(redis_server)

    next_round(poller)
    next_round(poller)

    assert len(waits_in_front(redis_server)) == 1
    poller.close()


def test_restart_of_the_server_delays_the_recovery(own_server: Store, settings: Any) -> None:
    """It may have restarted with old data, in which live leases look expired."""
    taskqueue_settings(settings, LEASE=60)
    poller = new_poller()
    let_recovery_begin()
    next_round(poller)
    lose_a_task(own_server)
    own_server.servers[0].stop()
    next_round(poller)
    assert not poller.is_active
    own_server.servers[0].start()

    next_round(poller)
    next_round(poller)

    assert poller.is_active
    assert waits_in_front(own_server) == []
    assert hold_ms(own_server) > 50_000
    poller.close()


def test_every_error_delays_the_recovery_without_permission_for_info(
    proxy: Proxy, redis_server: Store, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=60)
    user = f"user-{redis_server.prefix}"
    redis_server.raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", "-info")
    url = proxy.url.replace("redis://", f"redis://{user}:secret@")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}
    poller = new_poller()
    let_recovery_begin()
    next_round(poller)

    cut_while_it_waits(proxy, poller)
    next_round(poller)

    assert poller.is_active
    assert hold_ms(redis_server) > 50_000
    poller.close()
    redis_server.raw.execute_command("ACL", "DELUSER", user)


def test_outage_is_noticed_during_a_wait(proxy: Proxy, redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    poller = new_poller("proxied")
    next_round(poller)
    threading.Timer(0.02, lambda: (proxy.stop_accepting(), proxy.cut())).start()

    eventually(lambda: (poller.wait(1), "Redis is unavailable" in caplog.text)[1])

    assert not poller.is_active
    poller.close()


def test_close_succeeds_while_redis_is_unavailable(proxy: Proxy, redis_server: Store) -> None:
    poller = new_poller("proxied")
    next_round(poller)
    proxy.stop_accepting()
    proxy.cut()

    poller.close()

    assert redis_server.raw.exists(base_key(redis_server, "poller")) == 1


def test_one_round_recovers_two_hundred_tasks(redis_server: Store, settings: Any) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(250)])
    new_fetcher(worker="dead").fetch("0", 250)
    end_lease(redis_server, *[result.id for result in results])
    taskqueue_settings(settings, LEASE=60)
    poller = new_poller()
    let_recovery_begin()

    next_round(poller)
    assert len(waits_in_front(redis_server)) == 200
    next_round(poller)
    assert len(waits_in_front(redis_server)) == 250


def test_recovered_task_runs_on_another_worker(store: Store) -> None:
    task_id = lose_a_task(store)
    poller = new_poller()
    with running_worker():

        def ran() -> bool:
            next_round(poller)
            poller.wait(0.05)
            return recorded == ["lost"]

        eventually(ran)
        assert note.get_result(task_id).get(60) == "lost"
    poller.close()
