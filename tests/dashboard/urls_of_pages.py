"""The URLs of the dashboard, read from its admin classes, with the permission of each and examples with data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.urls import URLPattern

from django_redis_components.analytics import SignIns, UniqueVisitors
from django_redis_components.dashboard.admin import ADMINS
from django_redis_components.dashboard.links import SHARD_PREFIX
from django_redis_components.dashboard.overview.snapshot import read_overview_snapshot
from django_redis_components.locks import Lock
from django_redis_components.ratelimits import RateLimit
from django_redis_components.taskqueue import Schedules, chain, get_queue
from tests.dashboard.support import fail_with, group_of, hit_recorded, write_poller, write_worker
from tests.support import Store
from tests.taskqueue.tasks import add, note

ADMIN = "/admin/django_redis_components/"
_ID = "<path:object_id>/"

#: Routes that every page has, and every object: redirects and refusals. They do not read Redis.
GENERIC = {"add/", f"{_ID}history/", f"{_ID}delete/", f"{_ID}change/", _ID}
GENERIC_OF_OBJECTS = {"", "_add/", f"_history/{_ID}", f"_delete/{_ID}"}

#: Pages by route, with example queries.
PAGES: dict[str, tuple[str, ...]] = {
    "overview/": ("?sort=failed&queues=all&range=7d", ""),
    "analytics/": ("", "?period=month&compare=year&page=/a/", "?period=last-month&source=country:FR"),
    "indexes/": ("",),
    "messaging/": ("",),
    "files/": ("",),
    "liveevent/": ("",),
    f"queues/{_ID}": (
        *(
            f"?state={state}"
            for state in ("ready", "scheduled", "retrying", "limited", "waiting", "running", "failed", "unregistered")
        ),
        "?state=failed&error={group}",
        "?state=failed&version=2026.11&host=app-1",
        "?state=ready&text=nothing",
    ),
    f"task/{_ID}": ("", "?of={failed}", "?of={scheduled}"),
    "failure/": ("", "?group={group}", "?queue=mail"),
    "schedule/": ("",),
    "worker/": ("",),
    "lock/": ("", "?name=stock"),
    "ratelimit/": ("", "?limit={limit}&key=ada"),
    "incident/": ("",),
    "memory/": ("",),
    "action/": ("",),
    f"taskflow/{_ID}": ("",),
    f"taskclass/{_ID}": ("?range=7d", ""),
    "tasksearch/": ("", "?q=out+of+order+queue:mail+since:1d"),
}
#: Verbs by route: the permission, and a query or form for an example.
VERBS: dict[str, tuple[str, str]] = {
    f"queues/_verb/pause/{_ID}": ("pause_queue", ""),
    f"queues/_verb/resume/{_ID}": ("pause_queue", ""),
    f"queues/_verb/pause_group/{_ID}": ("pause_queue", "?group=ada"),
    f"queues/_verb/resume_group/{_ID}": ("pause_queue", "?group=ada"),
    f"queues/_verb/purge/{_ID}": ("purge_queue", ""),
    f"queues/_verb/restore/{_ID}": ("restore_task", "?trash=unknown"),
    f"queues/_verb/retry/{_ID}": ("retry_task", "?state=failed&all=1"),
    f"queues/_verb/delete/{_ID}": ("delete_task", "?state=failed&all=1"),
    f"queues/_verb/rename/{_ID}": ("retry_task", "?state=unregistered&all=1"),
    f"queues/_verb/run_now/{_ID}": ("run_task", "?state=scheduled&all=1"),
    f"queues/_verb/reschedule/{_ID}": ("reschedule_task", "?state=scheduled&all=1"),
    f"queues/_verb/move/{_ID}": ("move_task", "?state=ready&all=1"),
    f"queues/_verb/cancel/{_ID}": ("cancel_task", "?state=ready&all=1"),
    f"task/_verb/retry/{_ID}": ("retry_task", ""),
    f"task/_verb/run_now/{_ID}": ("run_task", ""),
    f"task/_verb/reschedule/{_ID}": ("reschedule_task", ""),
    f"task/_verb/edit/{_ID}": ("change_task", ""),
    f"task/_verb/cancel/{_ID}": ("cancel_task", ""),
    f"task/_verb/delete/{_ID}": ("delete_task", ""),
    f"task/_verb/arguments/{_ID}": ("view_task_arguments", ""),
    f"task/_verb/stack/{_ID}": ("view_task_stack", ""),
    f"taskclass/_verb/enqueue/{_ID}": ("enqueue_task", ""),
    f"taskflow/_verb/cancel/{_ID}": ("cancel_flow", ""),
    "failure/retry_error/": ("retry_task", "?group={group}"),
    "failure/delete_error/": ("delete_task", "?group={group}"),
    "schedule/run/": ("run_schedule", "?name=hourly"),
    "schedule/pause/": ("pause_schedule", "?name=hourly"),
    "schedule/resume/": ("pause_schedule", "?name=hourly"),
    "schedule/edit/": ("change_schedule", "?name=hourly"),
    "schedule/remove/": ("remove_schedule", "?name=hourly"),
    "worker/quiet/": ("quiet_worker", "?id=here:1:abc"),
    "worker/resume/": ("quiet_worker", "?id=here:1:abc"),
    "worker/pool/": ("change_worker_pool", "?id=here:1:abc"),
    "worker/reset/": ("change_worker_pool", "?id=here:1:abc"),
    "worker/restart/": ("restart_worker", "?id=here:1:abc"),
    "worker/stop/": ("stop_worker", "?id=here:1:abc"),
    "incident/acknowledge/": ("acknowledge_problem", "?problem=paused:mail"),
    "incident/withdraw/": ("acknowledge_problem", "?problem=paused:mail"),
    "lock/release/": ("release_lock", "?kind=lock&name=stock&token={token}"),
    "ratelimit/reset/": ("reset_ratelimit", "?limit={limit}&key=ada"),
    "ratelimit/block/": ("block_ratelimit", "?limit={limit}&key=ada"),
    "ratelimit/unblock/": ("block_ratelimit", "?limit={limit}&key=ada"),
}
#: Pages and confirmations with an example of each.
EXAMPLES = {route: queries[-1] for route, queries in PAGES.items()} | {
    route: query for route, (_permission, query) in VERBS.items()
}


class Route(NamedTuple):
    """A URL pattern of an admin class: model and pattern as one path, and the permission of its page."""

    path: str
    view_permission: str
    is_generic: bool


def routes() -> list[Route]:
    """Return all URL patterns of the dashboard, but those that name a shard: each has the view of one of these."""
    return [
        Route(f"{model._meta.model_name}/{pattern.pattern}", model_admin.view_permission, _is_generic(pattern))
        for model in ADMINS
        for model_admin in [admin.site.get_model_admin(model)]
        for pattern in model_admin.get_urls()
        if not str(pattern.pattern).startswith(SHARD_PREFIX)
    ]


def _is_generic(pattern: URLPattern) -> bool:
    name = pattern.name or ""
    is_object = any(f"_{model}_" in name for model in ("queues", "task", "taskflow", "taskclass"))
    return str(pattern.pattern) in (GENERIC_OF_OBJECTS if is_object else GENERIC)


def address_of(route: str, query: str, known: dict[str, Any]) -> str:
    """Return the URL of a route with the example's data."""
    model = route.partition("/")[0]
    object_id = {"queues": "mail", "taskflow": known.get("flow"), "taskclass": note.name}.get(model, known.get("ready"))
    for state in ("failed", "scheduled"):
        if query == f"?of={{{state}}}":
            object_id, query = known[state], ""
    return f"{ADMIN}{route.replace(_ID, f'{quote(object_id)}/')}{query.format(**known)}"


