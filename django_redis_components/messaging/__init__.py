"""Messages that wait for receivers who are away: mailboxes of users, and chats of several members; and pub/sub.

Guarantees:

- A message that was accepted is fetched at least once by each member, until the member acknowledges it (`ack`).
- All members get the messages of a chat in one order, that of their ids. No lock is involved.
- `send` changes no last seen id, so that neither other members' messages nor own ones on another device are missed.
- `send` is safe to repeat: with a key for a day (the newest 10,000), and without one after a lost reply.
- Messages that all members have read are removed, except the newest ones; messages that a member has not read are
  removed only beyond the limits of `Retention`, and the next fetch says ``truncated``.
- The last member who leaves removes all keys of the chat; a late `send` is refused and does not create it again.
- `wait` blocks without polling: all waiters of a process share one connection.
- `Broadcast` is pub/sub and delivers **at most once**, to those who are subscribed at the moment.

Keys; those of a chat share the slot of ``{<id>}``, and expire together 400 days after the last write:

===========================================  ======  ==========================================================
``<prefix>:messaging:{<id>}:chat:log``       stream  the messages, with ids ``n-0``
``…:chat:members``                           zset    user -> last seen id
``…:chat:meta``                              hash    counter of ids, what was trimmed, bytes, retention
``…:chat:hidden``                            hash    user -> last id before what the member may see
``…:chat:sent``, ``…:chat:keyed``            zset    tokens of sends and edits; 60 s, with a key a day
``…:chat:edits``, ``…:chat:deleted``         zset    edits and deletions of messages that are in the log
``<prefix>:messaging:{<id>}:mailbox:log``    stream  the messages of a mailbox; 400 days after the last write
``…:mailbox:meta``                           hash    counter of ids, bytes; as long as the log, a day at least
``…:mailbox:sent``, ``…:mailbox:keyed``      zset    tokens of sent messages; 60 s, those with a key a day
``<prefix>:messaging:{<name>}:presence``     zset    users who are present; 60 s after the last one
``…:typing``                                 zset    users who are typing; 6 s after the last one
``<prefix>:messaging:{<user>}:chats``        zset    index of a user's chats; 400 days after the last use
``…:left``                                   zset    chats that the user left in 400 days, for `forget_user`
``<prefix>:messaging:{index}:all``           zset    the newest 1,000 chats, for the dashboard; 400 days
===========================================  ======  ==========================================================

Example::

    from django_redis_components.messaging import Chat, Mailbox, pending

    Mailbox(7).send({"text": "Your order was shipped."})
    [message] = Mailbox(7).fetch()
    Mailbox(7).ack(message.id)

    chat = Chat.create("jeff", ["jenny", "eric"], "Lunch at noon?")
    chat.send("jenny", "Fine!", key="device-1:42")
    assert [message.body for message in chat.fetch("eric")] == ["Lunch at noon?", "Fine!"]
    chat.ack("eric", 2)
    assert (chat.unread("eric"), chat.unread("jenny")) == (0, 2)
    assert [(chat_id, len(messages)) for chat_id, messages in pending("jeff")] == [(chat.id, 2)]

See also: docs/components/messaging.md.
"""

from __future__ import annotations

from django_redis_components.messaging.broadcast import Broadcast, Received, Subscription
from django_redis_components.messaging.chat import Chat
from django_redis_components.messaging.chat_info import ChatInfo
from django_redis_components.messaging.erasure import aforget_user, forget_user
from django_redis_components.messaging.exceptions import (
    ChatDoesNotExist,
    ChatExists,
    ChatFull,
    MessageDoesNotExist,
    MessagingError,
    NotMember,
    NotSender,
    SubscriptionFailed,
)
from django_redis_components.messaging.mailbox import Mailbox
from django_redis_components.messaging.message import Message, Messages
from django_redis_components.messaging.presence import Presence, Typing
from django_redis_components.messaging.reconciliation import Reconciliation, areconcile, reconcile
from django_redis_components.messaging.retention import Retention
from django_redis_components.messaging.user_chats import (
    achats,
    apending,
    aunread_counts,
    chats,
    pending,
    unread_counts,
)

__all__ = [
    "Broadcast",
    "Chat",
    "ChatDoesNotExist",
    "ChatExists",
    "ChatFull",
    "ChatInfo",
    "Mailbox",
    "Message",
    "MessageDoesNotExist",
    "Messages",
    "MessagingError",
    "NotMember",
    "NotSender",
    "Presence",
    "Received",
    "Reconciliation",
    "Retention",
    "Subscription",
    "SubscriptionFailed",
    "Typing",
    "achats",
    "aforget_user",
    "apending",
    "areconcile",
    "aunread_counts",
    "chats",
    "forget_user",
    "pending",
    "reconcile",
    "unread_counts",
]
