"""`TASKQUEUE["DEFAULTS"]` and `TASKQUEUE["ROUTES"]`: options that the decorator does not set."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from django_redis_components import checks
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import (
    Concurrency,
    FairShare,
    InvalidTask,
    Rate,
    Unique,
    UnknownQueue,
    chain,
    defaults,
    every,
    exponential,
    registry,
    schedules,
    task,
)
from django_redis_components.taskqueue.options import DeclaredOptions, TaskOptions
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.startup import describe_worker
from django_redis_components.taskqueue.worker.options import WorkerOptions
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings, work_off


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with the tasks of this file only."""
    monkeypatch.setattr(registry, "tasks", {})
    monkeypatch.setattr(declared, "schedules", {})


def fail(order_id: int) -> None:
    raise LookupError("no order")


def tidy() -> None: ...


def route(name: str) -> str | None:
    return "nightly" if name.endswith("tidy") else None


def named(name: str) -> int:
    return len(name)


def raise_error(name: str) -> str:
    raise LookupError("no table")


#: An accepted value of each option that is not the default of the package.
VALUES: dict[str, Any] = {
    "queue_name": "slow",
    "priority": 7,
    "max_attempts": 3,
    "max_deliveries": 2,
    "backoff": exponential(base=2),
    "timeout": (5, 10),
    "concurrency": Concurrency(2),
    "rate": Rate("5/m"),
    "fair": FairShare("one", weight=2),
    "unique": Unique(until="started"),
    "expires": 60,
    "result_ttl": 5,
    "database": "other",
    "outbox": True,
    "sealed": True,
    "min_replicas": 1,
}


def test_every_option_has_a_value_in_this_file() -> None:
    assert VALUES.keys() == DeclaredOptions.__annotations__.keys()


@pytest.mark.parametrize("name", VALUES)
def test_default_applies_unless_the_decorator_sets_the_option(name: str, settings: Any) -> None:
    plain, explicit = task(fail), task(name="explicit", **{name: getattr(TaskOptions(), name)})(fail)

    taskqueue_settings(settings, DEFAULTS={name: VALUES[name]})

    assert getattr(plain.options, name) == VALUES[name]
    assert getattr(explicit.options, name) == getattr(TaskOptions(), name)
    assert (defaults.source_of(plain, name), defaults.source_of(explicit, name)) == ("DEFAULTS", "decorator")
    assert plain.using(run_after=5).options.run_after == 5
    assert getattr(plain.using(run_after=5).options, name) == VALUES[name]


def test_options_change_with_the_settings(settings: Any) -> None:
    made = task(fail)
    assert made.options is made.options
    assert made.options.max_attempts == 1

    taskqueue_settings(settings, DEFAULTS={"max_attempts": 3})
    assert made.options.max_attempts == 3
    assert made.options is made.options

    taskqueue_settings(settings)
    assert made.options.max_attempts == 1


def test_worker_applies_the_defaults_of_its_own_settings(redis_server: Store, settings: Any) -> None:
    result = task(fail).enqueue(7)
    taskqueue_settings(settings, DEFAULTS={"max_attempts": 2, "backoff": 0})

    work_off()

    assert (result.refresh() or result.state, result.attempts) == ("failed", 2)


def test_module_of_tasks_is_imported_without_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "early_tasks.py").write_text(
        "from django_redis_components.taskqueue import chain, cron, every, task\n"
        "@every(60)\n@task(name='early', aliases=['earlier'], timeout=5, unique=True, concurrency=1)\n"
        "def early(): ...\n"
        "urgent = early.using(priority=9)\n"
        "flow = chain(early.s(), urgent.si())\n"
        "every(60, name='urgent')(urgent)\n"
    )

    def read() -> None:
        raise AssertionError("a setting was read")

    monkeypatch.setattr(conf, "settings", read)
    importlib.import_module("early_tasks")
    sys.modules.pop("early_tasks")


@pytest.mark.parametrize(
    ("default", "text"),
    [
        ({"max_attempt": 3}, '["max_attempt"] is unknown. Did you mean "max_attempts"?'),
        ({"MAX_ATTEMPTS": 3}, '["MAX_ATTEMPTS"] is unknown. Did you mean "max_attempts"?'),
        (
            {"run_after": 3},
            f'["run_after"] is unknown. Did you mean "rate"? Options: {", ".join(DeclaredOptions.__annotations__)}.',
        ),
        ({"max_attempts": 0}, '["max_attempts"]: max_attempts=0: expected an integer from 1 to 1000000.'),
        ({"timeout": "5 s"}, '["timeout"]: timeout='),
        ({"rate": "ten"}, '["rate"]: '),
    ],
)
def test_invalid_default_is_an_error_that_names_the_option(default: Any, text: str, settings: Any) -> None:
    made = task(fail)
    taskqueue_settings(settings, DEFAULTS=default)

    with pytest.raises(ConfigurationError) as raised:
        made.enqueue(7)

    assert str(raised.value).startswith(f'REDIS_COMPONENTS["TASKQUEUE"]["DEFAULTS"]{text}')
    assert problems() == [("drc.E046", str(raised.value))]


