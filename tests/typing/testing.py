"""Helpers for tests."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.locks import Lock, ReadWriteLock
from django_redis_components.messaging import Mailbox, Message
from django_redis_components.taskqueue import TaskResult
from django_redis_components.testing import (
    assert_message_sent,
    assert_not_held,
    captured,
    deny_hits,
    drain,
    embedded_server,
    held_elsewhere,
)


@deny_hits("login")
def decorated(number: int) -> str:
    return str(number)


def right() -> None:
    assert_type(decorated(1), str)
    with embedded_server() as server, captured() as sent, held_elsewhere(Lock("stock")):
        assert_type(server.url, str)
        assert_type(sent.run(), None)
    assert_type(drain("mail", advance=5), list[TaskResult])
    assert_type(assert_message_sent(Mailbox("ada"), count=1), list[Message])


def wrong() -> None:
    decorated("one")  # type: ignore[arg-type]
    drain(5)  # type: ignore[arg-type]
    assert_not_held(ReadWriteLock("file"))  # type: ignore[arg-type]
    assert_message_sent("lobby")  # type: ignore[arg-type]
