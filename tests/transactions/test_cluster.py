"""On a Cluster, all keys of a transaction must be in one slot."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
import redis
from redis.exceptions import ClusterCrossSlotError

from django_redis_components.core.client.exceptions import SlotMigrating
from django_redis_components.transactions import aatomic_update, atomic_update
from tests.core.slots import Move, moving
from tests.support import Store, run_async
from tests.transactions.accounts import double

pytestmark = pytest.mark.parametrize("store", ["cluster"], indirect=True)


def test_keys_in_several_slots_raise(store: Store) -> None:
    expected = (
        "keys 'a' and 'b' are in different Cluster slots: give them the same hash tag, such as "
        "'stock:{42}' and 'sold:{42}'."
    )
    with pytest.raises(ValueError, match="keys 'a' and 'b'") as raised:
        atomic_update(double("a"), "a", "b")

    assert str(raised.value) == expected
    with pytest.raises(ValueError, match="keys 'a' and 'b'"):
        run_async(lambda: aatomic_update(double("a"), "a", "b"))


@pytest.mark.parametrize("queued", [False, True], ids=["at once", "queued"])
def test_command_on_a_key_of_another_slot_raises(store: Store, queued: bool) -> None:
    def far(pipe: Any) -> None:
        if queued:
            pipe.multi()
        for number in range(50):
            pipe.get(f"elsewhere:{number}")

    with pytest.raises(ClusterCrossSlotError, match="is in another Cluster slot than the watched keys"):
        atomic_update(far, f"{{{store.prefix}}}:here")


def test_keys_with_one_hash_tag_are_accepted(store: Store) -> None:
    for number in range(12):
        tag = f"{store.prefix}:{number}"
        key = f"account:{{{tag}}}"
        store.raw.set(key, 5)

        assert atomic_update(double(key), key, f"log:{{{tag}}}") == 10
        store.raw.delete(key)


class Mover:
    """Doubles a balance whose slot starts to migrate during the read."""

    def __init__(self, key: str, move: Move, *, carry: bool) -> None:
        self.key, self.move, self.carry = key, move, carry
        self.calls = 0
        self.later = threading.Timer(0.2, move.finish)

    def __call__(self, pipe: Any) -> int:
        balance = self.read(pipe)
        pipe.multi()
        pipe.set(self.key, balance * 2)
        return balance * 2

    def read(self, pipe: Any) -> int:
        self.calls += 1
        balance = int(pipe.get(self.key))
        if self.calls == 1:
            self.move.begin()
            if self.carry:
                self.move.carry(self.key)
            self.later.start()
            balance = int(pipe.get(self.key))
        return balance


@pytest.mark.parametrize("carry", [False, True], ids=["before the keys", "and the keys are gone"])
def test_transaction_waits_for_a_slot_that_starts_to_migrate(store: Store, carry: bool) -> None:
    key = f"{store.prefix}:{{account}}"
    store.raw.set(key, 5, px=60_000)

    with moving(store, key) as move:
        double_it = Mover(key, move, carry=carry)
        assert atomic_update(double_it, key, max_attempts=2, timeout=30) == 10
        double_it.later.join()

        assert store.raw.get(key) == b"10"
        assert double_it.calls == 2


def test_waiting_for_a_migrating_slot_uses_no_attempt(store: Store) -> None:
    key = f"{store.prefix}:{{account}}"
    store.raw.set(key, 5, px=60_000)

    with moving(store, key) as move:
        move.begin()
        later = threading.Timer(0.2, move.finish)
        later.start()

        assert atomic_update(double(key), key, max_attempts=1, timeout=30) == 10
        later.join()


@pytest.mark.parametrize("attempts", [1, 5])
def test_slot_that_migrates_longer_than_the_timeout_raises(store: Store, attempts: int) -> None:
    key = f"{store.prefix}:{{account}}"
    store.raw.set(key, 5, px=60_000)

    with moving(store, key) as move:
        move.begin()
        with pytest.raises(SlotMigrating, match="Nothing was executed"):
            atomic_update(double(key), key, max_attempts=attempts, timeout=0.2)
        with pytest.raises(SlotMigrating, match="Nothing was executed"):
            run_async(lambda: aatomic_update(double(key), key, max_attempts=attempts, timeout=0.2))

    assert store.raw.get(key) == b"5"


@pytest.mark.parametrize("update", [atomic_update, partial(run_async, aatomic_update)], ids=["sync", "async"])
def test_node_that_lost_the_connection_is_asked_for_the_slots_last(store: Store, update: Any) -> None:
    key = f"{{06S}}:{store.prefix}"  # of slot 0: its node is the first one otherwise
    address = store.raw.get_node_from_key(key)
    calls = []

    with redis.Redis(address.host, address.port) as raw:

        def count(pipe: Any) -> None:
            calls.append(raw.info("commandstats").get("cmdstat_cluster|slots", {"calls": 0})["calls"])
            if len(calls) == 1:
                for client in [each for each in raw.client_list() if each["cmd"] == "watch"]:
                    raw.client_kill_filter(_id=client["id"])
            pipe.multi()
            pipe.set(key, 1)

        update(count, key)
        raw.delete(key)

    assert len(calls) == 2
    assert calls[0] == calls[1]