def test_default_that_does_not_fit_a_task_names_the_task(settings: Any) -> None:
    made, other = task(fail), task(tidy)
    taskqueue_settings(settings, DEFAULTS={"unique": Unique(key="order:{order_id}")})

    assert made.options.unique == Unique(key="order:{order_id}")
    with pytest.raises(InvalidTask) as raised:
        other.enqueue()

    assert str(raised.value).startswith(
        f'{__name__}.tidy does not accept REDIS_COMPONENTS["TASKQUEUE"]["DEFAULTS"]: unique key'
    )
    assert problems() == [("drc.E046", str(raised.value))]


@pytest.mark.parametrize(
    ("routes", "queue"),
    [
        (None, "default"),
        ({}, "default"),
        ({f"{__name__}.tidy": "nightly"}, "nightly"),
        ({"*.tidy": "nightly", "*": "rest"}, "nightly"),
        ({"*": "rest", "*.tidy": "nightly"}, "rest"),
        ({"*.TIDY": "nightly"}, "default"),
        (route, "nightly"),
        (f"{__name__}.route", "nightly"),
    ],
)
def test_route_determines_the_queue(redis_server: Store, settings: Any, routes: Any, queue: str) -> None:
    made = task(tidy)
    taskqueue_settings(settings, ROUTES=routes)

    assert made.enqueue().queue_name == queue
    assert made.queue_name == queue


def test_call_precedes_decorator_precedes_route_precedes_default(redis_server: Store, settings: Any) -> None:
    plain, explicit = task(tidy), task(name="explicit", queue_name="chosen")(tidy)
    taskqueue_settings(settings, ROUTES={"*": "routed"}, DEFAULTS={"queue_name": "slow"})

    assert [each.enqueue().queue_name for each in (plain.using(queue_name="now"), explicit, plain)] == [
        "now",
        "chosen",
        "routed",
    ]
    sources = [defaults.source_of(each, "queue_name") for each in (explicit, plain)]
    assert sources == ["decorator", "ROUTES"]

    taskqueue_settings(settings, DEFAULTS={"queue_name": "slow"})
    assert plain.enqueue().queue_name == "slow"


@pytest.mark.parametrize(
    ("routes", "text"),
    [
        (f"{__name__}.missing", f"'{__name__}.missing' cannot be imported: "),
        (raise_error, f"has raised for the task '{__name__}.tidy': LookupError('no table')"),
        (named, f"has returned {len(__name__) + 5} for the task '{__name__}.tidy': "),
    ],
)
def test_invalid_route_is_an_error(routes: Any, text: str, settings: Any) -> None:
    made = task(tidy)
    taskqueue_settings(settings, ROUTES=routes)

    with pytest.raises(ConfigurationError) as raised:
        made.enqueue()

    assert text in str(raised.value)
    assert problems() == [("drc.E046", str(raised.value))]


def test_route_to_an_undeclared_queue_is_an_error(settings: Any) -> None:
    made = task(tidy)
    taskqueue_settings(settings, QUEUES=["default", "nightly"], ROUTES={"*.tidy": "nihgtly"})

    with pytest.raises(UnknownQueue, match="nihgtly"):
        made.enqueue()

    [(code, text)] = problems()
    assert code == "drc.E046"
    assert text.startswith(f"{__name__}.tidy: the queue is from ROUTES. ")
    assert "Did you mean 'nightly'?" in text


def test_schedules_flows_and_the_worker_use_the_queue_of_the_route(redis_server: Store, settings: Any) -> None:
    made = task(tidy)
    every(60, name="tidy up")(made)
    taskqueue_settings(settings, ROUTES={"*.tidy": "nightly"})

    flow = chain(made.si(), made.si()).enqueue()
    lines = [*describe_worker(WorkerOptions(queues=("nightly",)), processes=1, poller=True, using="default")]

    assert [each.queue_name for each in schedules()] == ["nightly"]
    assert declared.registered()[0].message(60_000).queue == "nightly"
    assert {each.queue_name for each in flow.results} == {"nightly"}
    assert f"Queue nightly: 1 task: {__name__}.tidy." in lines


def problems() -> list[tuple[str | None, str]]:
    messages = run_checks(tags=[checks.TAG])
    return [(each.id, each.msg) for each in messages if each.id == "drc.E046"]


def test_route_of_a_task_is_asked_once_for_all_copies(settings: Any) -> None:
    asked: list[str] = []

    def route(name: str) -> str:
        asked.append(name)
        return "slow"

    taskqueue_settings(settings, ROUTES=route)
    made = task(fail)

    assert {made.using(priority=number).queue_name for number in range(3)} == {"slow"}
    assert asked == [made.name]
    taskqueue_settings(settings, ROUTES=None)
    assert made.queue_name == "default"


def test_a_backoff_without_a_second_attempt_is_a_warning(settings: Any) -> None:
    made = task(backoff=[1, 10])(unattempted)
    text = f"drc.W056 Task {made.name} has a backoff, but max_attempts is 1: it is never retried."

    assert warnings_about(made) == [text]
    taskqueue_settings(settings, DEFAULTS={"max_attempts": 3})
    assert warnings_about(made) == []


def unattempted() -> None:
    """A task that never runs."""


def warnings_about(made: Any) -> list[str]:
    return [f"{each.id} {each.msg}" for each in run_checks(tags=[checks.TAG]) if made.name in each.msg]
