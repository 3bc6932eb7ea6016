"""The base class of the objects of components: a validated name, a connection, keys, and the two drivers of flows."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run

T = TypeVar("T")


class Component:
    """A named object in Redis. Its keys share the Cluster slot of the name.

    Attributes:
        name: its name.
        using: connection alias.
    """

    #: The component, which is the second part of the keys: "bloom".
    component: ClassVar[str]
    #: What the name is, in errors: "filter name".
    name_label: ClassVar[str] = "name"

    def __init__(self, name: str, *, using: str = "default") -> None:
        self.name = keys.validate_name(name, self.name_label)
        self.using = using

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _key(self, *parts: str) -> str:
        return keys.key(self.component, self.name, *parts)

    def _run(self, flow: Flow[T]) -> T:
        return run(connections.client(self.using), flow)

    async def _arun(self, flow: Flow[T]) -> T:
        return await arun(connections.aclient(self.using), flow)


class DeletableComponent(Component):
    """A component whose whole data can be deleted. Subclasses define `_delete`."""

    def delete(self) -> bool:
        """Delete all data of the name; return whether there was any. It may be repeated."""
        return self._run(self._delete())

    async def adelete(self) -> bool:
        """See `delete`."""
        return await self._arun(self._delete())

    def _delete(self) -> Flow[bool]:
        raise NotImplementedError
