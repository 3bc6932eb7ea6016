"""Waiting for descriptors with `select`, where the platform has no `poll`."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from django_redis_components.core.polling import POLLIN, SelectPoller, new_poller

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_poll_of_the_platform_is_used_where_it_exists() -> None:
    assert new_poller is select.poll
    assert POLLIN == select.POLLIN


@pytest.mark.parametrize("as_number", [True, False])
def test_readable_descriptors_are_returned(pair: Pair, as_number: bool) -> None:
    one, other = pair
    poller = SelectPoller()
    poller.register(one.fileno() if as_number else one, POLLIN)
    before = poller.poll(0)
    other.send(b"x")

    assert (before, poller.poll(60_000)) == ([], [(one.fileno(), POLLIN)])


def test_closed_connection_is_readable(pair: Pair) -> None:
    one, other = pair
    poller = SelectPoller()
    poller.register(one, POLLIN)
    other.close()

    assert poller.poll(60_000) == [(one.fileno(), POLLIN)]


def test_poller_without_descriptors_waits() -> None:
    assert SelectPoller().poll(1) == []
