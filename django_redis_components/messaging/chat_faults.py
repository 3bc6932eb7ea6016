"""The replies of the scripts of chats that are faults."""

from __future__ import annotations

from typing import Any

from django_redis_components.messaging.exceptions import ChatDoesNotExist, MessageDoesNotExist, NotMember, NotSender
from django_redis_components.messaging.scripts import ChatFault


def checked(reply: Any, chat_id: str, user: str, message_id: int = 0) -> Any:
    """Return the reply of a script, or raise the exception of its code.

    Raises:
        ChatDoesNotExist, MessageDoesNotExist, NotMember, NotSender: the reply is the code of this fault.
    """
    if not isinstance(reply, int) or reply >= 0:
        return reply
    match ChatFault(reply):
        case ChatFault.no_chat:
            raise ChatDoesNotExist(chat_id)
        case ChatFault.not_member:
            raise NotMember(chat_id, user)
        case ChatFault.no_message:
            raise MessageDoesNotExist(chat_id, message_id)
        case ChatFault.not_sender:
            raise NotSender(chat_id, message_id, user)
