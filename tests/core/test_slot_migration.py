"""A Cluster slot that is being moved: requests wait, and no script runs after ASK."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import TryAgainError

from django_redis_components.core.client import connections, retry
from django_redis_components.core.client.budget import page_budget, spend
from django_redis_components.core.client.exceptions import OutOfTime, SlotMigrating
from django_redis_components.core.client.retry import MAX_REDIRECTS
from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.core.client.topology import topology_of
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Batch, BoundedSlotWait, Command, Flow, Read, Wait
from django_redis_components.core.scripts import guard_key
from django_redis_components.core.slot_waits import slot_wait_limit
from tests.conftest import components_settings
from tests.core.conftest import Driver
from tests.core.sample import PAIR, PUT
from tests.core.slots import Move, moving, node_id
from tests.support import Store, eventually
from tests.support.clusters import start_cluster
from tests.support.killing import kill_all
from tests.support.pools import close_pools
from tools.localserver import valkey_binary


@pytest.fixture(params=["cluster", "cluster7"])
def cluster(request: pytest.FixtureRequest, stores: Any, settings: Any) -> Iterator[Store]:
    """A Cluster of Valkey, and one of Redis 7."""
    lent = stores.get(request.param).for_test(f"slots-{request.param}")
    settings.REDIS_COMPONENTS = components_settings(lent)
    yield lent
    close_pools()
    lent.delete_keys()


def migration_timeout(settings: Any, seconds: float, **options: Any) -> None:
    """How long requests wait for a moving slot."""
    entry = settings.REDIS_COMPONENTS["CONNECTIONS"]["default"] | options
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {
        "CONNECTIONS": {"default": {**entry, "SLOT_MIGRATION_TIMEOUT": seconds}}
    }


def named(cluster: Store, name: str) -> str:
    return f"{cluster.prefix}:{{slot}}:{name}"


def asking_commands(move: Move) -> int:
    return sum("cmdstat_asking" in node.info("commandstats") for node in move.everyone)


def finish_when_asked(move: Move) -> threading.Thread:
    """Finish the move once the source has refused a request."""
    before = refused(move.source)

    def finish() -> None:
        eventually(lambda: refused(move.source) > before)
        move.finish()

    thread = threading.Thread(target=finish)
    thread.start()
    return thread


def refused(node: redis.Redis) -> int:
    """Return the numbers of ASK and TRYAGAIN replies of the node."""
    stats = node.info("errorstats")
    return sum(int(stats.get(f"errorstat_{name}", {"count": 0})["count"]) for name in ("ASK", "TRYAGAIN"))


def test_requests_wait_until_the_slot_of_their_keys_has_moved(cluster: Store, settings: Any, drive: Driver) -> None:
    migration_timeout(settings, 30, RETRIES=0)
    here, gone = named(cluster, "here"), named(cluster, "gone")
    requests = {
        "command": (Command("INCR", gone), 2),
        "several keys": (Read("MGET", here, gone), [b"1", b"1"]),
        "batch": (Batch([Command("INCR", gone), Command("INCR", here), Read("ECHO", "x", key=here)]), [2, 2, b"x"]),
        "script": (PUT(target=here, counter=gone, value="v"), [2, 42]),
    }

    for request, reply in requests.values():
        with moving(cluster, here) as move:
            drive.ask(Command("MSET", here, 1, gone, 1))
            move.begin()
            move.carry(gone)
            mover = finish_when_asked(move)

            assert drive.ask(request) == reply
            mover.join()
            assert asking_commands(move) == 0


def test_request_whose_keys_are_all_at_the_source_does_not_wait(cluster: Store, settings: Any, drive: Driver) -> None:
    migration_timeout(settings, 0)

    with moving(cluster, named(cluster, "here")) as move:
        drive.ask(Command("SET", named(cluster, "here"), 1))
        move.begin()

        assert drive.ask(Command("INCR", named(cluster, "here"))) == 2


@pytest.mark.parametrize("carried", [0, 1, 2], ids=["all keys at the source", "the derived one gone", "all gone"])
def test_script_that_derives_keys_never_runs_on_half_of_them(
    cluster: Store, settings: Any, drive: Driver, carried: int
) -> None:
    base = named(cluster, "base")
    gone = [f"{base}:log", base][:carried]

    with moving(cluster, base) as move:
        assert drive.ask(PAIR(base=base, value="one")) == [1, 1]
        move.begin()
        if gone:
            move.carry(*gone)
        mover = finish_when_asked(move)

        assert drive.ask(PAIR(base=base, value="two")) == [2, 2]
        mover.join()
        assert asking_commands(move) == 0
        assert move.target.exists(guard_key(base)) == 0


def test_script_waits_for_a_slot_whose_target_has_not_loaded_it(cluster: Store, settings: Any, drive: Driver) -> None:
    base = named(cluster, "base")

    with moving(cluster, base) as move:
        drive.ask(PAIR(base=base, value="one"))
        move.begin()
        for node in (move.source, move.target):
            node.script_flush()
        mover = finish_when_asked(move)

        assert drive.ask(Batch([PAIR(base=base, value="two"), PAIR(base=base, value="three")])) == [[2, 2], [3, 3]]
        mover.join()


def test_guard_key_is_sent_only_to_a_cluster(redis_server: Store, drive: Driver) -> None:
    call = PAIR(base="drc:{x}", value="v")

    assert call.command_args()[2:] == ("1", "drc:{x}", "v")
    assert call.command_args(True)[2:] == ("2", "drc:{x}", "drc:{x}:guard", "v")
    assert PUT(target="{a}1", counter="{a}2", value="v").command_args(True)[2:] == ("2", "{a}1", "{a}2", "v")


@pytest.mark.parametrize("key", ["drc:{x}:y", b"drc:{x}:y", "plain", 7])
def test_guard_key_is_in_the_slot_of_the_key(key: Any) -> None:
    assert slot_of(guard_key(key)) == slot_of(key)


def test_slow_migration_raises_and_nothing_was_executed(cluster: Store, settings: Any, drive: Driver) -> None:
    migration_timeout(settings, 0.3)
    name = named(cluster, "n")

    with moving(cluster, name) as move:
        move.begin()
        for request in (Command("INCR", name), Batch([Command("INCR", name)]), PAIR(base=name, value="v")):
            started_at = time.monotonic()
            with pytest.raises(SlotMigrating) as caught:
                drive.ask(request)

            assert time.monotonic() - started_at >= 0.3
            assert isinstance(caught.value, RedisComponentsError)
            assert isinstance(caught.value, TryAgainError)
            assert caught.value.slot == slot_of(name)
            assert caught.value.waited_s >= 0.3
            assert str(caught.value).startswith(f"Slot {slot_of(name)} of the Cluster 127.0.0.1:")
            assert str(caught.value).endswith(
                f"is being moved to another node; waited for {caught.value.waited_s:.1f} s. "
                "Nothing was executed: try again later."
            )
    assert cluster.raw.exists(name) == 0


def test_bounded_slot_wait_limits_the_wait(cluster: Store, drive: Driver) -> None:
    name = named(cluster, "n")

    with moving(cluster, name) as move:
        move.begin()
        started_at = time.monotonic()
        for seconds in (0, 0.2):
            with pytest.raises(SlotMigrating):
                drive.ask(BoundedSlotWait(seconds, Command("INCR", name)))
        with pytest.raises(SlotMigrating), slot_wait_limit(0.1), slot_wait_limit(50):
            connections.client().execute(Command("INCR", name))
        assert time.monotonic() - started_at < 10


def test_only_the_requests_of_the_moving_slot_fail_in_a_batch(cluster: Store, drive: Driver) -> None:
    name, other = named(cluster, "n"), f"{cluster.prefix}:other"

    with moving(cluster, name) as move:
        move.begin()
        batch = Batch([Command("INCR", other), Command("INCR", name)], return_exceptions=True)
        done, failed = drive.ask(BoundedSlotWait(0, batch))

    assert done == 1
    assert isinstance(failed, SlotMigrating)


def test_wait_for_a_slot_is_logged_at_its_start_and_its_end(
    cluster: Store, drive: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "django_redis_components.core.client.slot_migration")
    name = named(cluster, "n")
    slot = slot_of(name)

    with moving(cluster, name) as move:
        move.begin()
        mover = finish_when_asked(move)
        assert drive.ask(Batch([Command("INCR", name), Command("INCR", name)])) == [1, 2]
        mover.join()

    warning, info = caplog.records
    assert (warning.levelname, info.levelname) == ("WARNING", "INFO")
    assert warning.getMessage().startswith(f"Slot {slot} of the Cluster 127.0.0.1:")
    assert warning.getMessage().endswith("is being moved to another node: its requests wait, at most 60 s each.")
    assert info.getMessage().startswith(f"Slot {slot} of the Cluster is served again; its requests waited for ")


def test_blocking_wait_on_a_moving_slot_ends_early(cluster: Store, drive: Driver) -> None:
    name = named(cluster, "wakeup")

    with moving(cluster, name) as move:
        move.begin()

        assert drive.ask(Wait(name, 30)) is None


def test_wakeup_listener_survives_a_migration(cluster: Store) -> None:
    name = named(cluster, "wakeups")
    listener = WakeupListener(connections.client(), [name])

    with moving(cluster, name) as move:
        assert not listener.wait(0.01)  # the block stays outstanding
        move.begin()
        assert not listener.wait(0.01)
        move.finish()
        eventually(lambda: not listener.wait(0.01) and cluster.raw.zadd(name, {"one": 1}) and listener.wait(5))
    listener.close()


def test_slot_can_move_during_concurrent_requests(cluster: Store, drive: Driver) -> None:
    base, stop, replies = named(cluster, "busy"), threading.Event(), list[list[int]]()

    def flow() -> Flow[None]:
        while not stop.is_set():
            replies.append((yield PAIR(base=base, value="v")))
            replies.extend((yield Batch([PAIR(base=base, value="v"), PAIR(base=base, value="v")])))

    worker = threading.Thread(target=lambda: drive(flow()))
    with moving(cluster, base) as move:
        worker.start()
        for each in (move, move.back()):
            seen = len(replies)
            eventually(lambda seen=seen: len(replies) > seen + 20)
            each.begin()
            each.finish()
        stop.set()
        worker.join(60)
    assert replies == [[number, number] for number in range(1, len(replies) + 1)]


def test_request_waits_for_nodes_that_redirect_to_each_other(stores: Any, settings: Any, drive: Driver) -> None:
    servers = start_cluster(valkey_binary(), stores.new_directory("disagree"), masters=2)
    try:
        first, second = (redis.Redis(host="127.0.0.1", port=server.port) for server in servers)
        slot = 100
        name = next(str(number) for number in range(100_000) if slot_of(number) == slot)
        url = f"redis+cluster://127.0.0.1:{servers[0].port}"
        settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": url, "RETRIES": 0}}}
        requests = (Command("INCR", name), Batch([Command("INCR", name)]))

        def agree() -> None:
            before = redirected(first)
            eventually(lambda: redirected(first) > before + MAX_REDIRECTS)
            first.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(first))

        for request in requests:
            first.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(second))
            agreeing = threading.Thread(target=agree)
            agreeing.start()
            assert drive.ask(request) in (1, [1])
            agreeing.join()
            first.delete(name)  # a node gives away no slot that has keys

        first.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(second))
        migration_timeout(settings, 0.05)
        text = r"^The nodes of the cluster disagree about the node of the slot of .*: the last redirection named "
        for request in requests:
            with pytest.raises(redis.exceptions.ClusterDownError, match=text + r"127\.0\.0\.1:\d+\. Server: 127"):
                drive.ask(request)
        migration_timeout(settings, 600)  # a page would not end
        with pytest.raises(redis.exceptions.ClusterDownError, match=text):
            connections.page_client("default", 1).execute(requests[0])
        with page_budget(1) as budget, pytest.raises(redis.exceptions.ClusterDownError, match=text):
            drive.ask(requests[0])
        assert budget.left_s == 0
        first.close()
        second.close()
    finally:
        close_pools()
        kill_all(servers)


def redirected(node: redis.Redis) -> int:
    """Return the number of MOVED replies of a node."""
    return int(node.info("errorstats").get("errorstat_MOVED", {"count": 0})["count"])


@pytest.mark.parametrize("is_batch", [False, True])
def test_redirection_is_followed_after_the_time_limit_of_the_request(cluster: Store, is_batch: bool) -> None:
    client, read = connections.client(), Read("GET", named(cluster, "late"))
    limits = retry.RetryLimits(client.endpoint.settings, time.monotonic() - 60)
    moved, topology = redis.exceptions.MovedError("100 127.0.0.1:7001"), topology_of(client.endpoint)

    if is_batch:
        steps = retry.recover_many([read], [moved], topology, limits)
    else:
        steps = retry.recover(read, moved, topology, limits)
    sent = next(steps)

    assert isinstance(sent, retry.SendCommands)
    assert str(sent.node) == "127.0.0.1:7001"
    assert 0 < limits.left_s() <= retry.ANSWERED_S
    with pytest.raises(StopIteration) as end:
        steps.send([b"value"])
    assert end.value.value in (b"value", [b"value"])


def test_request_for_which_no_time_is_left_after_a_wait_ends_with_the_error_before_it(cluster: Store) -> None:
    client, read = connections.client(), Read("GET", named(cluster, "late"))
    limits, topology = retry.RetryLimits(client.endpoint.settings, time.monotonic()), topology_of(client.endpoint)
    moved = redis.exceptions.MovedError("100 127.0.0.1:7001")
    steps = retry.recover(read, moved, topology, limits)

    with page_budget(2.0):
        step = next(steps)
        while not isinstance(step, retry.Backoff):
            step = steps.send([moved])
        assert isinstance(steps.send(None), retry.SendCommands)
        spend(2.0)
        with pytest.raises(redis.exceptions.ClusterDownError, match="disagree"):
            steps.throw(OutOfTime("the server did not answer within 5 s."))


def test_wait_for_nodes_that_redirect_to_each_other_ends_with_the_budget_of_the_page(cluster: Store) -> None:
    client, read = connections.client(), Read("GET", named(cluster, "budget"))
    limits, topology = retry.RetryLimits(client.endpoint.settings, time.monotonic()), topology_of(client.endpoint)
    moved, waits = redis.exceptions.MovedError("100 127.0.0.1:7001"), []
    steps = retry.recover(read, moved, topology, limits)

    def answer_with_moved() -> None:
        step = next(steps)
        for _ in range(200):
            if isinstance(step, retry.Backoff):
                waits.append(step.seconds)
                step = steps.send(None)
            else:
                assert limits.left_s() > 0, "an attempt that has no time is not one"
                step = steps.send([moved])

    with page_budget(2.0) as budget, pytest.raises(redis.exceptions.ClusterDownError):
        answer_with_moved()

    assert sum(waits) == pytest.approx(2.0)
    assert budget.left_s == 0


def test_wait_for_a_moving_slot_ends_with_the_budget_of_the_page(cluster: Store, settings: Any, drive: Driver) -> None:
    migration_timeout(settings, 1)
    here, gone = named(cluster, "here"), named(cluster, "gone")
    drive.ask(Command("MSET", here, 1, gone, 1))

    with moving(cluster, here) as move:
        move.begin()
        move.carry(gone)
        with page_budget(0.1) as budget, pytest.raises(SlotMigrating):
            drive.ask(Command("INCR", gone))

    assert budget.left_s == 0
