"""On a Cluster all keys lie in one slot, or an error says so."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ClusterCrossSlotError

from django_redis_components.transactions import aatomic_update, atomic_update
from tests.support import Store, run_async
from tests.transactions.accounts import double

pytestmark = pytest.mark.parametrize("store", ["cluster"], indirect=True)


def test_keys_in_several_slots_are_refused_at_the_door(store: Store) -> None:
    expected = (
        "keys 'a' and 'b' lie in different slots of the Cluster: give them one hash tag, as in "
        "'stock:{42}' and 'sold:{42}'."
    )
    with pytest.raises(ValueError, match="keys 'a' and 'b'") as raised:
        atomic_update(double("a"), "a", "b")

    assert str(raised.value) == expected
    with pytest.raises(ValueError, match="keys 'a' and 'b'"):
        run_async(lambda: aatomic_update(double("a"), "a", "b"))


@pytest.mark.parametrize("queued", [False, True], ids=["at once", "queued"])
def test_a_command_on_another_node_says_what_to_do(store: Store, queued: bool) -> None:
    def far(pipe: Any) -> None:
        if queued:
            pipe.multi()
        for number in range(50):
            pipe.get(f"elsewhere:{number}")

    with pytest.raises(ClusterCrossSlotError, match="lies in another slot of the Cluster than the watched keys"):
        atomic_update(far, f"{{{store.prefix}}}:here")


def test_keys_of_one_tag_are_fine_wherever_they_lie(store: Store) -> None:
    for number in range(12):
        tag = f"{store.prefix}:{number}"
        key = f"account:{{{tag}}}"
        store.raw.set(key, 5)

        assert atomic_update(double(key), key, f"log:{{{tag}}}") == 10
        store.raw.delete(key)
