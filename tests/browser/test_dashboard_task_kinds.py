"""Pages of groups, sealed arguments, batches, flows that grow, finished tasks and the outbox, in Chinese."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.utils import timezone
from playwright.sync_api import Page, expect

from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.taskqueue import chain, get_queue, group
from tests.browser.support import HEIGHT, NARROW, WIDE, authenticate, faults, sign_in
from tests.contrib.outbox.support import installed_outbox, nothing_is_sent, outbox_table
from tests.dashboard.flow_pages import url_of as url_of_flow
from tests.dashboard.queue_pages import url_of as url_of_queue
from tests.dashboard.support import URL, settle_tasks, write_worker
from tests.dashboard.task_pages import url_of
from tests.support import Store
from tests.taskqueue.batching.tasks import collect
from tests.taskqueue.fair_share.support import send, serve
from tests.taskqueue.flows.support import start_run
from tests.taskqueue.support import new_fetcher, taskqueue_settings
from tests.taskqueue.tasks import add, fail, note, use_context

DEFAULT = url_of_queue("default")
#: Texts of the cells of a table that are cut.
CUT = "(cells) => cells.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"


def test_groups_are_shown_whole_and_paused_with_the_keyboard(site: str, open_page: Callable[..., Page]) -> None:
    send("ada1 ada2 bob1")
    serve.enqueue("a-customer-with-a-long-name-" * 3, 1)
    get_queue("default").pause_group("bob", "The invoice is open: ask the accounting department first. " * 3)
    page = open_page("light", WIDE, HEIGHT)
    sign_in(page, site, DEFAULT, "zh-hans")
    page.locator("[data-drc-pause]").click()
    table = page.locator("[data-drc-live=groups] table")

    assert faults(page) == []
    assert table.locator("th, td").evaluate_all(CUT) == []
    table.get_by_role("link", name="ada").press("Enter")
    assert faults(page) == []
    page.locator("input[name=reason]").fill("vacation")
    page.locator("input[name=reason]").press("Enter")

    expect(table.get_by_role("rowheader", name="ada")).to_contain_text("vacation")


def test_sealed_arguments_are_opened_with_the_keyboard_and_it_is_logged(
    site: str, settings: Any, open_page: Callable[..., Page]
) -> None:
    fernet = pytest.importorskip("cryptography.fernet")
    taskqueue_settings(settings, SEAL_KEYS=[fernet.Fernet.generate_key().decode()])
    task = note.using(sealed=True).enqueue({"card": "4111-1111"})
    page = open_page("dark", NARROW, HEIGHT)
    sign_in(page, site, url_of(task.id), "zh-hans")
    arguments = page.locator("section[aria-labelledby=drc-arguments]")

    assert arguments.locator("code, .drc-code").count() == 0, "a word that looks as an argument"
    expect(arguments).to_contain_text("参数已加密。")
    arguments.get_by_role("link").press("Enter")
    assert faults(page) == []
    page.locator("form.drc-confirm button").press("Enter")

    expect(arguments.locator(".drc-code")).to_have_text('what={"card":"4111-1111"}')
    assert faults(page) == []
    assert LogEntry.objects.get().change_message == f"Show arguments of task {task.id!r}: shown."


def test_batches_flows_that_grow_and_finished_tasks_are_accessible_and_fit(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    flow = group(use_context.s(), add.s(1, 2)).enqueue(callback=note.s())
    _, context = start_run(use_context)
    added = context.flow.add(chain(note.s("b"), group(add.si(1, 1), fail.si())).on_failure("ignore"))
    note.enqueue("long text " * 40).cancel()
    settle_tasks("succeeded")
    waits, runs = collect.using(queue_name="w").enqueue("a"), [collect.enqueue(letter) for letter in "abc"]
    new_fetcher().fetch("0", 1)
    write_worker(redis_server, "here:1", seen_s=-600)
    tasks = [url_of(task.id) for task in (added[0], waits, runs[0])]
    lists = [f"{DEFAULT}?state={state}" for state in ("running", "successful", "cancelled")]
    page = open_page("dark", NARROW, HEIGHT)
    authenticate(page, site, "zh-hans")

    for address in (url_of_flow(flow.id), *tasks, *lists, f"/admin/django_redis_components/taskclass/{collect.name}/"):
        page.goto(site + address)
        assert faults(page) == [], address


def test_calls_that_wait_in_the_outbox_are_a_problem_and_a_panel(
    site: str, settings: Any, open_page: Callable[..., Page]
) -> None:
    with installed_outbox(), outbox_table(settings):
        with nothing_is_sent(), transaction.atomic():
            note.enqueue_on_commit("x")
        OutboxEntry._base_manager.update(created_at=timezone.now() - timedelta(hours=1))
        page = open_page("light", NARROW, HEIGHT)
        sign_in(page, site, URL, "zh-hans")

        expect(page.locator(".drc-problems")).to_contain_text("发件箱中有 1 个调用在等待")
        expect(page.get_by_role("region", name="发件箱")).to_contain_text("1 小时")
        assert faults(page) == []
