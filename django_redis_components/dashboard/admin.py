"""The `ModelAdmin` classes of the dashboard: URLs, methods and permissions of its pages and their verbs.

Django imports this module when it starts. The views of pages, and with them the components, are imported when they are
used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse_lazy
from django.views.decorators.http import require_http_methods

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.dashboard.links import SHARD_PREFIX
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.pages import PAGES, page_of

if TYPE_CHECKING:
    from django_redis_components.dashboard.verb import Verb

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

#: A view of a page.
View = Callable[[PageRequest], HttpResponse]
#: Methods that pages accept, and those that forms accept.
PAGE_METHODS, FORM_METHODS = ("GET", "HEAD"), ("GET", "HEAD", "POST")


def with_shards(urls: list[URLPattern]) -> list[URLPattern]:
    """Return the URLs, and before them those that name a shard."""
    return [*(path(f"{SHARD_PREFIX}<str:shard_name>/{each.pattern}", each.callback) for each in urls), *urls]


class UnmanagedAdmin(_ModelAdmin):
    """URLs and permissions of a page, whose model has no table. No view of `ModelAdmin` is used.

    Attributes:
        page: the page.
        view_permission: codename of the permission to view it.
    """

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        self.page = page_of(str(self.opts.model_name))
        self.view_permission = self.page.view_permission

    def show(self, request: PageRequest) -> HttpResponse:
        """Show the page."""
        from django_redis_components.dashboard import responses

        return responses.show(self.page, request)

    def deny(self, request: PageRequest) -> HttpResponse:
        """Respond with 403: objects cannot be added or deleted."""
        raise PermissionDenied

    def redirect(self, request: PageRequest) -> HttpResponse:
        """Redirect the admin's links to objects, for example in "Recent actions", to a page."""
        return HttpResponseRedirect(self.page.url_of(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the user may view the page."""
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

    def _path(self, route: str, view: View, name: str, methods: tuple[str, ...] = PAGE_METHODS) -> URLPattern:
        """Return the URL of a view, behind the site's login and the permission check.

        Args:
            name: suffix of the URL's name; "" for a URL without a name.
            methods: HTTP methods that it accepts.

        Django's LoginRequiredMiddleware redirects to `login_url` of the view; the default would be the
        site's LOGIN_URL, not the admin's.
        """

        def permitted(request: HttpRequest, object_id: str = "", shard_name: str = "") -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            page_request = PageRequest(request, self, object_id, shard_name)
            try:
                return self._view_of_shard(page_request, view, has_object=False)
            except ConfigurationError as exc:
                from django_redis_components.dashboard import responses

                return responses.misconfigured_response(page_request, exc)
            except Http404 as exc:
                if not page_request.wants_html:
                    raise
                from django_redis_components.dashboard import responses

                return responses.not_found(page_request, str(exc))

        guarded = self.admin_site.admin_view(require_http_methods(methods)(permitted))

        def wrapper(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            return guarded(request, **kwargs)

        wrapper.model_admin = self  # type: ignore[attr-defined]
        wrapper.login_url = reverse_lazy("admin:login", current_app=self.admin_site.name)  # type: ignore[attr-defined]
        full = f"{self.opts.app_label}_{self.opts.model_name}_{name}" if name else None
        return path(route, wrapper, name=full)

    def _view_of_shard(self, request: PageRequest, view: View, *, has_object: bool) -> HttpResponse:
        """Call a view for the shard that the request names, for the one that has its object, or for all.

        Args:
            has_object: whether the id of the object was parsed.
        """
        from django_redis_components.dashboard import clients, responses, shard_choice

        try:
            shards = shard_choice.shards_shown(request, has_object=has_object)
        except ValueError as exc:
            return responses.bad_request(request, exc)
        request.links.shard = shard_choice.name_in_urls(shards)
        with clients.showing(*shards):
            return view(request)

    def _verb_paths(self, route: str) -> list[URLPattern]:
        """Return the URLs of the verbs, each behind its permission and `READ_ONLY`."""
        return [
            self._path(route.format(name), self._verb_view(verb, view), name, FORM_METHODS)
            for name, (verb, view) in self.page.verb_views.items()
        ]

    def _verb_view(self, verb: Verb, view: View) -> View:
        def allowed(request: PageRequest) -> HttpResponse:
            from django_redis_components.dashboard import verbs

            return verbs.respond(request, verb, view)

        return allowed


class PageAdmin(UnmanagedAdmin):
    """A page that is listed in the admin's index."""

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs of the page, of its verbs, and redirects."""
        return with_shards(
            [
                self._path("", self.show, "changelist"),
                self._path("add/", self.deny, "add"),
                *self._verb_paths("{}/"),
                self._path("<path:object_id>/history/", self.redirect, "history"),
                self._path("<path:object_id>/delete/", self.deny, "delete"),
                self._path("<path:object_id>/change/", self.redirect, "change"),
                self._path("<path:object_id>/", self.redirect, ""),
            ]
        )

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the user sees the entry in the index."""
        return self.has_view_permission(request)


class ObjectAdmin(UnmanagedAdmin):
    """Pages of objects, ``<model>/<id>/``, and the page of all. Only a page of all is in the admin's index."""

    def get_urls(self) -> list[URLPattern]:
        """Return the URLs. `quote` escapes ``_`` in ids, so no id clashes with the prefix ``_add``."""
        return with_shards(
            [
                self._path("", self.index, "changelist"),
                self._path("_add/", self.deny, "add"),
                self._path("_history/<path:object_id>/", self.redirect, "history"),
                self._path("_delete/<path:object_id>/", self.deny, "delete"),
                *self._verb_paths("_verb/{}/<path:object_id>/"),
                self._path("<path:object_id>/", self._with_id(self.show), "change"),
            ]
        )

    def index(self, request: PageRequest) -> HttpResponse:
        """Show the page of all objects, or what the page responds instead."""
        response = self.page.index(request)
        if response is None and self.page.listing is not None:
            from django_redis_components.dashboard import responses

            response = responses.show(self.page.listing, request)
        if response is None:
            raise Http404
        return response

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the user sees the entry in the index: of a page of all objects only."""
        return self.page.listing is not None and self.has_view_permission(request)

    def _verb_view(self, verb: Verb, view: View) -> View:
        return super()._verb_view(verb, self._with_id(view))

    def _with_id(self, view: View) -> View:
        def wrapper(request: PageRequest) -> HttpResponse:
            try:
                request.object_id = self.page.parse_id(unquote(request.object_id))
            except ValueError as exc:
                if not request.wants_html:
                    raise Http404(str(exc)) from exc
                from django_redis_components.dashboard import parameters, responses

                return responses.not_found(request, str(exc), parameters.language_of(exc))
            return self._view_of_shard(request, view, has_object=True)

        return wrapper


def register(site: admin.AdminSite) -> None:
    """Register the dashboard in an admin site. Registering it again has no effect."""
    for model, model_admin in ADMINS.items():
        if not site.is_registered(model):
            site.register(model, model_admin)


#: The models of the pages and their admins.
ADMINS: dict[type[Model], type[UnmanagedAdmin]] = {
    MODELS[page.slug]: ObjectAdmin if page.is_object else PageAdmin for page in PAGES
}
