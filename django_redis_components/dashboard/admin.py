"""The `ModelAdmin` classes of the dashboard: entries in the admin, permissions, URLs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse, reverse_lazy
from django.views.decorators.http import require_http_methods

from django_redis_components.core import keys
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.actions import views as action_views
from django_redis_components.dashboard.failures import change_views as failure_change_views
from django_redis_components.dashboard.failures import views as failure_views
from django_redis_components.dashboard.flows import views as flow_views
from django_redis_components.dashboard.limits import views as limit_views
from django_redis_components.dashboard.locks import views as lock_views
from django_redis_components.dashboard.models import (
    Action,
    Failure,
    Lock,
    Overview,
    Queues,
    RateLimit,
    Task,
    TaskFlow,
    Worker,
)
from django_redis_components.dashboard.overview import views as overview_views
from django_redis_components.dashboard.queues import change_views
from django_redis_components.dashboard.queues import views as queue_views
from django_redis_components.dashboard.task import change_views as task_change_views
from django_redis_components.dashboard.task import views as task_views
from django_redis_components.dashboard.verbs import Verb
from django_redis_components.dashboard.workers import change_views as worker_change_views
from django_redis_components.dashboard.workers import views as worker_views
from django_redis_components.taskqueue.stats import fingerprint

if TYPE_CHECKING:
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


class OverviewAdmin(PageAdmin):
    """The overview page."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the overview."""
        return overview_views.overview(self, request, extra_context)


class FailureAdmin(PageAdmin):
    """The page of failures. Its objects are errors by fingerprint."""

    view_permission, home = "view_failure", "failure"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the errors, and one of them in detail."""
        return failure_views.failures(self, request, extra_context)

    def redirect_to_home(self, request: HttpRequest, object_id: str = "", **_: Any) -> HttpResponse:
        """Redirect links to an error, for example in "Recent actions", to its detail."""
        if fingerprint.PATTERN.fullmatch(object_id):
            return HttpResponseRedirect(failure_change_views.back_url(self, object_id))
        return super().redirect_to_home(request)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the changes."""

        def view_of(verb: Verb) -> View:
            def view(request: HttpRequest) -> HttpResponse:
                return failure_change_views.change_error(self, request, verb)

            return self.guard_verb(view, verb)

        changes = (failure_change_views.RETRY, failure_change_views.DELETE)
        return [path(f"{verb.name}/", view_of(verb), name=f"{name}_{verb.name}") for verb in changes]


class WorkerAdmin(PageAdmin):
    """The page of workers."""

    home = "worker"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the worker processes."""
        return worker_views.workers(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the commands."""

        def view_of(command: str) -> View:
            return lambda request: worker_change_views.change(self, request, command)

        return [
            path(f"{command}/", self.guard_verb(view_of(command), verb), name=f"{name}_{command}")
            for command, verb in worker_change_views.VERBS.items()
        ]


class LockAdmin(PageAdmin):
    """The page of locks and semaphores."""

    view_permission, home = "view_lock", "lock"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show held locks and permits."""
        return lock_views.locks(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URL of the release."""
        return [path("release/", self.guard_verb(self.release_view, lock_views.RELEASE), name=f"{name}_release")]

    def release_view(self, request: HttpRequest) -> HttpResponse:
        """Confirm or execute a release."""
        return lock_views.release(self, request)


class RateLimitAdmin(PageAdmin):
    """The page of rate limits."""

    view_permission, home = "view_ratelimit", "ratelimit"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the limits and the state of a key."""
        return limit_views.limits(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URL of the reset."""
        return [path("reset/", self.guard_verb(self.reset_view, limit_views.RESET), name=f"{name}_reset")]

    def reset_view(self, request: HttpRequest) -> HttpResponse:
        """Confirm or execute a reset."""
        return limit_views.reset(self, request)


class ActionAdmin(PageAdmin):
    """The page of actions."""

    view_permission, home = "view_action", "action"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show who has changed what."""
        return action_views.actions(self, request, extra_context)


class ObjectAdmin(UnmanagedAdmin):
    """Pages of objects, ``<model>/<id>/``. They are linked from other pages, not from the admin's index.

    Attributes:
        verb_views: the view of each verb.
        object_view: the view of the page.
    """

    verb_views: ClassVar[Sequence[tuple[Verb, Callable[..., HttpResponse]]]] = ()
    object_view: ClassVar[Callable[..., HttpResponse]]

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
                    self.guard_verb(self._view_of(view), verb),
                    name=f"{name}_{verb.name}",
                )
                for verb, view in self.verb_views
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

    def _view_of(self, view: Callable[..., HttpResponse]) -> View:
        @functools.wraps(view)
        def wrapper(request: HttpRequest, object_id: str) -> HttpResponse:
            try:
                valid_id = self.parse_id(unquote(object_id))
            except ValueError as exc:
                raise Http404(str(exc)) from exc
            return view(self, request, valid_id)

        return wrapper


class QueuesAdmin(ObjectAdmin):
    """The pages of queues."""

    verb_views = change_views.VIEWS
    object_view = staticmethod(queue_views.queue)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return the name of a queue."""
        return keys.validate_name(text, "queue name")


class TaskAdmin(ObjectAdmin):
    """The pages of tasks, and ``task/?id=…``, which redirects to one."""

    verb_views = task_change_views.VIEWS
    object_view = staticmethod(task_views.task)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return the id. The page of an id that no task has is 404, and says what may have happened."""
        return text

    def list_view(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the page of the task that a form names."""
        return task_views.jump(self, request)


class FlowAdmin(ObjectAdmin):
    """The pages of flows."""

    verb_views = ((flow_views.CANCEL, flow_views.cancel),)
    object_view = staticmethod(flow_views.flow)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return the id of a flow."""
        if not 0 < len(text) <= flow_views.MAX_ID:
            raise ValueError(f"flow id: expected at most {flow_views.MAX_ID} characters.")
        return text


def register(site: admin.AdminSite) -> None:
    """Register the dashboard in an admin site. Registering it again has no effect."""
    for model, model_admin in ADMINS.items():
        if not site.is_registered(model):
            site.register(model, model_admin)


#: Models and their admins, in the order of the tabs.
ADMINS: dict[type[Model], type[UnmanagedAdmin]] = {
    Overview: OverviewAdmin,
    Queues: QueuesAdmin,
    Task: TaskAdmin,
    Failure: FailureAdmin,
    Worker: WorkerAdmin,
    Lock: LockAdmin,
    RateLimit: RateLimitAdmin,
    Action: ActionAdmin,
    TaskFlow: FlowAdmin,
}
