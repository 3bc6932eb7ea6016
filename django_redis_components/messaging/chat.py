"""Chats: one log for several members, each with a last seen id."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable
from typing import Any

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.messaging import arguments, keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.chat_faults import checked
from django_redis_components.messaging.chat_info import ChatInfo, info_of
from django_redis_components.messaging.creation import MAX_MEMBERS, create_flow
from django_redis_components.messaging.exceptions import ChatExists, ChatFull
from django_redis_components.messaging.message import Messages, fetched
from django_redis_components.messaging.message_wait import wait_until
from django_redis_components.messaging.retention import MAX_MESSAGES, Retention
from django_redis_components.messaging.scripts import (
    ACK,
    DELETE,
    DELETE_MESSAGE,
    EDIT_MESSAGE,
    FETCH,
    JOIN,
    LEAVE,
    SEND,
    UNREAD,
)


class Chat(DeletableComponent):
    """A chat: messages in one order for all members, each with a last seen id.

    Sending and fetching change no last seen id, not even that of the sender; only `ack` does. A fetch whose response is
    lost is repeated with the same cursor.

    Args:
        chat_id: the id given to `create` or `get_or_create`, or the random `id` of the chat that `create` returned.
        using: connection alias.

    Raises:
        TypeError, ValueError: the id is not a valid name.
    """

    component = "messaging"
    name_label = "chat id"

    def __init__(self, chat_id: str, *, using: str = "default") -> None:
        super().__init__(chat_id, using=using)

    @property
    def id(self) -> str:
        """The id of the chat."""
        return self.name

    @classmethod
    def create(
        cls,
        creator: User,
        members: Iterable[User] = (),
        body: Any = None,
        *,
        chat_id: str | None = None,
        retention: Retention | None = None,
        using: str = "default",
    ) -> Chat:
        """Create a chat.

        Args:
            creator: a member, who sends the first message.
            members: the other members.
            body: of the first message, any JSON value of at most 64 KiB; None: there is no first message.
            chat_id: the id of the chat, 1 to 200 bytes without braces and control characters; None: a random one.
            retention: how long messages are kept.
            using: connection alias.

        Raises:
            ChatExists: there is a chat with this id.
            TypeError, ValueError: an argument is not accepted.
        """
        chat = cls(uuid.uuid4().hex if chat_id is None else chat_id, using=using)
        chat._run(create_flow(chat.id, creator, members, body, retention))
        return chat

    @classmethod
    async def acreate(
        cls,
        creator: User,
        members: Iterable[User] = (),
        body: Any = None,
        *,
        chat_id: str | None = None,
        retention: Retention | None = None,
        using: str = "default",
    ) -> Chat:
        """See `create`."""
        chat = cls(uuid.uuid4().hex if chat_id is None else chat_id, using=using)
        await chat._arun(create_flow(chat.id, creator, members, body, retention))
        return chat

    @classmethod
    def get_or_create(
        cls,
        chat_id: str,
        creator: User,
        members: Iterable[User] = (),
        body: Any = None,
        *,
        retention: Retention | None = None,
        using: str = "default",
    ) -> tuple[Chat, bool]:
        """Return the chat with an id, and whether it was created; see `create`. A chat that exists is not changed."""
        try:
            return cls.create(creator, members, body, chat_id=chat_id, retention=retention, using=using), True
        except ChatExists:
            return cls(chat_id, using=using), False

    @classmethod
    async def aget_or_create(
        cls,
        chat_id: str,
        creator: User,
        members: Iterable[User] = (),
        body: Any = None,
        *,
        retention: Retention | None = None,
        using: str = "default",
    ) -> tuple[Chat, bool]:
        """See `get_or_create`."""
        try:
            return await cls.acreate(creator, members, body, chat_id=chat_id, retention=retention, using=using), True
        except ChatExists:
            return cls(chat_id, using=using), False

    def send(self, sender: User, body: Any, *, key: str | None = None) -> int:
        """Send a message and return its id.

        Args:
            sender: a member.
            body: any JSON value of at most 64 KiB.
            key: makes the send idempotent: the same sender and key within a day return the id of the first message.

        Raises:
            ChatDoesNotExist: there is no such chat.
            NotMember: the sender is not a member.
            TypeError, ValueError: an argument is not accepted.
        """
        return self._run(self._send(sender, body, key))

    async def asend(self, sender: User, body: Any, *, key: str | None = None) -> int:
        """See `send`."""
        return await self._arun(self._send(sender, body, key))

    def fetch(self, user: User, *, after: int | None = None, before: int | None = None, limit: int = 50) -> Messages:
        """Return the messages after a cursor, or the last ones before one, in order of id. Nothing is changed.

        Args:
            user: a member.
            after: the id of the last message that the device has; None: the user's last seen id.
            limit: most messages, 1 to 1,000. After about 1 MiB fewer are returned; `Messages.is_cut` says so.
            before: the id of the first message that the device has, to load older ones; instead of `after`.

        Raises:
            ChatDoesNotExist: there is no such chat.
            NotMember: the user is not a member.
        """
        return self._run(self._fetch(user, after, limit, before))

    async def afetch(
        self, user: User, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Messages:
        """See `fetch`."""
        return await self._arun(self._fetch(user, after, limit, before))

    def ack(self, user: User, id: int) -> int:
        """Raise a member's last seen id. A lower id changes nothing; a higher one than there is counts as the last.

        Returns:
            How many messages are newly seen; after a lost reply maybe 0.

        Raises:
            ChatDoesNotExist: there is no such chat.
            NotMember: the user is not a member.
        """
        return self._run(self._ack(user, id))

    async def aack(self, user: User, id: int) -> int:
        """See `ack`."""
        return await self._arun(self._ack(user, id))

    def unread(self, user: User) -> int:
        """Return the number of messages after the last seen one, own messages included. None is read.

        Raises:
            ChatDoesNotExist: there is no such chat.
            NotMember: the user is not a member.
        """
        return self._run(self._info(user)).unread

    async def aunread(self, user: User) -> int:
        """See `unread`."""
        return (await self._arun(self._info(user))).unread

    def info(self, user: User) -> ChatInfo:
        """Return the unread count of a member, with what tells whether the chat has changed; see `unread`."""
        return self._run(self._info(user))

    async def ainfo(self, user: User) -> ChatInfo:
        """See `info`."""
        return await self._arun(self._info(user))

    def wait_for_message(
        self, user: User, timeout: Seconds, *, after: int | None = None, revision: int | None = None
    ) -> bool:
        """Wait until there is a message after a cursor, or the revision is another one. Return whether it is so.

        All waiters of a process share one connection, and Redis is not polled.

        Args:
            user: a member.
            timeout: seconds, or a timedelta.
            after: as for `fetch`.
            revision: `Messages.revision` of the last fetch; None: edits and deletions do not end the wait.

        Raises:
            ChatDoesNotExist: there is no such chat.
            NotMember: the user is not a member.
        """
        return self._run(self._wait_for_message(user, timeout, after, revision))

    async def await_for_message(
        self,
        user: User,
        timeout: Seconds,  # noqa: ASYNC109
        *,
        after: int | None = None,
        revision: int | None = None,
    ) -> bool:
        """See `wait_for_message`."""
        return await self._arun(self._wait_for_message(user, timeout, after, revision))

    def join(self, user: User, *, history: int = 0) -> None:
        """Add a member, who sees messages sent from now on. Nothing changes for a present member.

        A user who leaves and joins again sees nothing of before either.

        Args:
            history: messages from before the join that the member sees too, as unread ones.

        Raises:
            ChatFull: the chat has 1,000 members.
            ChatDoesNotExist: there is no such chat.
        """
        self._run(self._join(user, history))

    async def ajoin(self, user: User, *, history: int = 0) -> None:
        """See `join`."""
        await self._arun(self._join(user, history))

    def leave(self, user: User) -> None:
        """Remove a member. The last one takes the chat along: all its keys are deleted, and sends are refused.

        A non-member, or a chat that does not exist, is ignored.
        """
        self._run(self._leave(user))

    async def aleave(self, user: User) -> None:
        """See `leave`."""
        await self._arun(self._leave(user))

    def members(self) -> dict[str, int]:
        """Return the last seen id of each member; empty if there is no such chat."""
        return self._run(self._members())

    async def amembers(self) -> dict[str, int]:
        """See `members`."""
        return await self._arun(self._members())

    def edit_message(self, user: User, id: int, body: Any) -> None:
        """Replace the body of a message. Later fetches return the new one; `Messages.revision` grows.

        Raises:
            ChatDoesNotExist: there is no such chat.
            MessageDoesNotExist: there is no such message.
            NotMember: the user is not a member.
            NotSender: another user sent the message.
        """
        self._run(self._edit_message(user, id, body))

    async def aedit_message(self, user: User, id: int, body: Any) -> None:
        """See `edit_message`."""
        await self._arun(self._edit_message(user, id, body))

    def delete_message(self, user: User, id: int) -> None:
        """Delete a message. Its id is not used again; `Messages.revision` grows. Raises as `edit_message` does."""
        self._run(self._delete_message(user, id))

    async def adelete_message(self, user: User, id: int) -> None:
        """See `delete_message`."""
        await self._arun(self._delete_message(user, id))

    def _base(self) -> str:
        return keyspace.chat_key(self.id)

    def _send(self, sender: User, body: Any, key: str | None) -> Flow[int]:
        name = check_user(sender, "sender")
        token, ttl_s = arguments.send_token(key, name)
        call = SEND(chat=self._base(), sender=name, body=arguments.check_body(body), token=token, token_ttl_s=ttl_s)
        reply = yield call
        return int(checked(reply, self.id, name))

    def _fetch(self, user: User, after: int | None, limit: int, before: int | None = None) -> Flow[Messages]:
        name = check_user(user)
        if after is not None and before is not None:
            raise ValueError(f"after={short_repr(after)}, before={short_repr(before)}: expected at most one of them.")
        first: int | str = "" if after is None else arguments.check_id(after, "after")
        last: int | str = "" if before is None else arguments.check_id(before, "before", low=1)
        check_int(limit, "limit", 1, arguments.MAX_FETCH)
        reply = yield FETCH(chat=self._base(), user=name, after=first, before=last, limit=limit)
        return fetched(checked(reply, self.id, name))

    def _ack(self, user: User, id: int) -> Flow[int]:
        name = check_user(user)
        reply = yield ACK(chat=self._base(), user=name, id=arguments.check_id(id))
        return int(checked(reply, self.id, name))

    def _info(self, user: User) -> Flow[ChatInfo]:
        name = check_user(user)
        reply = yield UNREAD(chat=self._base(), user=name)
        return info_of(checked(reply, self.id, name))

    def _wait_for_message(
        self, user: User, timeout: Seconds, after: int | None, revision: int | None
    ) -> Generator[Any, Any, bool]:
        name, timeout_s = check_user(user), to_seconds(timeout, "timeout", zero=True)
        if revision is not None:
            check_int(revision, "revision", 0)

        def check() -> Flow[bool]:
            messages = yield from self._fetch(name, after, 1)
            return bool(messages) or revision not in (None, messages.revision)

        return (yield from wait_until(self.using, keyspace.chat_key(self.id, "wakeup"), check, timeout_s))

    def _join(self, user: User, history: int) -> Flow[None]:
        name = check_user(user)
        check_int(history, "history", 0, MAX_MESSAGES)
        reply = yield JOIN(chat=self._base(), user=name, history=history, max_members=MAX_MEMBERS)
        if checked(reply, self.id, name) == 0:
            raise ChatFull(self.id, MAX_MEMBERS)
        yield from user_index.add([(self.id, name)])

    def _leave(self, user: User) -> Flow[None]:
        name = check_user(user)
        yield from user_index.add_left_chat(self.id, name)
        remaining = yield LEAVE(chat=self._base(), user=name)
        yield from user_index.remove([(self.id, name)])
        if not remaining:
            yield from user_index.unindex_name("all", self.id)

    def _members(self) -> Flow[dict[str, int]]:
        reply = yield Read("ZRANGE", keyspace.chat_key(self.id, "members"), 0, MAX_MEMBERS - 1, "WITHSCORES")
        pairs = iter(reply)
        return {user.decode(): int(score) for user, score in zip(pairs, pairs, strict=True)}

    def _edit_message(self, user: User, id: int, body: Any) -> Flow[None]:
        name, number = check_user(user), arguments.check_id(id, low=1)
        token, _ = arguments.send_token(None, name)
        data = arguments.check_body(body)
        reply = yield EDIT_MESSAGE(chat=self._base(), user=name, id=number, body=data, token=token)
        checked(reply, self.id, name, number)

    def _delete_message(self, user: User, id: int) -> Flow[None]:
        name, number = check_user(user), arguments.check_id(id, low=1)
        reply = yield DELETE_MESSAGE(chat=self._base(), user=name, id=number)
        checked(reply, self.id, name, number)

    def _delete(self) -> Flow[bool]:
        members = yield from self._members()
        created = yield Read("HGET", keyspace.chat_key(self.id, "meta"), "created")
        if created is not None:
            yield DELETE(chat=self._base(), created=created)
        yield from user_index.remove([(self.id, member) for member in members])
        yield from user_index.unindex_name("all", self.id)
        return created is not None
