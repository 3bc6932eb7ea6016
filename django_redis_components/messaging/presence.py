"""Present and typing users: entries that expire."""

from __future__ import annotations

from django_redis_components.core.component import Component
from django_redis_components.core.protocol import Command, Flow
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.scripts import PRESENCE_TOUCH, PRESENCE_USERS

#: Most users that are kept and listed.
MAX_USERS = 1_000


class Presence(Component):
    """Users who are present, such as in a chat: each until `ttl` seconds after the last `touch`.

    Anybody may be present; check the membership where it matters.

    Args:
        name: such as the id of a chat.
        ttl: seconds, or a timedelta.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "messaging"
    name_label = "name of a presence"
    catalog_kind = "Presence"
    _part = "presence"

    def __init__(self, name: str, *, ttl: Seconds = 60, using: str = "default") -> None:
        super().__init__(name, using=using)
        self._ttl_ms = to_ms(ttl, "ttl")

    def touch(self, user: User) -> None:
        """Say that a user is present from now on."""
        self._run(self._touch(user))

    async def atouch(self, user: User) -> None:
        """See `touch`."""
        await self._arun(self._touch(user))

    def remove(self, user: User) -> None:
        """Say that a user is not present any more."""
        self._run(self._remove(user))

    async def aremove(self, user: User) -> None:
        """See `remove`."""
        await self._arun(self._remove(user))

    def users(self) -> list[str]:
        """Return the ids of the users who are present, the latest first; 1,000 at most."""
        return self._run(self._users())

    async def ausers(self) -> list[str]:
        """See `users`."""
        return await self._arun(self._users())

    def _touch(self, user: User) -> Flow[None]:
        yield PRESENCE_TOUCH(
            presence=self._key(self._part), user=check_user(user), ttl_ms=self._ttl_ms, max_users=MAX_USERS
        )

    def _remove(self, user: User) -> Flow[None]:
        yield Command("ZREM", self._key(self._part), check_user(user), retry=True)

    def _users(self) -> Flow[list[str]]:
        users = yield PRESENCE_USERS(presence=self._key(self._part), max_users=MAX_USERS)
        return [user.decode() for user in users]


class Typing(Presence):
    """Users who are typing, each until 6 seconds after the last `touch`."""

    catalog_kind = ""
    _part = "typing"

    def __init__(self, name: str, *, ttl: Seconds = 6, using: str = "default") -> None:
        super().__init__(name, ttl=ttl, using=using)
