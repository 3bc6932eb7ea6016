"""Mailboxes: messages for one owner."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any

from django_redis_components.core.arguments import check_int
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Command, Flow, Read
from django_redis_components.core.units import Seconds, to_ms, to_seconds
from django_redis_components.messaging import arguments, keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.message import Messages, read_entries
from django_redis_components.messaging.message_wait import wait_until
from django_redis_components.messaging.scripts import MAILBOX_ACK, MAILBOX_FETCH, MAILBOX_SEND

#: Largest limit of a mailbox.
MAX_MESSAGES = 1_000_000
#: Messages that one script of an ack removes.
MAX_REMOVED = 10_000


class Mailbox(DeletableComponent):
    """Messages for one owner, kept until the owner acknowledges them.

    Args:
        owner: id of the user, or any name.
        max_messages: beyond this number the oldest messages are dropped, and the next fetch says ``truncated``.
        max_bytes: bytes of bodies, as JSON, beyond which the oldest messages are dropped too. The newest one is kept.
        ttl: seconds (or timedelta) after the last send or ack until the mailbox expires.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "messaging"
    name_label = "owner"

    def __init__(
        self,
        owner: User,
        *,
        max_messages: int = 10_000,
        max_bytes: int = arguments.DEFAULT_LOG_BYTES,
        ttl: Seconds = timedelta(days=400),
        using: str = "default",
    ) -> None:
        super().__init__(check_user(owner, "owner"), using=using)
        self.max_messages = check_int(max_messages, "max_messages", 1, MAX_MESSAGES)
        self.max_bytes = check_int(max_bytes, "max_bytes", 1, arguments.MAX_LOG_BYTES)
        self._ttl_ms = to_ms(ttl, "ttl")

    @property
    def owner(self) -> str:
        """The owner."""
        return self.name

    def send(self, body: Any, *, sender: User | None = None, key: str | None = None) -> int:
        """Send a message to the owner and return its id.

        Args:
            body: any JSON value of at most 64 KiB.
            sender: id of a user; None: no sender.
            key: makes the send idempotent: the same sender and key within a day return the id of the first message.
        """
        return self._run(self._send(body, sender, key))

    async def asend(self, body: Any, *, sender: User | None = None, key: str | None = None) -> int:
        """See `send`."""
        return await self._arun(self._send(body, sender, key))

    def fetch(self, *, after: int | None = None, limit: int = 50) -> Messages:
        """Return the messages after a cursor, in order of id. Nothing is changed.

        Args:
            after: the id of the last message that the device has; None: all that are not acknowledged.
            limit: most messages, 1 to 1,000. After about 1 MiB fewer are returned; `Messages.is_cut` says so.
        """
        return self._run(self._fetch(after, limit))

    async def afetch(self, *, after: int | None = None, limit: int = 50) -> Messages:
        """See `fetch`."""
        return await self._arun(self._fetch(after, limit))

    def wait_for_message(self, timeout: Seconds, *, after: int | None = None) -> bool:
        """Wait until there is a message after a cursor. Return whether there is one.

        All waiters of a process share one connection, and Redis is not polled.

        Args:
            timeout: seconds, or a timedelta.
            after: as for `fetch`.
        """
        return self._run(self._wait(timeout, after))

    async def await_for_message(self, timeout: Seconds, *, after: int | None = None) -> bool:  # noqa: ASYNC109
        """See `wait_for_message`."""
        return await self._arun(self._wait(timeout, after))

    def ack(self, id: int) -> int:
        """Remove the messages up to an id, for all devices. Return how many were removed; after a lost reply maybe 0.

        An id above the last one is of an older mailbox of the owner, and removes nothing.
        """
        return self._run(self._ack(id))

    async def aack(self, id: int) -> int:
        """See `ack`."""
        return await self._arun(self._ack(id))

    def unread(self) -> int:
        """Return the number of messages. None is read."""
        return self._run(self._unread())

    async def aunread(self) -> int:
        """See `unread`."""
        return await self._arun(self._unread())

    def _send(self, body: Any, sender: User | None, key: str | None) -> Flow[int]:
        name = "" if sender is None else check_user(sender, "sender")
        token, ttl_s = arguments.send_token(key, name)
        reply = yield MAILBOX_SEND(
            mailbox=keyspace.mailbox_key(self.owner),
            sender=name,
            body=arguments.check_body(body),
            token=token,
            token_ttl_s=ttl_s,
            max_messages=self.max_messages,
            max_bytes=self.max_bytes,
            ttl_ms=self._ttl_ms,
        )
        if reply == 1:  # the mailbox is new
            yield from user_index.index_name("mailboxes", self.owner)
        return int(reply)

    def _fetch(self, after: int | None, limit: int) -> Flow[Messages]:
        cursor: int | str = "" if after is None else arguments.check_id(after, "after")
        check_int(limit, "limit", 1, arguments.MAX_FETCH)
        reply = yield MAILBOX_FETCH(mailbox=keyspace.mailbox_key(self.owner), after=cursor, limit=limit)
        seq, seen, is_truncated, epoch, is_cut, entries = reply
        return Messages(
            read_entries(entries),
            is_truncated=bool(is_truncated),
            last_id=seq,
            last_seen=seen,
            epoch=epoch.decode(),
            is_cut=bool(is_cut),
        )

    def _wait(self, timeout: Seconds, after: int | None) -> Generator[Any, Any, bool]:
        timeout_s = to_seconds(timeout, "timeout", zero=True)

        def check() -> Flow[bool]:
            messages = yield from self._fetch(after, 1)
            return bool(messages)

        return (yield from wait_until(self.using, keyspace.mailbox_key(self.owner, "wakeup"), check, timeout_s))

    def _ack(self, id: int) -> Flow[int]:
        number, total, has_more = arguments.check_id(id), 0, True
        while has_more:
            removed, has_more = yield MAILBOX_ACK(
                mailbox=keyspace.mailbox_key(self.owner), id=number, limit=MAX_REMOVED, ttl_ms=self._ttl_ms
            )
            total += removed
        return total

    def _unread(self) -> Flow[int]:
        count = yield Read("XLEN", keyspace.mailbox_key(self.owner, "log"))
        return int(count)

    def _delete(self) -> Flow[bool]:
        return (yield from delete_flow(self.owner))


def delete_flow(owner: str) -> Flow[bool]:
    """Delete a mailbox, and its name in the dashboard's index; return whether there was one."""
    deleted = yield Command(
        "UNLINK", *(keyspace.mailbox_key(owner, part) for part in keyspace.MAILBOX_PARTS), retry=True
    )
    yield from user_index.unindex_name("mailboxes", owner)
    return bool(deleted)
