"""Chats: one log for several members, each with a last seen id."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Generator, Iterable
from typing import Any, NoReturn

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, Read, arun, run
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.messaging import arguments, keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.chat_state import ChatState, state_of
from django_redis_components.messaging.exceptions import (
    ChatExists,
    ChatFull,
    ChatNotFound,
    MessageNotFound,
    NotMember,
    NotSender,
)
from django_redis_components.messaging.message import Messages, fetched
from django_redis_components.messaging.retention import MAX_MESSAGES, Retention
from django_redis_components.messaging.scripts import (
    ACK,
    CREATE,
    DELETE,
    DELETE_MESSAGE,
    EDIT_MESSAGE,
    FETCH,
    JOIN,
    LEAVE,
    SEND,
    UNREAD,
    ChatFault,
)
from django_redis_components.messaging.waiting import wait_until

#: Most members of a chat: `members` reads all of them.
MAX_MEMBERS = 1_000


class Chat:
    """A chat: messages in one order for all members, each with a last seen id.

    Sending and fetching change no last seen id, not even that of the sender; only `ack` does. A fetch whose response is
    lost is repeated with the same cursor.

    Args:
        id: the id of the chat: the `chat_id` given to `create`, or the random `id` of the chat that it returned.
        using: connection alias.

    Raises:
        TypeError, ValueError: the id is not a valid name.
    """

    def __init__(self, id: str, *, using: str = "default") -> None:
        self.id = keys.validate_name(id, "chat id")
        self.using = using

    def __repr__(self) -> str:
        return f"<Chat {self.id}>"

    @classmethod
    def create(
        cls,
        sender: User,
        recipients: Iterable[User],
        body: Any,
        chat_id: str | None = None,
        *,
        retention: Retention | None = None,
        using: str = "default",
    ) -> Chat:
        """Create a chat with its first message.

        Args:
            sender: the user who sends the first message, a member.
            recipients: the other members.
            body: of the first message, any JSON value of at most 64 KiB.
            chat_id: the id of the chat, 1 to 200 bytes without braces and control characters; None: a random one.
            retention: how long messages are kept.

        Raises:
            ChatExists: there is a chat with this id.
            TypeError, ValueError: an argument is not accepted.
        """
        chat = cls(uuid.uuid4().hex if chat_id is None else chat_id, using=using)
        run(connections.client(using), chat._create(sender, recipients, body, retention))
        return chat

    @classmethod
    async def acreate(
        cls,
        sender: User,
        recipients: Iterable[User],
        body: Any,
        chat_id: str | None = None,
        *,
        retention: Retention | None = None,
        using: str = "default",
    ) -> Chat:
        """See `create`."""
        chat = cls(uuid.uuid4().hex if chat_id is None else chat_id, using=using)
        await arun(connections.aclient(using), chat._create(sender, recipients, body, retention))
        return chat

    def send(self, sender: User, body: Any, key: str | None = None) -> int:
        """Send a message and return its id.

        Args:
            sender: a member.
            body: any JSON value of at most 64 KiB.
            key: makes the send idempotent: the same sender and key within a day return the id of the first message.

        Raises:
            ChatNotFound: there is no such chat.
            NotMember: the sender is not a member.
            TypeError, ValueError: an argument is not accepted.
        """
        return run(connections.client(self.using), self._send(sender, body, key))

    async def asend(self, sender: User, body: Any, key: str | None = None) -> int:
        """See `send`."""
        return await arun(connections.aclient(self.using), self._send(sender, body, key))

    def fetch(self, user: User, after: int | None = None, limit: int = 50, *, before: int | None = None) -> Messages:
        """Return the messages after a cursor, or the last ones before one, in order of id. Nothing is changed.

        Args:
            user: a member.
            after: the id of the last message that the device has; None: the user's last seen id.
            limit: most messages, 1 to 1,000. After about 1 MiB fewer are returned; `Messages.is_cut` says so.
            before: the id of the first message that the device has, to load older ones; instead of `after`.

        Raises:
            ChatNotFound: there is no such chat.
            NotMember: the user is not a member.
        """
        return run(connections.client(self.using), self._fetch(user, after, limit, before))

    async def afetch(
        self, user: User, after: int | None = None, limit: int = 50, *, before: int | None = None
    ) -> Messages:
        """See `fetch`."""
        return await arun(connections.aclient(self.using), self._fetch(user, after, limit, before))

    def ack(self, user: User, id: int) -> None:
        """Raise a member's last seen id. A lower id changes nothing; a higher one than there is counts as the last.

        Raises:
            ChatNotFound: there is no such chat.
            NotMember: the user is not a member.
        """
        run(connections.client(self.using), self._ack(user, id))

    async def aack(self, user: User, id: int) -> None:
        """See `ack`."""
        await arun(connections.aclient(self.using), self._ack(user, id))

    def unread(self, user: User) -> int:
        """Return the number of messages after the last seen one, own messages included. None is read.

        Raises:
            ChatNotFound: there is no such chat.
            NotMember: the user is not a member.
        """
        return run(connections.client(self.using), self._state(user)).unread

    async def aunread(self, user: User) -> int:
        """See `unread`."""
        return (await arun(connections.aclient(self.using), self._state(user))).unread

    def state(self, user: User) -> ChatState:
        """Return the unread count of a member, with what tells whether the chat has changed; see `unread`."""
        return run(connections.client(self.using), self._state(user))

    async def astate(self, user: User) -> ChatState:
        """See `state`."""
        return await arun(connections.aclient(self.using), self._state(user))

    def wait(self, user: User, timeout: Seconds, after: int | None = None, revision: int | None = None) -> bool:
        """Wait until there is a message after a cursor, or the revision is another one. Return whether it is so.

        All waiters of a process share one connection, and Redis is not polled.

        Args:
            user: a member.
            timeout: seconds, or a timedelta.
            after: as for `fetch`.
            revision: `Messages.revision` of the last fetch; None: edits and deletions do not end the wait.

        Raises:
            ChatNotFound: there is no such chat.
            NotMember: the user is not a member.
        """
        return run(connections.client(self.using), self._wait(user, timeout, after, revision))

    async def await_(
        self,
        user: User,
        timeout: Seconds,  # noqa: ASYNC109
        after: int | None = None,
        revision: int | None = None,
    ) -> bool:
        """See `wait`."""
        return await arun(connections.aclient(self.using), self._wait(user, timeout, after, revision))

    def join(self, user: User, history: int = 0) -> None:
        """Add a member, who sees what is sent from now on. Nothing changes for a user who is a member already.

        A user who leaves and joins again sees nothing of before either.

        Args:
            history: messages from before the join that the member sees too, as unread ones.

        Raises:
            ChatFull: the chat has 1,000 members.
            ChatNotFound: there is no such chat.
        """
        run(connections.client(self.using), self._join(user, history))

    async def ajoin(self, user: User, history: int = 0) -> None:
        """See `join`."""
        await arun(connections.aclient(self.using), self._join(user, history))

    def leave(self, user: User) -> None:
        """Remove a member. The last one takes the chat along: all its keys are deleted, and sends are refused.

        A user who is not a member, or a chat that does not exist, is ignored.
        """
        run(connections.client(self.using), self._leave(user))

    async def aleave(self, user: User) -> None:
        """See `leave`."""
        await arun(connections.aclient(self.using), self._leave(user))

    def members(self) -> dict[str, int]:
        """Return the last seen id of each member; empty if there is no such chat."""
        return run(connections.client(self.using), self._members())

    async def amembers(self) -> dict[str, int]:
        """See `members`."""
        return await arun(connections.aclient(self.using), self._members())

    def edit_message(self, user: User, id: int, body: Any) -> None:
        """Replace the body of a message. Later fetches return the new one; `Messages.revision` grows.

        Raises:
            ChatNotFound: there is no such chat.
            MessageNotFound: there is no such message.
            NotMember: the user is not a member.
            NotSender: another user sent the message.
        """
        run(connections.client(self.using), self._edit_message(user, id, body))

    async def aedit_message(self, user: User, id: int, body: Any) -> None:
        """See `edit_message`."""
        await arun(connections.aclient(self.using), self._edit_message(user, id, body))

    def delete_message(self, user: User, id: int) -> None:
        """Delete a message. Its id is not used again; `Messages.revision` grows. Raises as `edit_message` does."""
        run(connections.client(self.using), self._delete_message(user, id))

    async def adelete_message(self, user: User, id: int) -> None:
        """See `delete_message`."""
        await arun(connections.aclient(self.using), self._delete_message(user, id))

    def delete(self) -> None:
        """Delete the chat, for all members. Waiters raise `ChatNotFound`."""
        run(connections.client(self.using), self._delete())

    async def adelete(self) -> None:
        """See `delete`."""
        await arun(connections.aclient(self.using), self._delete())

    @property
    def _key(self) -> str:
        return keyspace.chat_key(self.id)

    def _create(self, sender: User, recipients: Iterable[User], body: Any, retention: Retention | None) -> Flow[None]:
        first = check_user(sender, "sender")
        members = list(dict.fromkeys([first, *arguments.check_users(recipients, "recipients")]))
        if len(members) > MAX_MEMBERS:
            raise ValueError(f"recipients: {len(members):,} members, expected at most {MAX_MEMBERS:,}.")
        kept = retention or Retention()
        code = yield CREATE(
            chat=self._key,
            token=secrets.token_hex(8),
            sender=first,
            body=arguments.check_body(body),
            keep_last=kept.keep_last,
            max_messages=kept.max_messages,
            max_bytes=kept.max_bytes,
            members=members,
            **kept.times_ms(),
        )
        entries = [(self.id, member) for member in members]
        if code < 0:
            yield from user_index.restore(entries)  # its creator may have died before it wrote the index
            raise ChatExists(self.id)
        yield from user_index.add(entries)
        yield from user_index.index_name("all", self.id)

    def _send(self, sender: User, body: Any, key: str | None) -> Flow[int]:
        name = check_user(sender, "sender")
        token, ttl_s = arguments.send_token(key, name)
        call = SEND(chat=self._key, sender=name, body=arguments.check_body(body), token=token, token_ttl_s=ttl_s)
        reply = yield call
        return int(self._checked(reply, name))

    def _fetch(self, user: User, after: int | None, limit: int, before: int | None = None) -> Flow[Messages]:
        name = check_user(user)
        if after is not None and before is not None:
            raise ValueError(f"after={after!r}, before={before!r}: expected at most one of them.")
        first: int | str = "" if after is None else arguments.check_id(after, "after")
        last: int | str = "" if before is None else arguments.check_id(before, "before")
        arguments.check_count(limit, "limit", 1, arguments.MAX_FETCH)
        reply = yield FETCH(chat=self._key, user=name, after=first, before=last, limit=limit)
        return fetched(self._checked(reply, name))

    def _ack(self, user: User, id: int) -> Flow[None]:
        name = check_user(user)
        reply = yield ACK(chat=self._key, user=name, id=arguments.check_id(id))
        self._checked(reply, name)

    def _state(self, user: User) -> Flow[ChatState]:
        name = check_user(user)
        reply = yield UNREAD(chat=self._key, user=name)
        return state_of(self._checked(reply, name))

    def _wait(self, user: User, timeout: Seconds, after: int | None, revision: int | None) -> Generator[Any, Any, bool]:
        name, timeout_s = check_user(user), to_seconds(timeout, "timeout", zero=True)

        def check() -> Flow[bool]:
            messages = yield from self._fetch(name, after, 1)
            return bool(messages) or revision not in (None, messages.revision)

        return (yield from wait_until(self.using, keyspace.chat_key(self.id, "wakeup"), check, timeout_s))

    def _join(self, user: User, history: int) -> Flow[None]:
        name = check_user(user)
        arguments.check_count(history, "history", 0, MAX_MESSAGES)
        reply = yield JOIN(chat=self._key, user=name, history=history, max_members=MAX_MEMBERS)
        if self._checked(reply, name) == 0:
            raise ChatFull(self.id, MAX_MEMBERS)
        yield from user_index.add([(self.id, name)])

    def _leave(self, user: User) -> Flow[None]:
        name = check_user(user)
        yield from user_index.add_left_chat(self.id, name)
        remaining = yield LEAVE(chat=self._key, user=name)
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
        reply = yield EDIT_MESSAGE(chat=self._key, user=name, id=number, body=data, token=token)
        self._checked(reply, name, number)

    def _delete_message(self, user: User, id: int) -> Flow[None]:
        name, number = check_user(user), arguments.check_id(id, low=1)
        reply = yield DELETE_MESSAGE(chat=self._key, user=name, id=number)
        self._checked(reply, name, number)

    def _delete(self) -> Flow[None]:
        members = yield from self._members()
        created = yield Read("HGET", keyspace.chat_key(self.id, "meta"), "created")
        if created is not None:
            yield DELETE(chat=self._key, created=created)
        yield from user_index.remove([(self.id, member) for member in members])
        yield from user_index.unindex_name("all", self.id)

    def _checked(self, reply: Any, user: str, id: int = 0) -> Any:
        """Return the reply of a script, or raise the exception of its code."""
        if isinstance(reply, int) and reply < 0:
            self._fail(ChatFault(reply), user, id)
        return reply

    def _fail(self, fault: ChatFault, user: str, id: int) -> NoReturn:
        match fault:
            case ChatFault.no_chat:
                raise ChatNotFound(self.id)
            case ChatFault.not_member:
                raise NotMember(self.id, user)
            case ChatFault.no_message:
                raise MessageNotFound(self.id, id)
            case ChatFault.not_sender:
                raise NotSender(self.id, id, user)
