"""The base class of the objects of components: a validated name, a connection, keys, and the two drivers of flows."""

from __future__ import annotations

from time import monotonic
from typing import Any, ClassVar, TypeVar

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_string
from django_redis_components.core.client import connections
from django_redis_components.core.observability.catalog import NEVER_RECORDED, RECORDER, CatalogEntry, NameUse
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
    #: The list of names in the catalogue: "BloomFilter"; "" for objects that are not in it.
    catalog_kind: ClassVar[str] = ""
    #: The use of the name by this process; None before the first call of this object.
    _use: NameUse | None = None

    def __init__(self, name: str, *, using: str = "default") -> None:
        self.name = keys.validate_name(name, self.name_label)
        self.using = check_string(using, "using")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _key(self, *parts: str) -> str:
        return keys.key(self.component, self.name, *parts)

    def _run(self, flow: Flow[T]) -> T:
        if self._use is None or self._use.due_at <= monotonic():
            self._record_use()
        return run(connections.client(self.using), flow)

    async def _arun(self, flow: Flow[T]) -> T:
        if self._use is None or self._use.due_at <= monotonic():
            self._record_use()
        return await arun(connections.aclient(self.using), flow)

    def _record_use(self) -> None:
        """Have the catalogue list the name."""
        if self._use is None:
            kind = self.catalog_kind
            self._use = RECORDER.use(kind, self._catalog_id(), self.using) if kind else NEVER_RECORDED
        if self._use.due_at <= monotonic():
            RECORDER.record(self._use, self._catalog_entry())

    def _catalog_id(self) -> str:
        """Return what distinguishes the entry from others of its kind and connection."""
        return self.name

    def _catalog_entry(self) -> CatalogEntry:
        return CatalogEntry(self.catalog_kind, self.name, self.using, self._catalog_options())

    def _catalog_options(self) -> dict[str, Any]:
        """Return the keyword arguments with which `catalog.objects` makes such an object again, as JSON."""
        return {}


class DeletableComponent(Component):
    """A component whose whole data can be deleted. Subclasses define `_delete`."""

    def delete(self) -> bool:
        """Delete all data of the name; return whether there was any. It may be repeated."""
        deleted = self._run(self._delete())
        self._remove_from_catalog()
        return deleted

    async def adelete(self) -> bool:
        """See `delete`."""
        deleted = await self._arun(self._delete())
        self._remove_from_catalog()
        return deleted

    def _delete(self) -> Flow[bool]:
        raise NotImplementedError

    def _remove_from_catalog(self) -> None:
        if self._use is not None and self.catalog_kind:
            RECORDER.remove(self._use, self._catalog_entry())
