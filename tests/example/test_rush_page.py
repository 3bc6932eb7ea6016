"""The page of the rush: each way of selling, a killed worker, and what is refused."""

from __future__ import annotations

import os
import re
import socket

import psutil
import pytest

from tests.support import eventually
from tests.support.demo import Demo, Visitor, demo_environment
from tests.support.processes import Children

#: Seconds within which a rush must be over: its tasks take six seconds on four processes.
RUSH_S = 90.0


def figures(text: str) -> dict[str, int]:
    """The figures of the page by their labels."""
    return {label: int(value) for label, value in re.findall(r"<dt>(.*?)</dt><dd><b>(\d+)</b>", text)}


def start(visitor: Visitor, way: str) -> None:
    visitor.get("/rush/")
    reply = visitor.post("/rush/", way=way)
    assert (reply.status, reply.headers["Location"]) == (302, "/rush/")


def wait_until_over(visitor: Visitor) -> str:
    """Return the page once all tasks of the rush have finished."""

    def finished() -> str:
        text = visitor.get("/rush/state/").text
        assert 'data-running="0"' in text
        return text

    return eventually(finished, timeout_s=RUSH_S)


def verdict_of(text: str, way: str) -> list[str]:
    """The cells of a way in the table, without markup."""
    row = re.search(rf'<tr><th scope="row">{way}</th>(.*?)</tr>', text, re.DOTALL)
    assert row is not None, text
    return [" ".join(re.sub(r"<.*?>", " ", cell).split()) for cell in re.findall(r"<td.*?>(.*?)</td>", row[1])]


@pytest.mark.parametrize(("way", "label"), [("item", "Lock per item"), ("watch", "WATCH and retry")])
def test_one_of_a_hundred_buyers_gets_the_item_and_all_are_answered(demo: Demo, way: str, label: str) -> None:
    visitor = demo.visitor()

    start(visitor, way)

    text = wait_until_over(visitor)
    assert figures(text) == {"Stock": 0, "Oversold": 0, "Buyers answered": 100, "Tasks finished": 100}
    assert "1 bought the item, 0 wait, 99 were told that it is sold out." in text
    sold, oversold, _seconds, attempts, verdict = verdict_of(text, label)
    assert (sold, oversold) == ("1", "0")
    assert verdict.startswith("✓ Correct One buyer won" if way == "item" else "! Wasteful")
    assert attempts == "1.0" if way == "item" else float(attempts) > 1.5


def test_without_protection_more_than_one_buyer_pays(demo: Demo) -> None:
    visitor = demo.visitor()

    start(visitor, "none")

    text = wait_until_over(visitor)
    shown = figures(text)
    assert shown["Oversold"] > 0
    assert verdict_of(text, "No protection")[4] == f"✗ Wrong {shown['Oversold'] + 1} buyers paid for one item."


def test_tasks_of_a_killed_worker_run_again_and_all_buyers_are_answered(demo: Demo) -> None:
    visitor = demo.visitor()
    start(visitor, "item")

    def running() -> tuple[str, str]:
        text = visitor.get("/rush/state/").text
        found = re.search(r'action="(/rush/\d+/kill/)#running".*?name="worker" value="(.*?)"', text, re.DOTALL)
        assert found is not None
        return found[1], found[2]

    path, worker = eventually(running, timeout_s=RUSH_S)
    host, _, pid = worker.rpartition(":")
    assert host == socket.gethostname()
    killed = psutil.Process(int(pid))
    assert killed in psutil.Process(demo.child.pid).children(recursive=True)

    assert visitor.post(path, worker=worker).status == 302

    psutil.wait_procs([killed], timeout=10)
    assert not killed.is_running()
    text = wait_until_over(visitor)
    assert figures(text)["Tasks finished"] == 100
    assert re.search(rf"Killed</span> process {pid} \(SIGKILL\) while it answered buyer \d+", text)
    assert "runs again after its worker was killed, run 2" in text


def test_only_workers_with_tasks_of_the_rush_are_killed(demo: Demo) -> None:
    visitor, me = demo.visitor(), socket.gethostname()
    start(visitor, "item")
    [number] = eventually(lambda: set(re.findall(r"/rush/(\d+)/kill/", visitor.get("/rush/").text)), timeout_s=RUSH_S)

    for worker in ("", f"{me}:{os.getpid()}", f"{me}:1", "elsewhere:1", "x", ":-1", "1" * 300):
        visitor.post(f"/rush/{number}/kill/", worker=worker)
        shown = visitor.get("/rush/").text
        assert "This worker runs no task of the rush any more, or it is on another host." in shown, worker

    assert figures(wait_until_over(visitor))["Tasks finished"] == 100


def test_one_rush_runs_at_a_time_and_one_without_its_process_is_given_up(demo: Demo, children: Children) -> None:
    visitor, env = demo.visitor(), demo_environment(demo.directory)
    visitor.get("/rush/")
    children.call("tests.example.acts:write_unanswered_rush", 0, env=env).result()

    visitor.post("/rush/", way="item")
    refused = visitor.get("/rush/").text
    children.call("tests.example.acts:write_unanswered_rush", 3_600, env=env).result()
    stale = visitor.get("/rush/").text
    start(visitor, "item")

    assert "A rush is running. Start the next one when its buyers have been answered." in refused
    assert figures(refused)["Buyers answered"] == 0
    assert "the site was stopped" in stale
    assert figures(wait_until_over(visitor))["Tasks finished"] == 100


def test_unknown_strategies_and_other_methods_are_refused(demo: Demo) -> None:
    visitor = demo.visitor()
    visitor.get("/rush/")

    visitor.post("/rush/", way="luck")

    assert "Unknown strategy: &#x27;luck&#x27;." in visitor.get("/rush/").text
    assert visitor.post("/rush/999999/kill/", worker="x").status == 404
    assert visitor.get("/rush/999999/kill/").status == 405
    assert visitor.post("/rush/state/").status == 405