def pages(known: dict[str, Any]) -> list[str]:
    """Return the URLs of all pages."""
    return [address_of(route, query, known) for route, queries in PAGES.items() for query in queries]


def confirmations(known: dict[str, Any]) -> list[str]:
    """Return the URLs of the confirmations of all verbs."""
    return [address_of(route, query, known) for route, (_permission, query) in VERBS.items()]


def everything(known: dict[str, Any]) -> Iterator[tuple[Route, str]]:
    """Yield each route with its examples. The generic ones have one."""
    for route in routes():
        queries = PAGES.get(route.path) or ([VERBS[route.path][1]] if route.path in VERBS else [""])
        for query in queries:
            yield route, address_of(route.path, query, known)


def fill(store: Store) -> dict[str, Any]:
    """Write data for every page; return the names that the examples use."""
    tasks = note.using(queue_name="mail")
    [failed, *_] = [*fail_with("out of order", "no stock", queue="mail")]
    ready = tasks.using(concurrency=1, rate="5/m", unique=True).enqueue("x")
    scheduled = tasks.using(run_after=3_600).enqueue("later")
    for number in range(60):
        tasks.enqueue(number)
    flow = chain(add.s(1, 1), note.s()).enqueue()
    lock, limit = Lock("stock", timeout=600), RateLimit("api", "5/m")
    lock.acquire()
    hit_recorded(limit, "ada")
    Schedules().add("hourly", note, every=3_600, args=["x"])
    write_worker(store, "here:1:abc", queues=["mail"], command_line="mail --threads 8 --async-concurrency 100")
    write_poller(store)
    UniqueVisitors("default").add("a", "b")
    SignIns("default").sign_in(7)
    get_queue("mail").pause(reason="repair", author="ada")
    read_overview_snapshot()  # PFCOUNT keeps its result within the HyperLogLog, once
    known = {"ready": ready.id, "failed": failed, "scheduled": scheduled.id, "flow": flow.id}
    known |= {"group": group_of("out of order"), "token": lock.token, "limit": limit.policy.id}
    return known | {"kept": (lock, limit)}
