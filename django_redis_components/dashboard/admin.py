"""The `ModelAdmin` classes of the dashboard: its pages, their verbs and permissions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path

from django_redis_components.core import keys
from django_redis_components.dashboard.actions import views as action_views
from django_redis_components.dashboard.failures import change_views as failure_change_views
from django_redis_components.dashboard.failures import views as failure_views
from django_redis_components.dashboard.flows import views as flow_views
from django_redis_components.dashboard.limits import views as limit_views
from django_redis_components.dashboard.live import views as live_views
from django_redis_components.dashboard.locks import views as lock_views
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
from django_redis_components.dashboard.overview import views as overview_views
from django_redis_components.dashboard.panels import views as panel_views
from django_redis_components.dashboard.queues import change_views
from django_redis_components.dashboard.queues import views as queue_views
from django_redis_components.dashboard.schedules import change_views as schedule_change_views
from django_redis_components.dashboard.schedules import edit_views as schedule_edit_views
from django_redis_components.dashboard.schedules import views as schedule_views
from django_redis_components.dashboard.task import change_views as task_change_views
from django_redis_components.dashboard.task import views as task_views
from django_redis_components.dashboard.verbs import Verb
from django_redis_components.dashboard.workers import change_views as worker_change_views
from django_redis_components.dashboard.workers import views as worker_views
from django_redis_components.taskqueue.stats import fingerprint


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


class LiveEventAdmin(PageAdmin):
    """The page Live."""

    view_permission, home = "view_liveevent", "liveevent"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the newest events."""
        return live_views.live(self, request, extra_context)


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


class ScheduleAdmin(PageAdmin):
    """The page of schedules."""

    home = "schedule"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the schedules, and what is due in the next hours."""
        return schedule_views.schedules(self, request, extra_context)

    def action_urls(self, name: str) -> list[URLPattern]:
        """Return the URLs of the changes."""

        def view_of(command: str) -> View:
            return lambda request: schedule_change_views.change(self, request, command)

        edit = self.guard_verb(lambda request: schedule_edit_views.edit(self, request), schedule_edit_views.EDIT)
        return [
            path("edit/", edit, name=f"{name}_edit"),
            *(
                path(f"{command}/", self.guard_verb(view_of(command), verb), name=f"{name}_{command}")
                for command, verb in schedule_change_views.VERBS.items()
            ),
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


class PanelPageAdmin(PageAdmin):
    """A page that consists of registered panels. The page has the name of its model, and so has its permission."""

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        self.home = str(self.opts.model_name)
        self.view_permission = f"view_{self.home}"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the panels."""
        return panel_views.panel_page(self, request, self.home, extra_context)


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
