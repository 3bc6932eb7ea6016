"""Unmanaged models of the pages: they provide permissions and entries in the admin, and have no tables."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from django_redis_components.dashboard.links import APP
from django_redis_components.dashboard.page import Page
from django_redis_components.dashboard.pages import PAGES


class EmptyManager(models.Manager[Any]):
    """Returns empty querysets without a query, for commands that read all models, as ``dumpdata`` does."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """Return an empty queryset."""
        return super().get_queryset().none()


class UnmanagedModel(models.Model):
    """Base of the models: ``manage.py migrate`` creates their content types and permissions only."""

    objects = EmptyManager()

    class Meta:
        abstract = True
        app_label = APP
        managed = False
        default_permissions: ClassVar[tuple[str, ...]] = ("view",)
        base_manager_name = "objects"

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


def _model_of(page: Page) -> type[UnmanagedModel]:
    options = {
        "abstract": False,
        "default_permissions": () if page.permission else ("view",),
        "verbose_name": page.name,
        "verbose_name_plural": page.title,
        "permissions": tuple(page.permissions),
    }
    meta = type("Meta", (UnmanagedModel.Meta,), options)
    attributes = {"__module__": __name__, "__doc__": type(page).__doc__, "Meta": meta}
    return type(page.slug.capitalize(), (UnmanagedModel,), attributes)


def _make_importable(model: type[UnmanagedModel]) -> None:
    """Give the class a name in this module, which `manage.py shell` imports.

    The name differs from that of the model: "Task" would hide a model of the site with this name in the shell.
    """
    model.__name__ = model.__qualname__ = f"Dashboard{model.__name__}"
    globals()[model.__name__] = model


#: The model of each page, by slug.
MODELS: dict[str, type[UnmanagedModel]] = {page.slug: _model_of(page) for page in PAGES}

for _model in MODELS.values():
    _make_importable(_model)
