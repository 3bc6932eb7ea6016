"""Who is present, and who is typing: entries that expire."""

from __future__ import annotations

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, Flow, arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.scripts import PRESENCE_TOUCH, PRESENCE_USERS

#: Most users that are kept and listed.
MAX_USERS = 1_000


class Presence:
    """Users who are present, such as in a chat: each until `ttl` seconds after the last `touch`.

    Anybody may be present; check the membership where it matters.

    Args:
        name: such as the id of a chat.
        ttl: seconds, or a timedelta.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    part = "presence"

    def __init__(self, name: str, *, ttl: Seconds = 60, using: str = "default") -> None:
        self.name = keys.validate_name(name, "name of a presence")
        self.using = using
        self._ttl_ms = to_ms(ttl, "ttl")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def touch(self, user: User) -> None:
        """Say that a user is present from now on."""
        run(connections.client(self.using), self._touch(user))

    async def atouch(self, user: User) -> None:
        """See `touch`."""
        await arun(connections.aclient(self.using), self._touch(user))

    def remove(self, user: User) -> None:
        """Say that a user is not present any more."""
        run(connections.client(self.using), self._remove(user))

    async def aremove(self, user: User) -> None:
        """See `remove`."""
        await arun(connections.aclient(self.using), self._remove(user))

    def users(self) -> list[str]:
        """Return the ids of the users who are present, the latest first; 1,000 at most."""
        return run(connections.client(self.using), self._users())

    async def ausers(self) -> list[str]:
        """See `users`."""
        return await arun(connections.aclient(self.using), self._users())

    @property
    def key(self) -> str:
        """The key in Redis."""
        return keys.key("messaging", self.name, self.part)

    def _touch(self, user: User) -> Flow[None]:
        yield PRESENCE_TOUCH(presence=self.key, user=check_user(user), ttl_ms=self._ttl_ms, max_users=MAX_USERS)

    def _remove(self, user: User) -> Flow[None]:
        yield Command("ZREM", self.key, check_user(user), retry=True)

    def _users(self) -> Flow[list[str]]:
        users = yield PRESENCE_USERS(presence=self.key, max_users=MAX_USERS)
        return [user.decode() for user in users]


class Typing(Presence):
    """Users who are typing, each until 6 seconds after the last `touch`."""

    part = "typing"

    def __init__(self, name: str, *, ttl: Seconds = 6, using: str = "default") -> None:
        super().__init__(name, ttl=ttl, using=using)
