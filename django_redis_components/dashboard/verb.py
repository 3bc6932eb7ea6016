"""Kinds of changes that operators make, and who may make them."""

from __future__ import annotations

import dataclasses

from django.db.models import Model
from django.http import HttpRequest

from django_redis_components.core.settings import conf


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """A kind of change.

    Attributes:
        name: in URLs and tickets.
        permission: its codename.
        model: of its entries in the admin's log; their links open the object with the entry's name.
    """

    name: str
    permission: str
    model: type[Model]

    @property
    def full_permission(self) -> str:
        """The permission as `User.has_perm` takes it."""
        return f"{self.model._meta.app_label}.{self.permission}"

    def is_allowed(self, http: HttpRequest) -> bool:
        """Return whether the user may make this kind of change now; pages show no button otherwise."""
        return not conf.settings().dashboard.read_only and http.user.has_perm(self.full_permission)
