"""The page of a flow: graph, states, retry and cancellation, limits, hostile input."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.flows.graph import MAX_ACROSS, MAX_LAYERS, build_graph
from django_redis_components.dashboard.flows.tree import MAX_INDENTED
from django_redis_components.taskqueue import FlowDoesNotExist, TaskContext, chain, get_queue, group, task
from django_redis_components.taskqueue.flows.graph import MAX_DEPTH
from django_redis_components.taskqueue.flows.overview import FlowMember, read_flow
from django_redis_components.taskqueue.shards import home
from tests.dashboard.flow_pages import FLOWS, url_of
from tests.dashboard.support import HOSTILE, Page, browser, fields_of, settle_tasks, text_of, work_off_in_a_thread
from tests.support import Store
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import add, fail, note

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "cancel_flow", "retry_task")


def states_of(store: Store, flow_id: str) -> dict[str, int]:
    return run(connections.client(), read_flow(home(), flow_id, 10)).states


def member(number: int, *followers: int, name: str = "shop.tasks.send", state: str = "ready") -> FlowMember:
    return FlowMember(number, f"id-{number}", followers, state, name, "default")


@pytest.mark.contract
def test_flow_is_read_with_states_and_failed_tasks(store: Store) -> None:
    flow = group(add.s(1, 1), fail.using(max_attempts=1).s("x"), add.s(2, 2)).enqueue(
        callback=note.s(), on_error=note.s()
    )
    before = run(connections.client(), read_flow(home(), flow.id, 2))
    assert (before.tasks, before.states) == (4, {"ready": 3, "waiting": 1})
    assert [(each.number, each.id, each.followers) for each in before.members] == [
        (number, flow.results[number].id, (3,)) for number in range(2)
    ]
    assert before.on_error is not None

    work_off_in_a_thread()

    after = run(connections.client(), read_flow(home(), flow.id, 500))
    assert after.states == {"successful": 2, "failed": 1, "not_run": 1}
    assert [(each.number, each.name, each.queue) for each in after.failed] == [(1, fail.name, "default")]
    assert after.on_error is not None
    assert after.on_error.state == "successful"
    with pytest.raises(FlowDoesNotExist):
        run(connections.client(), read_flow(home(), "nowhere", 500))


def test_page_shows_the_graph_and_the_tasks_that_failed_first(redis_server: Store, operator: Client) -> None:
    flow = chain(add.s(1, 1), fail.using(max_attempts=1).s(), note.s()).enqueue()
    work_off_in_a_thread()

    html = operator.get(url_of(flow.id)).content.decode()

    text = text_of(html)
    assert "1 of 3 tasks are successful, 1 failed, 1 not run." in text
    assert html.count('class="drc-flow-box') == 3
    assert html.count("<line ") == 2
    listed = re.findall(r'scope="row" class="drc-name" title="([^"]+)"', html)
    assert listed == [fail.name, note.name, add.name]
    found = operator.get(url_of(flow.id), {"format": "json"}).json()
    assert found["flow"]["states"] == {"successful": 1, "failed": 1, "not_run": 1}
    assert (found["cost"]["commands"], found["cost"]["round_trips"]) == (2, 1), "the counts of the tabs included"


def test_page_of_a_large_flow_counts_its_first_tasks(redis_server: Store, operator: Client) -> None:
    flow = group(note.si(number) for number in range(5_001)).enqueue()
    settle_tasks("succeeded", 1)

    html = operator.get(url_of(flow.id)).content.decode()

    expected = "5,000 of 5,001 tasks have not finished; of the first 5,000: 4,999 ready, 1 successful."
    assert expected in text_of(html)
    assert "Cancel…" in html


def test_nested_flow_is_shown_as_a_tree(redis_server: Store, operator: Client) -> None:
    broken = chain(add.s(1, 1), fail.using(max_attempts=1).si("x"), note.s())
    flow = group(broken, chain(add.s(1, 1), note.s()), note.s(1)).then(note.s()).enqueue()
    work_off_in_a_thread()

    html = operator.get(url_of(flow.id)).content.decode()

    tree = html.partition('class="drc-tree"')[2].partition("</section>")[0].partition("drc-scroll")[0]
    branches = re.findall(r"<details( open)?><summary>([^<]+) <span[^>]*>([^<]+)</span>", tree)
    assert branches == [
        (" open", "Chain of 2 steps", "1 failed, 2 not run, 4 successful"),
        (" open", "Group of 3 steps", "1 failed, 1 not run, 4 successful"),
        (" open", "Chain of 3 steps", "1 failed, 1 not run, 1 successful"),
        ("", "Chain of 2 steps", "2 successful"),
    ]
    assert tree.count("<li>") == 4 + 7
    assert re.findall(r"Number (\d)", text_of(tree)) == [*"0123456"]
    assert "The tree has" not in html
    found = operator.get(url_of(flow.id), {"format": "json"}).json()["flow"]["tree"]
    assert (found["kind"], found["steps"], found["tasks"], found["children"][1]) == ("chain", 2, 7, 6)
    assert found["children"][0]["children"][0] == {
        "kind": "chain",
        "steps": 3,
        "tasks": 3,
        "first": 0,
        "children": [0, 1, 2],
    }


@task(takes_context=True)
def add_notes(context: TaskContext, count: int) -> None:
    context.flow.add(*(note.si(number) for number in range(count)), fail.si().on_failure("ignore"))


def test_added_tasks_are_shown_below_the_tree(redis_server: Store, operator: Client) -> None:
    flow = group(add_notes.s(100), chain(add.s(1, 1), note.s())).enqueue()
    work_off()

    html = operator.get(url_of(flow.id)).content.decode()

    text = text_of(html)
    assert "101 tasks added by running members 1 failure ignored, 100 successful note Number 6 successful" in text
    assert "1 further task is not shown" in text
    assert "The tree has 103 of 104 tasks." in text
    assert operator.get(url_of(flow.id), {"format": "json"}).json()["flow"]["added"] == 101


def test_flow_and_the_flow_that_is_its_callback_link_to_each_other(redis_server: Store, operator: Client) -> None:
    flow = chain(add.s(1, 1)).enqueue(on_complete=chain(note.s(), note.s()))
    work_off()
    assert flow.on_complete_result is not None
    inner = flow.on_complete_result.get(0)

    outer_html, inner_html = (operator.get(url_of(each)).content.decode() for each in (flow.id, inner))

    assert f'<a class="drc-mono" href="{url_of(inner)}"><bdi>{inner}</bdi></a>' in outer_html
    assert f'Callback of flow <a class="drc-mono" href="{url_of(flow.id)}"><bdi>{flow.id}</bdi></a>' in inner_html
    assert "Callback of flow" not in outer_html
    found = [operator.get(url_of(each), {"format": "json"}).json()["flow"] for each in (flow.id, inner)]
    assert [(each["callback_of"], each["callback_flows"]) for each in found] == [
        (None, {"on_complete": inner}),
        (flow.id, {}),
    ]


def test_flow_of_tasks_alone_has_no_tree(redis_server: Store, operator: Client) -> None:
    flow = chain(note.s(1), note.s()).enqueue()

    assert "drc-tree" not in operator.get(url_of(flow.id)).content.decode()
    assert operator.get(url_of(flow.id), {"format": "json"}).json()["flow"]["tree"] is None


def test_tree_of_a_large_flow_says_how_much_it_shows(redis_server: Store, operator: Client) -> None:
    flow = group(chain(note.si(1), note.si(2)) for _ in range(1_000)).enqueue()

    html = operator.get(url_of(flow.id)).content.decode()

    text = text_of(html)
    assert "Group of 1,000 steps 250 ready, 250 waiting, …" in text
    assert "933 further steps are not shown" in text
    assert "The tree has 132 of 2,000 tasks." in text
    assert len(html) < 150_000


def test_deepest_tree_is_shown(redis_server: Store, operator: Client) -> None:
    step: Any = group(note.si(1))
    for _ in range(MAX_DEPTH - 1):
        step = group(step, note.si(1))
    flow = step.enqueue()

    html = operator.get(url_of(flow.id)).content.decode()

    assert (html.count("<summary>Group"), html.count('class="drc-indented"')) == (MAX_DEPTH, MAX_INDENTED)
    found = operator.get(url_of(flow.id), {"format": "json"}).json()["flow"]["tree"]
    assert found["tasks"] == MAX_DEPTH


def test_page_shows_ignored_failures_and_callbacks(redis_server: Store, operator: Client) -> None:
    flow = group(fail.s().on_failure("ignore"), fail.s().on_failure("continue"), add.s(1, 1)).enqueue(
        on_error=note.si("error"), on_complete=note.s(), on_success=note.s()
    )
    work_off_in_a_thread()

    html = operator.get(url_of(flow.id)).content.decode()

    assert "1 of 3 tasks are successful, 1 failed, 1 failure ignored." in text_of(html)
    assert re.findall(r"<code>(\w+)</code>", html) == ["on_error", "on_complete", "on_success"]
    assert html.count(f'name="id" value="{flow.results[1].id}"') == 1, "a retry of the failed one is offered"
    assert f'name="id" value="{flow.results[0].id}"' not in html
    found = operator.get(url_of(flow.id), {"format": "json"}).json()["flow"]
    assert found["states"] == {"successful": 1, "failed": 1, "ignored": 1}
    assert [found[name]["state"] for name in ("on_error", "on_complete", "on_success")] == [
        "successful",
        "successful",
        "waiting",
    ]


def test_page_of_a_member_that_may_fail_says_what_follows(redis_server: Store) -> None:
    operator = browser("view_overview", "view_queue", "cancel_task")
    flow = chain(note.s("a").on_failure("ignore"), note.s()).enqueue(on_complete=note.s(), on_success=note.s())
    address = "/admin/django_redis_components/task/"
    first, second = (each.id.replace("_", "_5F") for each in flow.results)

    asked = [text_of(operator.get(f"{address}_verb/cancel/{each}/").content.decode()) for each in (first, second)]

    assert "Tasks of its flow that depend on it run without its result." in asked[0]
    assert "Tasks of its flow that depend on it fail." in asked[1]
    shown = [operator.get(f"{address}{each}/", {"format": "json"}).json() for each in (first, second)]
    assert [each["flow"]["on_failure"] for each in shown] == ["ignore", "cancel"]
    html = operator.get(FLOWS).content.decode()
    assert "-1" not in text_of(html)


def test_retry_of_the_failed_task_continues_the_flow(redis_server: Store, operator: Client) -> None:
    flow = chain(fail.using(max_attempts=1).s("x"), note.s()).enqueue()
    work_off_in_a_thread()
    form = {"state": "failed", "id": flow.results[0].id}
    html = operator.get(url_of(flow.id)).content.decode()
    [action] = re.findall(r'<form method="post" action="([^"]+_verb/retry/default/)">', html)
    assert f'value="{form["id"]}"' in html

    operator.post(action, fields_of(operator.post(action, form)))

    assert states_of(redis_server, flow.id) == {"ready": 1, "waiting": 1}


def test_cancellation_is_confirmed_and_logged(redis_server: Store, operator: Client) -> None:
    flow = chain(note.s("a"), note.s(), note.s()).enqueue()
    cancel = f"{FLOWS}_verb/cancel/{flow.id.replace('_', '_5F')}/"
    assert "Cancel 3 unfinished tasks of the flow? It has 3 tasks." in text_of(operator.get(cancel).content.decode())
    assert browser("view_overview").post(cancel).status_code == 403

    done = operator.post(cancel, follow=True)

    assert "Cancelled" in text_of(done.content.decode())
    assert states_of(redis_server, flow.id).get("cancelled", 0) >= 1
    assert get_queue("default").info().ready == 0
    assert re.fullmatch(rf"Cancel flow '{flow.id}': \d tasks? cancelled\.", LogEntry.objects.get().change_message)
    assert "All tasks of the flow have finished." in text_of(operator.get(cancel).content.decode())


def test_large_flow_is_bounded(redis_server: Store, operator: Client) -> None:
    flow = group(*[note.s(number) for number in range(1_200)]).enqueue(callback=note.s())

    html = operator.get(url_of(flow.id)).content.decode()

    assert "note × 500" in html
    assert "The graph has the first 500 of 1,201 tasks. The table has 100 tasks of the first 500" in text_of(html)
    assert html.count('<tr role="row">') == 101
    assert len(html) < 150_000


def test_boxes_of_wide_and_deep_flows_are_merged() -> None:
    wide = build_graph([member(number, 9, name=f"shop.tasks.t{number % 6}") for number in range(9)] + [member(9)])
    deep = build_graph([member(number, number + 1) for number in range(MAX_LAYERS + 7)])

    assert len(wide.boxes) == MAX_ACROSS + 1
    assert len(wide.lines) == MAX_ACROSS
    assert wide.boxes[MAX_ACROSS - 1].name.endswith("tasks of 3 names")
    assert (len(deep.boxes), deep.hidden) == (MAX_LAYERS, 7)


def test_box_shows_the_state_that_needs_attention() -> None:
    states = ["successful", "failed", "running", "successful", "unheard_of"]
    [box] = build_graph([member(number, state=state) for number, state in enumerate(states)]).boxes

    assert (box.kind, box.name) == ("failed", "send × 5")
    assert box.states == "1 failed, 1 running, …"


@pytest.mark.parametrize("flow_id", [*HOSTILE, "x" * 201, "nowhere", "a/b", "_zz", "%00"])
def test_unknown_flow_is_not_found(flow_id: str, redis_server: Store, operator: Client) -> None:
    for query in ({}, {"format": "json"}, {"format": "fragment"}):
        assert operator.get(f"{FLOWS}{flow_id}/", query).status_code in (302, 404)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_task_names_are_escaped(name: str, redis_server: Store, operator: Client) -> None:
    flow = chain(note.s("a"), note.s()).enqueue()
    clean = Page(operator.get(url_of(flow.id)).content.decode())
    redis_server.raw.hset(f"{base_key(redis_server)}:t:{flow.results[0].id}", "n", name)

    page = Page(operator.get(url_of(flow.id)).content.decode())

    assert [tag for tag, _ in page.tags] == [tag for tag, _ in clean.tags]
    assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": "x"},
        {"added": "x"},
        {"added": "7"},
        {"0": "\xff"},
        {"0": ""},
        {"0": "id a,b"},
        {"tree": "x"},
        {"tree": "[1]"},
    ],
)
def test_corrupt_flow_is_no_server_error(wrong: dict[str, str], redis_server: Store, operator: Client) -> None:
    flow = chain(note.s("a"), note.s()).enqueue()
    redis_server.raw.hset(f"{base_key(redis_server)}:flow:{flow.id}", mapping=wrong)

    assert operator.get(url_of(flow.id)).status_code in (200, 404, 503)


def test_outage_is_the_designed_503(own_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    own_server.servers[0].kill()

    for address in (url_of("any"), f"{FLOWS}_verb/cancel/any/"):
        assert operator.get(address).status_code == 503


def test_role_without_the_overview_is_refused(redis_server: Store) -> None:
    flow: Any = chain(note.s("a"), note.s()).enqueue()

    assert browser("cancel_flow").get(url_of(flow.id)).status_code == 403
    assert browser().get(url_of(flow.id)).status_code == 403
