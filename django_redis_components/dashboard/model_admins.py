"""The bases of the dashboard's `ModelAdmin` classes: URLs and permissions of models without a table.

Django imports this module when it starts, so views and verbs, and with them the components, are imported when they
are used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse, reverse_lazy
from django.views.decorators.http import require_http_methods

from django_redis_components.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from django_redis_components.dashboard.verbs import Verb

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

#: A view method, bound.
View = Callable[..., HttpResponse]
#: Methods that pages accept, and those that forms accept.
PAGE_METHODS, FORM_METHODS = ("GET", "HEAD"), ("GET", "HEAD", "POST")


class UnmanagedAdmin(_ModelAdmin):
    """URLs and permissions of a model without a table. No view of `ModelAdmin` is used.

    Attributes:
        view_permission: codename of the permission to view its pages.
        home: name of the model to whose page the admin's links to objects redirect.
    """

    view_permission = "view_overview"
    home = "overview"

    def deny_view(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Respond with 403: objects cannot be added or deleted."""
        raise PermissionDenied

    def redirect_to_home(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Redirect the admin's links to objects, for example in "Recent actions", to the page."""
        name = f"admin:{self.opts.app_label}_{self.home}_changelist"
        return HttpResponseRedirect(reverse(name, current_app=self.admin_site.name))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may view its pages."""
        return request.user.has_perm(f"{self.opts.app_label}.{self.view_permission}")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def guard_verb(self, view: View, verb: Verb) -> View:
        """Return the view of a verb behind its permission and `READ_ONLY`."""

        def allowed(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            from django_redis_components.dashboard import verbs

            verbs.ensure_allowed(request, verb)
            return view(request, **kwargs)

        return self._guard(functools.wraps(view)(allowed), FORM_METHODS)

    def _guard(self, view: View, methods: tuple[str, ...] = PAGE_METHODS) -> View:
        """Return the view behind the site's login and the permission check.

        Args:
            methods: HTTP methods that it accepts.

        Django's LoginRequiredMiddleware redirects to `login_url` of the view; the default would be the
        site's LOGIN_URL, not the admin's.
        """

        def permitted(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            try:
                return view(request, **kwargs)
            except ConfigurationError as exc:
                from django_redis_components.dashboard import responses

                return responses.misconfigured_response(self, request, exc)

        guarded = self.admin_site.admin_view(require_http_methods(methods)(permitted))

        @functools.wraps(view)
        def wrapper(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            return guarded(request, **kwargs)

        wrapper.model_admin = self  # type: ignore[attr-defined]
        wrapper.login_url = reverse_lazy("admin:login", current_app=self.admin_site.name)  # type: ignore[attr-defined]
        return wrapper


class PageAdmin(UnmanagedAdmin):
    """A page that is listed in the admin's index."""

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs of the page, of its actions, and redirects."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", self._guard(self.changelist_view), name=f"{name}_changelist"),
            path("add/", self._guard(self.deny_view), name=f"{name}_add"),
            *self.action_urls(name),
            path("<path:object_id>/history/", self._guard(self.redirect_to_home), name=f"{name}_history"),
            path("<path:object_id>/delete/", self._guard(self.deny_view), name=f"{name}_delete"),
            path("<path:object_id>/change/", self._guard(self.redirect_to_home), name=f"{name}_change"),
            path("<path:object_id>/", self._guard(self.redirect_to_home)),
        ]

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the page's actions."""
        return []

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the user sees the entry in the index."""
        return self.has_view_permission(request)


class ObjectAdmin(UnmanagedAdmin):
    """Pages of objects, ``<model>/<id>/``. They are linked from other pages, not from the admin's index."""

    def verb_views(self) -> Sequence[tuple[Verb, Callable[..., HttpResponse]]]:
        """Return the view of each verb."""
        raise NotImplementedError

    def object_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of an object."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs. `quote` escapes ``_`` in ids, so no id clashes with the prefix ``_add``."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", self._guard(self.list_view), name=f"{name}_changelist"),
            path("_add/", self._guard(self.deny_view), name=f"{name}_add"),
            path("_history/<path:object_id>/", self._guard(self.redirect_to_home), name=f"{name}_history"),
            path("_delete/<path:object_id>/", self._guard(self.deny_view), name=f"{name}_delete"),
            *[
                path(
                    f"_verb/{verb.name}/<path:object_id>/",
                    self.guard_verb(self._view_of(functools.partial(view, self)), verb),
                    name=f"{name}_{verb.name}",
                )
                for verb, view in self.verb_views()
            ],
            path("<path:object_id>/", self._guard(self._view_of(self.object_view)), name=f"{name}_change"),
        ]

    def list_view(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the overview: there is no page of all objects."""
        return self.redirect_to_home(request)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return an object's id, unquoted, if it is valid.

        Raises:
            ValueError: it is not; the page responds with 404.
        """
        raise NotImplementedError

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return False: no entry in the index."""
        return False

    def _view_of(self, view: Callable[[HttpRequest, str], HttpResponse]) -> View:
        def wrapper(request: HttpRequest, object_id: str) -> HttpResponse:
            try:
                valid_id = self.parse_id(unquote(object_id))
            except ValueError as exc:
                raise Http404(str(exc)) from exc
            return view(request, valid_id)

        return wrapper
