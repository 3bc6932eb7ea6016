"""A base for rows that are written under a lock. Like all models it can be imported once the apps are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models, router
from django.db.models.functions import Greatest

from django_redis_components.locks.fencing import afenced_update, checked, fenced_update

if TYPE_CHECKING:
    from django.db.models import QuerySet


class FenceField(models.BigIntegerField):  # type: ignore[type-arg]  # Django's is not generic when it runs
    """A fencing token that `save` never lowers: the object may have been read before a later holder wrote the row."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """The object's token, or that of the row if it is larger."""
        value = super().pre_save(model_instance, add)
        if add or hasattr(value, "resolve_expression"):
            return value
        return Greatest(models.F(self.attname), value, output_field=models.BigIntegerField())

    def deconstruct(self) -> Any:
        """A plain field in migrations: the column is one."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.BigIntegerField", args, kwargs


class FencedModel(models.Model):
    """A row that rejects the writes of earlier lock holders. Abstract: adds the field ``fence``.

    `save` checks nothing, but never lowers ``fence``: write with `fenced_update` or `update_fenced`.
    """

    #: The fencing token of the last write.
    fence = FenceField(default=0, editable=False)

    class Meta:
        abstract = True

    def claim(self, fence: int | None) -> None:
        """Claim the row for a lock that was just acquired, and reload it.

        From then on no earlier holder can write it, so what was read stays true until we write.

        Raises:
            StaleFence: a later holder has claimed or written it, or it is gone.
        """
        self.update_fenced(fence)
        self.refresh_from_db(using=self._primary())

    async def aclaim(self, fence: int | None) -> None:
        """See `claim`."""
        await self.aupdate_fenced(fence)
        await self.arefresh_from_db(using=self._primary())

    def update_fenced(self, fence: int | None, **values: Any) -> None:
        """Write these fields of the row, unless a later holder has claimed or written it.

        Raises:
            StaleFence: a later holder has, or the row is gone.
        """
        fenced_update(self._own_row(), fence, **values)
        if computed := self._was_written(fence, values):
            self.refresh_from_db(using=self._primary(), fields=computed)

    async def aupdate_fenced(self, fence: int | None, **values: Any) -> None:
        """See `update_fenced`."""
        await afenced_update(self._own_row(), fence, **values)
        if computed := self._was_written(fence, values):
            await self.arefresh_from_db(using=self._primary(), fields=computed)

    def _was_written(self, fence: int | None, values: dict[str, Any]) -> list[str]:
        """Follow the row. Returns the fields that the database has computed: `save` would repeat expressions."""
        self.fence = checked(fence)
        computed = [field for field, value in values.items() if hasattr(value, "resolve_expression")]
        for field in values.keys() - set(computed):
            setattr(self, field, values[field])
        return computed

    def _own_row(self) -> QuerySet[Any]:
        return type(self)._base_manager.using(self._primary()).filter(pk=self.pk)

    def _primary(self) -> str:
        """The database that `save` would write: the object may have been read from a replica."""
        return router.db_for_write(type(self), instance=self)
