"""A crawl of every URL of the dashboard: each role, each verb, hostile ids, and a Redis user that may not write."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client

from django_redis_components.analytics import UniqueVisitors
from django_redis_components.dashboard.admin import ADMINS
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import Schedules, chain, get_queue
from example_project.localserver import free_port
from tests.dashboard.support import client_of, fail_with, group_of, write_worker
from tests.dashboard.test_bounded_client import dump
from tests.dashboard.test_lock_page import browser
from tests.support import Store, eventually
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

ROOT = "/admin/django_redis_components/"

#: Every view that changes something, or shows what is masked, and the permission that it requires beside the page's. A
#: new view belongs here or to `PAGES`.
VERBS = {
    "queues_pause": "pause_queue",
    "queues_resume": "pause_queue",
    "queues_purge": "purge_queue",
    "queues_restore": "restore_task",
    "queues_retry": "retry_task",
    "queues_delete": "delete_task",
    "task_retry": "retry_task",
    "task_run_now": "run_task",
    "task_reschedule": "reschedule_task",
    "task_cancel": "cancel_task",
    "task_delete": "delete_task",
    "task_arguments": "view_task_arguments",
    "failure_retry_error": "retry_task",
    "failure_delete_error": "delete_task",
    "schedule_run": "run_schedule",
    "schedule_pause": "pause_schedule",
    "schedule_resume": "pause_schedule",
    "schedule_remove": "remove_schedule",
    "worker_quiet": "quiet_worker",
    "worker_resume": "quiet_worker",
    "worker_restart": "restart_worker",
    "worker_stop": "stop_worker",
    "lock_release": "release_lock",
    "ratelimit_reset": "reset_ratelimit",
    "taskflow_cancel": "cancel_flow",
}
#: Views that change nothing. Views of the admin that this package forbids or redirects are "add", "delete", "history".
PAGES = {
    *(f"{model._meta.model_name}_changelist" for model in ADMINS),
    "queues_change",
    "task_change",
    "taskflow_change",
}
#: Names and ids that an attacker might choose, as a path. A name is cut by the server's limit of a URL before this.
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a/../../b",
    "..",
    "%",
    "%2F",
    "a\nb",
    "a\x00b",
    "\u202eevil",
    "{{ 7|add:7 }}",
    "_5F_3C",
    "x" * 10_000,
    "\ud7ff",
    "-1",
    "*",
    "a{b}",
]


def views() -> Iterator[tuple[str, str]]:
    """Yield the name, without the app, and the path of each view, with ``{}`` for the id of an object."""
    for model, model_admin in ADMINS.items():
        for each in model_admin(model, admin.site).get_urls():
            name = (each.name or f"{model._meta.model_name}_object").removeprefix("django_redis_components_")
            yield name, f"{ROOT}{model._meta.model_name}/{each.pattern}".replace("<path:object_id>", "{}")


@pytest.fixture
def scene(redis_server: Store) -> dict[str, str]:
    """Some of everything that the pages show; query strings and ids by the name of a model."""
    fail_with("no stock", queue="mail")
    note.using(queue_name="mail").enqueue("x")
    Lock("stock", timeout=600).acquire()
    flow = chain(note.si(1), note.si(2)).enqueue()
    Schedules().add("nightly", note, every=3_600, args=["x"])
    write_worker(redis_server, "web-1:a", queues=["mail"], busy=1)
    UniqueVisitors("default").add("ada")
    task = get_queue("mail").tasks("failed")[0].id
    ids = {"queues": "mail", "task": task, "taskflow": flow.id}
    queries = {
        "failure": f"group={group_of('no stock')}",
        "schedule": "name=nightly",
        "worker": "worker=web-1:a&target=web-1:a",
        "lock": "name=stock&kind=lock",
        "ratelimit": "limit=x&key=y",
        "queues": "state=failed",
    }
    return {**{f"id:{name}": quote(value, safe="") for name, value in ids.items()}, **queries}


def address(path: str, scene: dict[str, str]) -> str:
    model = path.removeprefix(ROOT).partition("/")[0]
    return f"{path.format(scene.get(f'id:{model}', '1'))}?{scene.get(model, '')}"


def test_every_view_is_a_page_or_has_a_permission() -> None:
    known = {*VERBS, *PAGES}
    others = {name for name, _path in views()} - known

    assert {name.rpartition("_")[2] for name in others} <= {"add", "delete", "history", "change", "object"}
    assert known <= {name for name, _path in views()}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_requires_its_permission(
    verb: str, scene: dict[str, str], redis_server: Store, settings: Any
) -> None:
    """With all other permissions of the site it is refused; with it, it is not; READ_ONLY refuses it to a superuser."""
    path = address(dict(views())[verb], scene)
    everything = set(Permission.objects.values_list("codename", flat=True))
    views_of_pages = {name for name in everything if name.startswith("view_")} - {"view_task_arguments"}
    # What any of several permissions allows is checked without all of them.
    others = browser(*(everything - {VERBS[verb]}))
    allowed = browser(*views_of_pages, VERBS[verb])
    alone = browser(VERBS[verb])
    before = dump(redis_server), LogEntry.objects.count()

    for send in (others.get, others.post, alone.get, alone.post):
        assert send(path).status_code == 403
    assert (dump(redis_server), LogEntry.objects.count()) == before
    assert allowed.get(path).status_code in (200, 302, 400, 404, 405, 409)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    superuser = client_of("superuser")
    expected = 200 if verb == "task_arguments" else 403
    assert {superuser.get(path).status_code, superuser.post(path).status_code} <= {expected, 403, 405}


def test_nobody_without_a_permission_sees_a_page(scene: dict[str, str]) -> None:
    anonymous, staff = Client(), browser()
    for _name, path in views():
        for send in ("get", "post"):
            shown = getattr(anonymous, send)(address(path, scene))
            assert (shown.status_code, shown["Location"].partition("?")[0]) == (302, "/admin/login/")
            assert getattr(staff, send)(address(path, scene)).status_code in (403, 405)
        assert staff.get(address(path, scene)).status_code == 403, path


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_no_id_makes_a_view_fail(hostile: str, redis_server: Store) -> None:
    superuser = client_of("superuser")
    superuser.raise_request_exception = False
    for name, path in views():
        if "{}" not in path:
            continue
        for id_ in (quote(hostile, safe=""), quote(hostile)):
            for send in (superuser.get, superuser.post):
                response = send(path.format(id_))
                assert response.status_code in (200, 302, 400, 403, 404, 405, 409), (name, response.status_code)
                text = response.content.decode()
                assert "<script>alert" not in text
                assert "<img src=x" not in text
                assert len(text) < 200_000


def test_pages_need_no_right_to_write_and_stay_within_their_budget(
    scene: dict[str, str], redis_server: Store, settings: Any
) -> None:
    superuser = client_of("superuser")
    for name in sorted(PAGES):
        superuser.get(address(dict(views())[name], scene))  # PFCOUNT stores what it has counted
    before = dump(redis_server)
    user = f"viewer-{redis_server.prefix}"
    rights = ["+@read", "-@dangerous", "+info", "+time", "+evalsha", "+eval"]
    redis_server.raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", *rights)
    url = redis_server.url.replace("//", f"//{user}:secret@", 1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}
    try:
        for name in sorted(PAGES):
            path = address(dict(views())[name], scene)
            shown = superuser.get(path, follow=True)
            assert shown.status_code == 200, (name, shown.content[:2_000])
            assert b"NOPERM" not in shown.content, name
            found = superuser.get(f"{path}&format=json", follow=True)
            cost = found.json().get("cost") if found["Content-Type"] == "application/json" else None
            assert cost is None or (cost["commands"] <= 200 and cost["round_trips"] <= 2), (name, cost)
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", user)
    assert dump(redis_server) == before


#: Pages that do not need Redis: registered limits and the admin's log are shown, and lists without a page redirect.
WITHOUT_REDIS = {
    "ratelimit_changelist",
    "action_changelist",
    "task_changelist",
    "queues_changelist",
    "taskflow_changelist",
}
#: Pages of panels: one that cannot be read shows a note, another reads the counts without a script, or another server.
PANELS = {"analytics_changelist", "autocomplete_changelist"}


def fault_refused(_store: Store) -> str:
    return f"redis://127.0.0.1:{free_port()}/0"


def fault_wrong_password(store: Store) -> str:
    return store.url.replace("//", "//unknown:wrong-secret@", 1)


def fault_no_scripts(store: Store) -> str:
    return with_rights(store, "+@all", "-evalsha", "-eval", "-evalsha_ro", "-eval_ro")


def with_rights(store: Store, *rights: str) -> str:
    user = f"limited-{store.prefix}"
    store.raw.execute_command("ACL", "SETUSER", user, "reset", "on", ">secret", "~*", "&*", *rights)
    return store.url.replace("//", f"//{user}:secret@", 1)


@pytest.fixture
def _no_users(redis_server: Store) -> Iterator[None]:
    yield
    redis_server.raw.execute_command("ACL", "DELUSER", f"limited-{redis_server.prefix}")


def use(settings: Any, url: str) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}


@pytest.mark.parametrize(
    ("fault", "title", "advice"),
    [
        (fault_refused, "Cannot connect to Redis.", "Check that the server is running and accepts connections"),
        (fault_wrong_password, "Redis authentication failed.", "Check the connection’s username and password"),
        (fault_no_scripts, "The Redis user lacks a permission.", "Grant the command named in the message"),
    ],
    ids=["refused", "wrong password", "no scripts"],
)
@pytest.mark.usefixtures("_no_users")
def test_each_page_says_what_is_wrong_and_what_to_do(
    fault: Callable[[Store], str], title: str, advice: str, scene: dict[str, str], redis_server: Store, settings: Any
) -> None:
    superuser = client_of("superuser")
    use(settings, fault(redis_server))

    for name in sorted(PAGES - WITHOUT_REDIS):
        shown = superuser.get(address(dict(views())[name], scene))
        text = shown.content.decode()
        # Visitors and events are read without a script, and this process has no index.
        is_partial = name == "autocomplete_changelist" or (
            fault is fault_no_scripts
            and name in ("overview_changelist", "analytics_changelist", "liveevent_changelist")
        )
        if is_partial and name in {*PANELS, "liveevent_changelist"}:
            assert shown.status_code == 200
            continue
        assert (name, shown.status_code) == (name, 200 if is_partial else 503)
        assert (name, title in text, advice in text) == (name, True, True)
        assert 'id="user-tools"' in text, "it is within the admin's layout"
        assert "wrong-secret" not in text
    for name in sorted(WITHOUT_REDIS):
        shown = superuser.get(address(dict(views())[name], scene), follow=name != "task_changelist")
        assert shown.status_code in (200, 302, 404, 503), name
    for verb in VERBS:
        path = address(dict(views())[verb], scene)
        for send in (superuser.get, superuser.post):
            assert send(path).status_code in (200, 302, 400, 404, 405, 409, 503), verb
    assert superuser.get("/admin/").status_code == 200


@pytest.mark.usefixtures("_no_users")
def test_pages_without_the_right_to_info_are_shown(scene: dict[str, str], redis_server: Store, settings: Any) -> None:
    superuser = client_of("superuser")
    use(settings, with_rights(redis_server, "+@all", "-info"))

    for name in sorted(PAGES):
        assert superuser.get(address(dict(views())[name], scene), follow=True).status_code == 200, name
    overview = superuser.get(f"{ROOT}overview/").content.decode()
    assert "Unknown: the Redis user may not run INFO." in overview


def test_stalled_server_stops_no_page_for_long(own_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.dashboard.clients.READ_S", 0.05)
    superuser = client_of("superuser")
    eventually(lambda: superuser.get(f"{ROOT}overview/").status_code == 200)
    pid = own_server.raw.info("server")["process_id"]

    os.kill(pid, signal.SIGSTOP)
    try:
        for name in sorted(PAGES - WITHOUT_REDIS - {"autocomplete_changelist"}):
            shown = superuser.get(dict(views())[name].format("1"))
            text = shown.content.decode()
            assert (name, shown.status_code) == (name, 503)
            assert "Redis did not reply within 2 seconds." in text or "Cannot connect to Redis." in text
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: superuser.get(f"{ROOT}overview/").status_code == 200)


def test_pages_of_objects_that_a_restart_has_lost_say_so(scene: dict[str, str], redis_server: Store) -> None:
    superuser = client_of("superuser")
    redis_server.delete_keys()

    for name in sorted(PAGES):
        shown = superuser.get(address(dict(views())[name], scene), follow=True)
        expected = 404 if name in ("queues_change", "task_change", "taskflow_change") else 200
        assert (name, shown.status_code) == (name, expected)
    for verb in VERBS:
        path = address(dict(views())[verb], scene)
        for send in (superuser.get, superuser.post):
            assert send(path).status_code in (200, 302, 400, 404, 405, 409), verb
