"""The dashboard as `ModelAdmin`s: entries, permissions, URLs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse, reverse_lazy
from django.views.decorators.http import require_http_methods

from django_redis_components.core import keys
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.dashboard import limit_views, lock_views, views
from django_redis_components.dashboard.models import Lock, Overview, Queues, RateLimit

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

#: A view of this class, with the request first.
View = Callable[..., HttpResponse]
#: What a page answers to, and what a form does.
READS, ASKS = ("GET", "HEAD"), ("GET", "HEAD", "POST")


class AnchorAdmin(_ModelAdmin):
    """URLs of a model without a table. None of `ModelAdmin` is inherited.

    Attributes:
        viewing: the permission for its pages.
        home: the model whose page the admin's links to single objects lead to.
    """

    viewing = "view_overview"
    home = "overview"

    def refuse(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Nothing can be added or deleted, by nobody."""
        raise PermissionDenied

    def to_home(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Where there is nothing to see: the admin's links to single objects, as in "Recent actions", lead here."""
        name = f"admin:{self.opts.app_label}_{self.home}_changelist"
        return HttpResponseRedirect(reverse(name, current_app=self.admin_site.name))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the user has the permission for its pages."""
        return request.user.has_perm(f"{self.opts.app_label}.{self.viewing}")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def _wrapped(self, view: View, methods: tuple[str, ...] = READS, also: str = "") -> View:
        """The view behind the site's login, for those with the permission.

        Args:
            methods: what it answers to.
            also: a further permission that it needs.

        `login_url` is where Django's LoginRequiredMiddleware sends who is not signed in; without it
        that would be the site's LOGIN_URL and not the admin's.
        """

        def permitted(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if not self.has_view_permission(request) or (also and not request.user.has_perm(also)):
                raise PermissionDenied
            try:
                return view(request, **kwargs)
            except ConfigurationError as exc:
                return views.wrongly_set(self, request, exc)

        guarded = self.admin_site.admin_view(require_http_methods(methods)(permitted))

        @functools.wraps(view)
        def wrapper(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            return guarded(request, **kwargs)

        wrapper.model_admin = self  # type: ignore[attr-defined]
        wrapper.login_url = reverse_lazy("admin:login", current_app=self.admin_site.name)  # type: ignore[attr-defined]
        return wrapper


class PageAdmin(AnchorAdmin):
    """A page with an entry in the admin's index."""

    def get_urls(self) -> list[URLPattern]:
        """The page, and what leads to it."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", self._wrapped(self.changelist_view), name=f"{name}_changelist"),
            path("add/", self._wrapped(self.refuse), name=f"{name}_add"),
            *self.verb_urls(name),
            path("<path:object_id>/history/", self._wrapped(self.to_home), name=f"{name}_history"),
            path("<path:object_id>/delete/", self._wrapped(self.refuse), name=f"{name}_delete"),
            path("<path:object_id>/change/", self._wrapped(self.to_home), name=f"{name}_change"),
            path("<path:object_id>/", self._wrapped(self.to_home)),
        ]

    def verb_urls(self, name: str) -> list[URLPattern]:
        """The URLs of what can be done on the page."""
        return []

    def has_module_permission(self, request: HttpRequest) -> bool:
        """The entry is shown to those who may view the page."""
        return self.has_view_permission(request)


class OverviewAdmin(PageAdmin):
    """The page of everything."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The overview."""
        return views.overview(self, request, extra_context)


class LockAdmin(PageAdmin):
    """The page of locks and semaphores."""

    viewing, home = "view_lock", "lock"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """What is held."""
        return lock_views.page(self, request, extra_context)

    def verb_urls(self, name: str) -> list[URLPattern]:
        """A release."""
        view = self._wrapped(self.release_view, ASKS, lock_views.MAY_RELEASE)
        return [path("release/", view, name=f"{name}_release")]

    def release_view(self, request: HttpRequest) -> HttpResponse:
        """Asks before a release, or does it."""
        return lock_views.release(self, request)


class RateLimitAdmin(PageAdmin):
    """The page of rate limits."""

    viewing, home = "view_ratelimit", "ratelimit"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The limits, and the state of a key."""
        return limit_views.page(self, request, extra_context)

    def verb_urls(self, name: str) -> list[URLPattern]:
        """A reset."""
        return [path("reset/", self._wrapped(self.reset_view, ASKS, limit_views.MAY_RESET), name=f"{name}_reset")]

    def reset_view(self, request: HttpRequest) -> HttpResponse:
        """Asks before a reset, or does it."""
        return limit_views.reset(self, request)


class QueuesAdmin(AnchorAdmin):
    """The pages of single queues: ``queues/<name>/``. They have no entry in the index; the overview leads there."""

    def get_urls(self) -> list[URLPattern]:
        """A name stands in a URL as `quote` writes it, so that ``_`` begins no name: the other URLs begin so."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", self._wrapped(self.to_home), name=f"{name}_changelist"),
            path("_add/", self._wrapped(self.refuse), name=f"{name}_add"),
            path("_history/<path:object_id>/", self._wrapped(self.to_home), name=f"{name}_history"),
            path("_delete/<path:object_id>/", self._wrapped(self.refuse), name=f"{name}_delete"),
            path("<path:object_id>/", self._wrapped(self.queue_view), name=f"{name}_change"),
        ]

    def queue_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page of a queue; 404 for what cannot be the name of one."""
        try:
            name = keys.validate_name(unquote(object_id), "queue name")
        except ValueError as exc:
            raise Http404(str(exc)) from exc
        return views.queue(self, request, name)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """No entry in the index."""
        return False


def register(site: admin.AdminSite) -> None:
    """Put the dashboard into an admin site. Doing it twice is no error."""
    for model, model_admin in ADMINS.items():
        if not site.is_registered(model):
            site.register(model, model_admin)


#: The pages, in the order of the tabs.
ADMINS: dict[type[Model], type[AnchorAdmin]] = {
    Overview: OverviewAdmin,
    Queues: QueuesAdmin,
    Lock: LockAdmin,
    RateLimit: RateLimitAdmin,
}
