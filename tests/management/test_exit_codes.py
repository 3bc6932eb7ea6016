"""Exit codes of names and ids that do not exist, of all commands alike. docs/guides/command-line.md states the rule."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.management.redis.groups import GROUPS
from tests.architecture.sources import ROOT
from tests.management.support import READS
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings

pytestmark = pytest.mark.django_db

#: Names that the site declares, or that are known from their use.
UNKNOWN_NAMES = [
    "queues status X",
    "queues plan X",
    "queues errors X",
    "queues groups X",
    "queues pause X",
    "queues pause X --group a",
    "queues resume X",
    "queues resume X --group a",
    "queues purge X --yes",
    "queues restore X 0123456789abcdef",
    "queues retry X",
    "queues delete X --yes",
    "tasks list X ready",
    "tasks find --queue X",
    "tasks enqueue X",
    "tasks enqueue tests.taskqueue.tasks.add 1 2 --queue X",
    "tasks retry --queue X",
    "tasks run-now --queue X",
    "tasks reschedule --queue X --in 1h",
    "tasks move ID --to X",
    "tasks cancel --queue X --yes",
    "tasks delete --queue X --yes",
    "shards move X default",
    "shards move default X",
    "shards move default default",
    "shards empty X",
    "schedules run X",
    "schedules pause X",
    "schedules resume X",
    "schedules remove X --yes",
    "schedules import-celery-beat --database X",
    "limits show X key",
    "limits reset X key --yes",
    "limits block X key --yes",
    "limits unblock X key",
    "autocomplete check X",
    "autocomplete repair X",
    "search check X",
    "search repair X",
]
#: Arguments that no parser of the command line refuses, but a component.
INVALID_ARGUMENTS = [
    "queues pause default --group a --until 5",
    "workers set --threads 2",
    "workers set here --all --threads 2",
    "workers set here",
    "locks list --at X",
    "locks list --name 'a\n'",
    "analytics report --site 'a\n'",
]
#: Ids of what ends by itself: such a one may have existed when the command was typed.
UNKNOWN_IDS = [
    "queues restore default 0123456789abcdef",
    "queues retry default ID",
    "queues delete default ID",
    "tasks show ID",
    "tasks retry ID",
    "tasks run-now ID",
    "tasks reschedule ID --in 1h",
    "tasks update ID --priority 1",
    "tasks move ID --to default",
    "tasks cancel ID",
    "tasks delete ID",
    "tasks cancel ID ID2",
    "workers quiet ID",
    "workers resume ID",
    "workers restart ID --yes",
    "workers stop ID --yes",
    "workers set ID --threads 2 --yes",
    "workers reset ID --yes",
    "flows show ID",
]
#: What these end does not exist, so it has ended.
NOTHING_TO_END = [
    "queues resume default",
    "queues resume default --group a",
    "queues purge default --yes",
    "queues delete default --yes",
    "locks release X --yes",
    "aggregation delete X --yes",
    "geoip delete X --yes",
    "autocomplete delete X --yes",
    "analytics forget 7 --yes",
]


def exit_code(words: list[str]) -> int:
    """Run a command; return its exit code."""
    try:
        call_command(*words, stdout=io.StringIO(), stderr=io.StringIO())
    except CommandError as exc:
        return exc.returncode
    return 0


def words_of(line: str) -> list[str]:
    """Split a line as a shell does; `shlex` would end a word at a line feed within quotes no sooner."""
    return ["redis", *(word.strip("'") if word != "'a\n'" else "a\n" for word in line.split(" "))]


@pytest.fixture(autouse=True)
def _one_queue(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default"])


@pytest.mark.parametrize("line", [*UNKNOWN_NAMES, *INVALID_ARGUMENTS])
def test_unknown_name_or_invalid_argument_exits_with_2(line: str) -> None:
    assert exit_code(words_of(line)) == 2


@pytest.mark.parametrize("line", UNKNOWN_IDS)
def test_id_of_what_has_ended_exits_with_1(line: str) -> None:
    assert exit_code(words_of(line)) == 1


@pytest.mark.parametrize("line", NOTHING_TO_END)
def test_command_that_finds_nothing_to_end_exits_with_0(line: str) -> None:
    assert exit_code(words_of(line)) == 0


@pytest.mark.parametrize("group", sorted({*GROUPS} - {"doctor"}))
def test_unknown_connection_exits_with_2(group: str) -> None:
    assert exit_code(["redis", *READS[group], "--using", "nowhere"]) == 2


@pytest.mark.parametrize(
    "line",
    [
        "runworker --using nowhere", "runworker unheard-of", "runpoller --using nowhere",
        "reconcile_messaging --using nowhere",
        "rebuild_search unheard-of", "rebuild_autocomplete unheard-of", "rebuild_search --using nowhere",
        "load_ip_ranges /dev/null --using nowhere", "aggregate_logs /dev/null --using nowhere",
        "distribute_files publish logs /dev/null --consumers a --using nowhere",
    ],
)  # fmt: skip
def test_unknown_name_of_a_command_beside_the_groups_exits_with_2(line: str) -> None:
    assert exit_code(line.split()) == 2


def test_guide_states_the_rule() -> None:
    page = " ".join((ROOT / "docs" / "guides" / "command-line.md").read_text().split())

    assert "| 0 | done, also if there was nothing to end" in page
    assert "| 1 | not or only partly done, with the reason on standard error" in page
    assert "| 2 | invalid arguments, also an unknown name" in page
