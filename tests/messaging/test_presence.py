"""Presence and typing: users who are listed until their time has passed."""

from __future__ import annotations

import pytest

from django_redis_components.messaging import Presence, Typing
from tests.support import Store, eventually, run_async


@pytest.mark.contract
def test_users_are_present_until_they_leave_or_their_time_has_passed(store: Store) -> None:
    room, typing = Presence("room", ttl=600), Typing("room")
    room.touch(1)
    room.touch("b")
    typing.touch("b")
    Presence("room", ttl=0.001).touch("short")

    eventually(lambda: sorted(room.users()) == ["1", "b"])
    assert typing.users() == ["b"]
    room.remove(1)
    assert room.users() == ["b"]
    assert 0 < store.raw.pttl(f"{store.prefix}:messaging:{{{typing.name}}}:typing") <= 6_000
    assert 500_000 < store.raw.pttl(f"{store.prefix}:messaging:{{{room.name}}}:presence") <= 600_000


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    async def scene() -> list[object]:
        room = Typing("room")
        await room.atouch("a")
        found: list[object] = [await room.ausers()]
        await room.aremove("a")
        return [*found, await room.ausers()]

    assert run_async(scene) == [["a"], []]
    assert store.keys() == []


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="name of a presence is empty"):
        Presence("")
    with pytest.raises(ValueError, match="ttl=0: expected a number of seconds above 0"):
        Typing("room", ttl=0)
    with pytest.raises(TypeError, match="user=None: expected a string, an integer or a UUID"):
        Typing("room").touch(None)  # type: ignore[arg-type]
