"""`manage.py redis queues` lists, pauses and resumes the groups of a queue."""

from __future__ import annotations

import getpass

import pytest

from django_redis_components.taskqueue import get_queue
from tests.support import Store
from tests.taskqueue.fair_share.support import send, take
from tests.taskqueue.store.support import data, lines, refused

pytestmark = pytest.mark.integration


def test_groups_are_listed_with_their_ready_tasks(store: Store) -> None:
    send("a1 b1 b2 b3")
    get_queue("default").pause_group("c", "open invoice", author="ada")

    header, *rows, _, summary = lines("queues", "groups", "default")

    assert header.split() == ["GROUP", "READY", "OLDEST", "PAUSED"]
    assert [row.split()[:2] for row in rows] == [["b", "3"], ["a", "1"], ["c", "0"]]
    assert "open invoice" in rows[2]
    assert summary == "Groups of queue 'default' that are served in turn: 2."


def test_queue_without_groups_says_so(store: Store) -> None:
    assert lines("queues", "groups", "default")[-1] == "Queue 'default' has no groups with ready tasks."


def test_group_is_paused_and_resumed(store: Store) -> None:
    send("a1 b1")

    [paused] = lines("queues", "pause", "default", "--group", "a", "--reason", "open invoice")
    assert paused == (
        "Group 'a' of queue 'default' is paused. To resume it: python manage.py redis queues resume --group=a default"
    )
    found = data("queues", "groups", "default")["groups"]
    assert found[0]["paused"]["author"] == getpass.getuser()
    assert take() == ["b1"]
    assert lines("queues", "resume", "default", "--group", "a") == ["Group 'a' of queue 'default' is resumed."]
    assert lines("queues", "resume", "default", "--group", "a") == ["Group 'a' of queue 'default' was not paused."]
    assert take() == ["a1"]


def test_end_of_a_pause_is_refused_for_a_group(store: Store) -> None:
    text = refused("queues", "pause", "default", "--group", "a", "--until", "60", code=2)

    assert text == "--until is not accepted with --group: a group stays paused until it is resumed."


def test_name_that_no_group_has_is_refused(store: Store) -> None:
    for verb in ("pause", "resume"):
        assert "expected at most 100 characters" in refused("queues", verb, "default", "--group", "x" * 101, code=2)
