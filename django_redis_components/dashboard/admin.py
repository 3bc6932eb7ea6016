"""The `ModelAdmin` classes of the dashboard: its pages, their verbs and permissions.

Django imports this module when it starts. Methods import the views, and with them the components, when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path

from django_redis_components.dashboard.model_admins import ObjectAdmin, PageAdmin, UnmanagedAdmin, View
from django_redis_components.dashboard.models import (
    Action,
    Analytics,
    Autocomplete,
    Failure,
    LiveEvent,
    Lock,
    Messaging,
    Overview,
    Queues,
    RateLimit,
    Schedule,
    Task,
    TaskFlow,
    Worker,
)

if TYPE_CHECKING:
    from django_redis_components.dashboard.verbs import Verb

    VerbViews = Sequence[tuple[Verb, Callable[..., HttpResponse]]]


class OverviewAdmin(PageAdmin):
    """The overview page."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the overview."""
        from django_redis_components.dashboard.overview import views

        return views.overview(self, request, extra_context)


class FailureAdmin(PageAdmin):
    """The page of failures. Its objects are errors by fingerprint."""

    view_permission, home = "view_failure", "failure"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the errors, and one of them in detail."""
        from django_redis_components.dashboard.failures import views

        return views.failures(self, request, extra_context)

    def redirect_to_home(self, request: HttpRequest, object_id: str = "", **_: Any) -> HttpResponse:
        """Redirect links to an error, for example in "Recent actions", to its detail."""
        from django_redis_components.dashboard.failures import change_views
        from django_redis_components.taskqueue.stats import fingerprint

        if fingerprint.PATTERN.fullmatch(object_id):
            return HttpResponseRedirect(change_views.back_url(self, object_id))
        return super().redirect_to_home(request)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the changes."""
        from django_redis_components.dashboard.failures import change_views

        def view_of(verb: Verb) -> View:
            def view(request: HttpRequest) -> HttpResponse:
                return change_views.change_error(self, request, verb)

            return self.guard_verb(view, verb)

        changes = (change_views.RETRY, change_views.DELETE)
        return [path(f"{verb.name}/", view_of(verb), name=f"{name}_{verb.name}") for verb in changes]


class LiveEventAdmin(PageAdmin):
    """The page Live."""

    view_permission, home = "view_liveevent", "liveevent"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the newest events."""
        from django_redis_components.dashboard.live import views

        return views.live(self, request, extra_context)


class WorkerAdmin(PageAdmin):
    """The page of workers."""

    home = "worker"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the worker processes."""
        from django_redis_components.dashboard.workers import views

        return views.workers(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the commands."""
        from django_redis_components.dashboard.workers import change_views

        def view_of(command: str) -> View:
            return lambda request: change_views.change(self, request, command)

        return [
            path(f"{command}/", self.guard_verb(view_of(command), verb), name=f"{name}_{command}")
            for command, verb in change_views.VERBS.items()
        ]


class ScheduleAdmin(PageAdmin):
    """The page of schedules."""

    home = "schedule"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the schedules, and what is due in the next hours."""
        from django_redis_components.dashboard.schedules import views

        return views.schedules(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the changes."""
        from django_redis_components.dashboard.schedules import change_views, edit_views

        def view_of(command: str) -> View:
            return lambda request: change_views.change(self, request, command)

        edit = self.guard_verb(lambda request: edit_views.edit(self, request), edit_views.EDIT)
        return [
            path("edit/", edit, name=f"{name}_edit"),
            *(
                path(f"{command}/", self.guard_verb(view_of(command), verb), name=f"{name}_{command}")
                for command, verb in change_views.VERBS.items()
            ),
        ]


class LockAdmin(PageAdmin):
    """The page of locks and semaphores."""

    view_permission, home = "view_lock", "lock"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show held locks and permits."""
        from django_redis_components.dashboard.locks import views

        return views.locks(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URL of the release."""
        from django_redis_components.dashboard.locks import views

        return [path("release/", self.guard_verb(self.release_view, views.RELEASE), name=f"{name}_release")]

    def release_view(self, request: HttpRequest) -> HttpResponse:
        """Confirm or execute a release."""
        from django_redis_components.dashboard.locks import views

        return views.release(self, request)


class RateLimitAdmin(PageAdmin):
    """The page of rate limits."""

    view_permission, home = "view_ratelimit", "ratelimit"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the limits and the state of a key."""
        from django_redis_components.dashboard.limits import views

        return views.limits(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URL of the reset."""
        from django_redis_components.dashboard.limits import views

        return [path("reset/", self.guard_verb(self.reset_view, views.RESET), name=f"{name}_reset")]

    def reset_view(self, request: HttpRequest) -> HttpResponse:
        """Confirm or execute a reset."""
        from django_redis_components.dashboard.limits import views

        return views.reset(self, request)


class ActionAdmin(PageAdmin):
    """The page of actions."""

    view_permission, home = "view_action", "action"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show who has changed what."""
        from django_redis_components.dashboard.actions import views

        return views.actions(self, request, extra_context)


class PanelPageAdmin(PageAdmin):
    """A page that consists of registered panels. The page has the name of its model, and so has its permission."""

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        self.home = str(self.opts.model_name)
        self.view_permission = f"view_{self.home}"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the panels."""
        from django_redis_components.dashboard.panels import views

        return views.panel_page(self, request, self.home, extra_context)


class QueuesAdmin(ObjectAdmin):
    """The pages of queues."""

    def verb_views(self) -> VerbViews:
        """Return the view of each verb."""
        from django_redis_components.dashboard.queues import change_views

        return change_views.VIEWS

    def object_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of a queue."""
        from django_redis_components.dashboard.queues import views

        return views.queue(self, request, object_id)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return the name of a queue."""
        from django_redis_components.core import keys

        return keys.validate_name(text, "queue name")


class TaskAdmin(ObjectAdmin):
    """The pages of tasks, and ``task/?id=…``, which redirects to one."""

    def verb_views(self) -> VerbViews:
        """Return the view of each verb."""
        from django_redis_components.dashboard.task import change_views

        return change_views.VIEWS

    def object_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of a task."""
        from django_redis_components.dashboard.task import views

        return views.task(self, request, object_id)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return the id. The page of an id that no task has is 404, and says what may have happened."""
        return text

    def list_view(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the page of the task that a form names."""
        from django_redis_components.dashboard.task import views

        return views.jump(self, request)


class FlowAdmin(ObjectAdmin):
    """The pages of flows."""

    def verb_views(self) -> VerbViews:
        """Return the view of each verb."""
        from django_redis_components.dashboard.flows import views

        return ((views.CANCEL, views.cancel),)

    def object_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of a flow."""
        from django_redis_components.dashboard.flows import views

        return views.flow(self, request, object_id)

    @staticmethod
    def parse_id(text: str) -> str:
        """Return the id of a flow."""
        from django_redis_components.dashboard.flows import views

        if not 0 < len(text) <= views.MAX_ID:
            raise ValueError(f"flow id: expected at most {views.MAX_ID} characters.")
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
    LiveEvent: LiveEventAdmin,
    Schedule: ScheduleAdmin,
    Worker: WorkerAdmin,
    Lock: LockAdmin,
    RateLimit: RateLimitAdmin,
    Analytics: PanelPageAdmin,
    Autocomplete: PanelPageAdmin,
    Messaging: PanelPageAdmin,
    Action: ActionAdmin,
    TaskFlow: FlowAdmin,
}
