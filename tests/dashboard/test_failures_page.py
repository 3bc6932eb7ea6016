"""The page of failures: groups with a real sample, their tasks, and changes of exactly the previewed tasks."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.error_text import masked_error
from django_redis_components.taskqueue import get_queue, get_result
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.scan import Filters, scan_tasks
from tests.dashboard.failure_pages import DELETE, FAILURES, MASK, RETRY
from tests.dashboard.queue_pages import QUEUES, url_of, write_past
from tests.dashboard.support import (
    HOSTILE,
    URL,
    Page,
    browser,
    client_of,
    dump,
    enqueue_to_fail,
    fail_jobs,
    fail_with,
    fields_of,
    group_of,
    settle_tasks,
    text_of,
)
from tests.support import Store
from tests.support.raising_logs import raising_logs
from tests.taskqueue.store.support import counts, fail_many
from tests.taskqueue.support import new_fetcher
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

#: Messages of errors: markup, 1 MB, text that is not UTF-8, control characters.
MESSAGES = [*HOSTILE, "x" * 1_000_000, "<b>" * 50_000, "\udc80 \x00\x1b[2K", "a\u2028b\r\nc"]


@pytest.fixture
def operator() -> Client:
    return browser("view_failure", "view_overview", "retry_task", "delete_task", "restore_task")


def shown(client: Client, **query: str) -> str:
    response = client.get(FAILURES, query)
    assert response.status_code == 200, response.content
    return unescape(text_of(response.content.decode()))


def unescape(text: str) -> str:
    return text.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'")


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return unescape(text_of(response.content.decode()))


def failed_of(group: str, queue: str = "default") -> set[str]:
    found = run(connections.client(), scan_tasks(home(), queue, "failed", Filters(fingerprint=group), limit=2_000))
    return {task.record.id for task in found.tasks}


def test_errors_of_all_queues_are_shown_with_a_real_sample(redis_server: Store, operator: Client) -> None:
    fail_with("no stock")
    fail_with(*[f"template 'welcome{number}.html'" for number in range(3)])
    *_, newest = fail_with("template 'bye.html'\nsecond line", "template 'last.html'\nsecond line", queue="mail")
    group = group_of("template ''")

    html = operator.get(FAILURES).content.decode()

    page = unescape(text_of(html))
    assert "2 errors · 6 failed tasks" in page
    assert "LookupError ■ Ongoing Retry 5… Delete 5…" in page
    assert re.search(r"LookupError template 'last.html' mail and 1 more · since [\d:]+ · .{3,10} ago 5 Peak: \d", page)
    assert f"Sample Newest task: {newest} template 'last.html' second line Traceback (most recent call last):" in page
    assert "raise LookupError(text) LookupError: template 'last.html' second line" in page
    assert re.search(r"Last seen (< 1|\d+) s ago Failures 5, final: 5 Queues mail 2, default 3 Raised in tests", page)
    assert "Failed tasks 2 in mail 3 in default tests.taskqueue.tasks.note 5" in page
    assert re.search(rf"tests\.taskqueue\.tasks\.note {newest} 1 template 'last.html'", page)
    assert re.search(
        r"In the last hour: 5 Failures per minute, last hour Since \d\d:\d\d. Show data Minute Failures \d", page
    )
    assert "A queue keeps its 100 newest errors, each for 7 d." in page
    assert f'href="{url_of("mail")}?state=failed&amp;error={group}"' in html
    assert [svg["aria-labelledby"] for svg in Page(html).all("svg") if svg["class"] == "drc-chart"] == [
        "drc-error-title drc-error-desc"
    ]
    assert html.count('<tr><th scope="row"><time datetime=') in (1, 2), "since the first failure"

    assert "no stock" in shown(operator, group=group_of("no stock")).partition("Sample")[2]
    of_default = shown(operator, queue="default", group=group)
    assert "Queues default 3" in of_default
    assert "template 'last.html'" not in of_default
    assert f"Sample · newest task {newest}" not in of_default
    assert "This error is not kept any more, or not in this queue." in shown(operator, queue="mail", group="0" * 16)
    assert "0 errors · 0 failed tasks" in shown(operator, queue="other")
    assert "No error matches the filter." in shown(operator, queue="other")

    data = operator.get(FAILURES, {"format": "json"}).json()
    assert [(each["count"], each["queues"]) for each in data["errors"]] == [
        (5, {"mail": 2, "default": 3}),
        (1, {"default": 1}),
    ]
    assert data["selected"]["fingerprint"] == group
    assert data["selected"]["sample"]["message"] == "template 'last.html'\nsecond line"
    assert data["selected"]["sample"]["traceback"].startswith("Traceback")
    assert data["selected"]["tasks"]["mail"]["failed"] == 2
    assert (data["total"], data["shown"]) == (3, 3)


def test_page_without_errors_says_how_long_they_are_kept(redis_server: Store, operator: Client) -> None:
    assert "No failures. Errors are kept for 7 d after their last failure." in shown(operator)


def test_queue_page_links_its_errors_to_their_tasks(redis_server: Store, operator: Client) -> None:
    fail_with("template 'a.html'", "no stock", "template 'b.html'")
    group = group_of("template ''")

    html = operator.get(url_of("default")).content.decode()
    found = operator.get(url_of("default"), {"state": "failed", "error": group, "format": "json"}).json()

    assert f"?state=failed&amp;error={group}" in html
    assert "LookupError template 'b.html' tests.dashboard.support.raised 2 2" in unescape(text_of(html))
    assert sorted(task["error"]["message"] for task in found["listing"]["tasks"]) == [
        "template 'a.html'", "template 'b.html'"
    ]  # fmt: skip
    assert found["failures"][0]["sample"]["message"] == "template 'b.html'"


def test_retry_changes_only_the_previewed_tasks_while_the_same_error_recurs(
    redis_server: Store, operator: Client
) -> None:
    group = group_of("no user 1")
    previewed = set(fail_with(*["no user 1"] * 1_200))
    others = set(fail_with("no stock", "no stock"))
    fetcher, later = enqueue_to_fail(300)
    [again] = fail_with("no user 2")
    asked = operator.get(RETRY, {"group": group})
    assert "Retry 1,201 failed tasks of this error?" in text(asked)
    assert "tests.taskqueue.tasks.note 1,201" in text(asked)
    assert "Sample: 10 of 1,201" in text(asked)
    get_queue("default").retry_failed([again])  # by another operator, after the preview; it fails again
    other = new_fetcher(worker="fails:again")
    fail_jobs(other, other.fetch("0", 1), "no user 2")

    def fail_later() -> None:
        for start in range(0, 300, 5):
            fail_jobs(fetcher, later[start : start + 5], "no user 3")

    thread = threading.Thread(target=fail_later)
    thread.start()
    done = operator.post(RETRY, fields_of(asked), follow=True)
    thread.join()

    assert "Retrying 1,200 tasks." in text(done)
    assert failed_of(group) == {*(job.id for job in later), again}
    assert failed_of(group_of("no stock")) == others
    assert {get_result(task_id).state for task_id in sorted(previewed)[:50]} == {"ready"}
    assert counts() == (1_200, 303, 0)


def test_delete_covers_all_queues_and_is_undone(redis_server: Store, operator: Client) -> None:
    fail_with("no user 1", "no stock", "no user 2", "no user 3")
    fail_with("no user 4", "no user 5", queue="mail")
    group = group_of("no user 1")
    asked = operator.get(DELETE, {"group": group})
    page = text(asked)
    assert "Delete 5 failed tasks of this error?" in page
    assert "Error LookupError Message no user 5 Raised in tests.dashboard.support.raised Queues mail, default" in page
    assert re.search(r"mail · tests\.taskqueue\.tasks\.note 2 .{3,12} default · tests\.taskqueue\.tasks\.note 3", page)

    done = operator.post(DELETE, fields_of(asked), follow=True)

    assert "Deleted 5 tasks. Undo… mail Undo… default" in text(done)
    assert done.redirect_chain == [(f"{FAILURES}?group={group}", 302)]
    assert "None of its tasks is in the state “Failed”." in text(done)
    assert (counts(), counts("mail")) == ((0, 1, 0), (0, 0, 0))
    undos = re.findall(r'<a href="([^"]*_verb/restore/\w+/\?trash=\w+)">Undo…', done.content.decode())
    for undo in undos:
        operator.post(undo, fields_of(operator.get(undo)))
    assert (len(failed_of(group)), len(failed_of(group, "mail"))) == (3, 2)
    entry = LogEntry.objects.order_by("pk")[0]
    assert re.fullmatch(
        rf"Delete failed tasks of error {group} \(LookupError\) in"
        r" 'mail' until [-\d:. ]+ UTC, 'default' until [-\d:. ]+ UTC:"
        r" 5 tasks deleted, trash \w+, \w+\.",
        entry.change_message,
    )
    assert operator.get(entry.get_admin_url() or "")["Location"] == f"{FAILURES}?group={group}"

    of_mail = operator.get(DELETE, {"group": group, "queue": "mail"})
    operator.post(DELETE, fields_of(of_mail))
    assert (len(failed_of(group)), len(failed_of(group, "mail"))) == (3, 0)


def test_changes_require_their_permission_csrf_and_a_group(redis_server: Store, settings: Any) -> None:
    fail_with("no stock")
    group = {"group": group_of("no stock")}
    for permission, answers in (("", (403, 403)), ("retry_task", (200, 403)), ("delete_task", (403, 200))):
        client = browser("view_failure", permission)
        assert (client.get(RETRY, group).status_code, client.get(DELETE, group).status_code) == answers
        html = client.get(FAILURES).content.decode()
        assert ("retry_error/" in html, "delete_error/" in html) == tuple(code == 200 for code in answers)
    assert browser("retry_task", "view_overview").get(RETRY, group).status_code == 403
    root = Client(enforce_csrf_checks=True)
    root.force_login(User.objects.create_superuser("root"))
    assert root.post(RETRY, group).status_code == 403
    for wrong in ({}, {"group": "x"}, {"group": group["group"].upper()}, {**group, "queue": "a{b}"}):
        assert root.get(RETRY, wrong).status_code == 400, wrong
    times = (
        {"begin": "0001-01-01T00:00", "end": "2026-11-01"},
        {"begin": "2026-11-01", "end": "9999-12-31T23:59-14:00"},
    )
    for wrong in ({"group": "zz"}, {"queue": "x" * 300}, *times):
        assert root.get(FAILURES, wrong).status_code == 400, wrong
    assert "This error is not kept any more" in text(root.get(DELETE, {"group": "0" * 16}))
    get_queue("default").delete_failed()
    assert "None of these tasks is in this state any more." in text(root.get(DELETE, group))
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    assert root.get(RETRY, group).status_code == 403
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}
    assert [root.get(url, group).status_code for url in (FAILURES, RETRY, DELETE)] == [503] * 3


@pytest.mark.parametrize("hostile", MESSAGES, ids=[*map(str, range(len(MESSAGES)))])
def test_hostile_messages_are_escaped(hostile: str, redis_server: Store, operator: Client) -> None:
    urls = [(FAILURES, {}), (url_of("default"), {"state": "failed"}), (url_of("default"), {})]
    fail_with("harmless")
    clean = [Page(operator.get(*each).content.decode()) for each in urls]
    fail_with(hostile)

    for each, before in zip(urls, clean, strict=True):
        response = operator.get(*each)
        assert (response.status_code, len(response.content) < 400_000) == (200, True)
        page = Page(response.content.decode())
        assert {tag: len(page.all(tag)) for tag in ("b", "script", "img")} == {
            tag: len(before.all(tag)) for tag in ("b", "script", "img")
        }
        assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)
        assert operator.get(each[0], {**each[1], "format": "json"}).status_code == 200
    for url in (RETRY, DELETE):
        assert operator.get(url, {"group": group_of(hostile)}).status_code == 200


def test_site_masks_errors_everywhere_and_a_search_does_not_reveal_them(
    redis_server: Store, operator: Client, settings: Any
) -> None:
    fail_with("user Ada has no mail", "user Ada has no phone")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"MASK_ERROR": MASK}}
    group = group_of("user Ada has no mail")

    answers = [
        operator.get(url, {**query, "format": form}).content.decode()
        for url, query in (
            (FAILURES, {"group": group}),
            (url_of("default"), {"state": "failed"}),
            (RETRY, {"group": group}),
        )
        for form in ("html", "json", "fragment")
    ]

    assert [answer for answer in answers if "Ada" in answer] == []
    assert "LookupError: user ••• has no mail" in unescape(answers[0])
    listings = [
        operator.get(url_of("default"), {"state": "failed", "error": error, "format": "json"}).json()["listing"]
        for error in ("user Ada", "user •••", "has no mail", group)
    ]
    assert [len(listing["tasks"]) for listing in listings] == [0, 0, 1, 1]
    refused = operator.get(f"{QUEUES}_verb/retry/default/", {"state": "failed", "all": "1", "error": "user Ada"})
    assert "None of these tasks is in this state any more." in text(refused)
    fail_with("break the mask, user Ada")
    assert "Hidden: MASK_ERROR failed." in shown(operator)
    assert "Ada" not in shown(operator)


def test_mask_that_exits_in_a_thread_of_the_server_hides_the_error(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"MASK_ERROR": MASK}}

    with raising_logs(SystemExit) as messages, ThreadPoolExecutor(1) as pool:
        masked = pool.submit(masked_error, "exit").result()

    assert masked == "Hidden: MASK_ERROR failed."
    assert messages[0].startswith("%s failed, so an error is not shown.")


@pytest.mark.contract
def test_page_takes_two_round_trips_and_writes_nothing(store: Store, operator: Client) -> None:
    for number in range(8):
        fail_with("no user", f"error of {'abcdefgh'[number]}", queue=f"queue-{number}")
    before = dump(store)

    cost = operator.get(FAILURES, {"format": "json", "group": group_of("no user")}).json()["cost"]
    for query in ({}, {"queue": "queue-3"}, {"format": "fragment"}):
        assert operator.get(FAILURES, query).status_code == 200

    assert (cost["commands"], cost["round_trips"]) == (9, 2)
    assert dump(store) == before


def test_page_says_when_it_does_not_count_all(redis_server: Store, operator: Client) -> None:
    names = [f"{one}{other}" for one in "abcdefghijk" for other in "abcdefghij"]
    fail_with(*[f"error {name}" for name in names[:60]])
    fail_with(*[f"error {name}" for name in names], queue="mail")  # its oldest ten are not kept

    page = shown(operator)

    assert "Only the newest 100 of 160 errors of queues are listed and counted." in page
    fail_many(2_500, queue="video")
    fetcher, jobs = enqueue_to_fail(1, "video")
    fail_jobs(fetcher, jobs, "one of many")
    assert "≥ 1 in video (scanned 2,000 of 2,501 failed tasks)" in shown(operator, queue="video")


def test_overview_links_failures_only_with_the_permission(redis_server: Store, operator: Client) -> None:
    note.using(queue_name="mail").enqueue("x")
    write_past(redis_server, "mail")
    settle_tasks("failed", queue="mail")

    html = operator.get(URL).content.decode()
    other = client_of("staff with the permission").get(URL).content.decode()

    assert f'<a class="drc-problem-link" href="{FAILURES}?queue=mail">Show failures' in html
    assert f'<dt><a href="{FAILURES}?since=1h">Failure rate</a></dt>' in html
    assert FAILURES not in other
    assert "Show queue" in other


def test_each_failed_task_of_an_error_has_a_button_that_retries_it(redis_server: Store) -> None:
    [task_id] = fail_with("out of order")

    page = browser("view_failure", "view_overview", "retry_task").get(FAILURES, {"group": group_of("out of order")})
    viewer = browser("view_failure", "view_overview").get(FAILURES, {"group": group_of("out of order")})

    assert f'href="/admin/django_redis_components/task/_verb/retry/{quote(task_id)}/">Retry…' in page.content.decode()
    assert "_verb/retry/" not in viewer.content.decode()
