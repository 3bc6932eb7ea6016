"""The exceptions of messaging."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class MessagingError(RedisComponentsError):
    """Base class of the exceptions of messaging."""


class ChatDoesNotExist(MessagingError):
    """Raised when there is no such chat: it was never created, its last member left, or it has expired.

    Attributes:
        chat_id: id of the chat.
    """

    def __init__(self, chat_id: str) -> None:
        super().__init__(f"There is no chat {chat_id!r}. Create it with Chat.create(creator, members).")
        self.chat_id = chat_id


class ChatExists(MessagingError):
    """Raised when a chat is created with the id of another one.

    Attributes:
        chat_id: id of the chat.
    """

    def __init__(self, chat_id: str) -> None:
        super().__init__(f"There is a chat {chat_id!r} already. Choose another chat_id, or None for a random one.")
        self.chat_id = chat_id


class ChatFull(MessagingError):
    """Raised when a user joins a chat that has as many members as are allowed.

    Attributes:
        chat_id: id of the chat.
    """

    def __init__(self, chat_id: str, limit: int) -> None:
        super().__init__(f"Chat {chat_id!r} is full: it has {limit:,} members, which is the limit.")
        self.chat_id = chat_id


class NotMember(MessagingError):
    """Raised when a non-member of the chat uses it.

    Attributes:
        chat_id: id of the chat.
        user: the user.
    """

    def __init__(self, chat_id: str, user: str) -> None:
        super().__init__(f"User {user!r} is not a member of chat {chat_id!r}. Add the user with join(user).")
        self.chat_id = chat_id
        self.user = user


class MessageDoesNotExist(MessagingError):
    """Raised when a message that is edited or deleted is not in the log of its chat.

    Attributes:
        chat_id: id of the chat.
        id: of the message.
    """

    def __init__(self, chat_id: str, id: int) -> None:
        super().__init__(f"Chat {chat_id!r} has no message {id}: it was never sent, or deleted, or trimmed.")
        self.chat_id = chat_id
        self.id = id


class NotSender(MessagingError):
    """Raised when a user edits or deletes a message of another user.

    Attributes:
        chat_id: id of the chat.
        id: of the message.
        user: the user.
    """

    def __init__(self, chat_id: str, id: int, user: str) -> None:
        super().__init__(f"User {user!r} did not send message {id} of chat {chat_id!r}, and so may not change it.")
        self.chat_id = chat_id
        self.id = id
        self.user = user


class SubscriptionFailed(MessagingError):
    """Raised when the server does not confirm a subscription within the socket timeout.

    Attributes:
        channel: name of the channel.
    """

    def __init__(self, channel: str) -> None:
        super().__init__(f"The server did not confirm the subscription to {channel!r} in time. Is Redis available?")
        self.channel = channel
