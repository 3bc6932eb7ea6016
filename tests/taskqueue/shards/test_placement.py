"""By which key the tasks of a spread queue are placed, and what is refused. Without a server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from django_redis_components.taskqueue import Batch, Concurrency, InvalidTask, Rate, Unique, registry, shards, task
from django_redis_components.taskqueue.checks import check_placement
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.placement import key_of, placement_of
from django_redis_components.taskqueue.shards import Shard, place, route_of
from tests.taskqueue.schedulers import at
from tests.taskqueue.tasks import add


def pay(customer: int, order: int = 0) -> None:
    """A function with the parameters of the keys."""


def collect(calls: list[Any]) -> None:
    """A function of a batch."""


def by_customer(customer: int, order: int = 0) -> str:
    return str(customer)


def shards_named(*names: str) -> list[Shard]:
    return [Shard(name, "default", f"x:{{{name}}}", "default") for name in names]


def placed_by(**options: Any) -> str:
    """Return the option that decides, and what its key follows from."""
    found = placement_of(TaskOptions(**options), "shop.pay", pay)
    if found is None:
        return "any"
    return f"{found.option} {'all' if found.scope is None else ' '.join(sorted(found.scope)) or found.text}"


BY_CUSTOMER = Concurrency(3, key="{customer}")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "any"),
        ({"priority": 3, "fair": "{customer}"}, "any"),
        ({"unique": True}, "unique all"),
        ({"unique": Unique(key="order:{order}")}, "unique {order}"),
        ({"concurrency": BY_CUSTOMER}, "concurrency {customer}"),
        ({"concurrency": 3}, "concurrency shop.pay"),
        ({"concurrency": Concurrency(3, group="bank")}, "concurrency bank"),
        ({"unique": True, "concurrency": BY_CUSTOMER}, "concurrency {customer}"),
        ({"unique": Unique(key="{order}/{customer}"), "concurrency": BY_CUSTOMER}, "concurrency {customer}"),
        ({"concurrency": BY_CUSTOMER, "rate": "10/s"}, "rate shop.pay"),
        ({"concurrency": BY_CUSTOMER, "rate": Rate("1/s", group="bank")}, "rate bank"),
        ({"unique": Unique(key="{order}"), "fair": "{customer}"}, "unique {order}"),
    ],
)
def test_option_with_the_fewest_arguments_decides(options: dict[str, Any], expected: str) -> None:
    assert placed_by(**options) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": BY_CUSTOMER, "unique": Unique(key="{order}")},
        {"concurrency": BY_CUSTOMER, "rate": Rate("1/s", key="{order}")},
        {"concurrency": BY_CUSTOMER, "rate": Rate("1/s", key=by_customer)},
    ],
)
def test_keys_of_which_none_follows_from_the_other_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=r"shop\.pay is on a queue of several shards, and has concurrency with the"):
        placed_by(**options)


def test_function_as_a_key_decides_for_itself() -> None:
    limits = {"concurrency": Concurrency(3, key=by_customer), "rate": Rate("1/s", key=by_customer)}

    assert placed_by(**limits).startswith("concurrency function ")
    assert placed_by(**limits, unique=True).startswith("concurrency function ")
    limited = add.using(concurrency=Concurrency(3, key=lambda a, b: a))
    assert key_of(limited, [1, 2], {}) == "key:1"


def test_calls_that_share_a_key_have_one_placement_key() -> None:
    unique = add.using(unique=True)
    both = add.using(unique=Unique(key="{a}-{b}"), concurrency=Concurrency(3, key="a:{a}"))
    one = add.using(rate=Rate("1/s"))

    assert key_of(unique, [1, 2], {}) == key_of(unique, [], {"b": 2, "a": 1}) != key_of(unique, [1, 3], {})
    assert key_of(both, [1, 2], {}) == key_of(both, ["1", 3], {}) == "key:1"
    assert key_of(one, [1, 2], {}) == key_of(one, [3, 4], {}) == f"name:{add.name}"
    assert key_of(add, [1, 2], {}) == ""
    assert key_of(add.using(fair="{a}"), [1, 2], {}) == "group:1"


def test_place_of_a_key_never_changes() -> None:
    several = shards_named("default", "b", "c", "d")

    places = [place(several, f"key:{number}").name for number in range(12)]

    # Processes of different versions must agree: else two of them would hold the same unique key or limit.
    assert places == ["default", "c", "d", "c", "default", "b", "b", "default", "b", "b", "d", "c"]


def test_keys_are_spread_evenly_and_few_move_to_a_new_shard() -> None:
    names = [str(number) for number in range(8)]
    keys = [f"key:{number}" for number in range(8_000)]
    eight, nine = shards_named(*names), shards_named(*names, "8")

    before = {key: place(eight, key).name for key in keys}
    after = {key: place(nine, key).name for key in keys}

    assert all(850 < count < 1_150 for count in Counter(before.values()).values())
    moved = [key for key in keys if before[key] != after[key]]
    assert 750 < len(moved) < 1_050
    assert {after[key] for key in moved} == {"8"}


def test_tasks_without_a_key_go_to_each_shard_in_turn() -> None:
    several = shards_named("a", "b", "c")

    assert Counter(place(several).name for _ in range(30)) == {"a": 10, "b": 10, "c": 10}


# Checks


@pytest.fixture
def own_tasks(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spread the queue "events", and forget the tasks of a test."""
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "TASKQUEUE": {
            "SHARDS": {"default": "default", "b": "default", "c": "default"},
            "QUEUES": {"default": None, "events": ["default", "b"], "other": "c"},
        },
    }
    monkeypatch.setattr(registry, "tasks", {})


def declare(name: str, queue: str = "events", **options: Any) -> None:
    task(name=name, queue_name=queue, **options)(pay)


def found() -> list[str]:
    return [f"{each.id} {each.msg}" for each in check_placement()]


def test_route_of_a_spread_queue_has_its_shards(own_tasks: None) -> None:
    assert [shard.name for shard in route_of("events")] == ["default", "b"]
    assert [shard.name for shard in route_of("other")] == ["c"]
    assert [shard.name for shard in route_of("default")] == ["default"]


def test_routes_of_many_queues_are_not_all_kept(own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_ROUTES", 0)

    assert [shard.name for _ in "ab" for shard in route_of("events")] == ["default", "b"] * 2


def test_check_reports_tasks_that_cannot_be_placed(own_tasks: None) -> None:
    declare("one", concurrency=BY_CUSTOMER, unique=Unique(key="{order}"))
    declare("two", queue="other", concurrency=BY_CUSTOMER, unique=Unique(key="{order}"))

    [problem] = found()

    assert problem.startswith(
        "drc.E054 one is on a queue of several shards, and has concurrency with the key '{customer}' and unique with"
        " the key '{order}'"
    )


def test_check_warns_of_tasks_that_one_shard_gets_all_of(own_tasks: None) -> None:
    declare("one", rate="10/s")
    declare("two", queue="other", rate="10/s")

    assert found() == ["drc.W054 All tasks of one go to one shard of the queue 'events': rate has no key."]


def test_check_warns_of_batches_without_a_key(own_tasks: None) -> None:
    task(name="whole", queue_name="events", batch=Batch(10))(collect)
    task(name="keyed", queue_name="events", batch=Batch(10, key="{customer}", signature=pay))(collect)

    assert found() == ["drc.W054 All tasks of whole go to one shard of the queue 'events': batch has no key."]


def test_check_reports_a_limit_that_tasks_in_different_shards_share(own_tasks: None) -> None:
    limit = Concurrency(3, key="{customer}", group="bank")
    declare("one", concurrency=limit)
    declare("two", concurrency=limit)
    assert found() == []

    declare("three", queue="other", concurrency=limit)

    assert found() == ["drc.E054 three and two share the concurrency group 'bank', and are placed in different shards."]


def test_check_reports_a_limit_that_differently_placed_tasks_share(own_tasks: None) -> None:
    declare("one", concurrency=Concurrency(3, key="{customer}", group="bank"))
    declare("two", concurrency=Concurrency(3, key="{order}", group="bank"))

    assert found() == ["drc.E054 one and two share the concurrency group 'bank', and are placed in different shards."]


def test_calls_of_a_batch_have_one_placement_key(own_tasks: None) -> None:
    whole = task(name="whole", batch=Batch(10))(collect)
    keyed = task(name="keyed", batch=Batch(10, key="{customer}", signature=pay))(collect)

    assert key_of(whole, [1], {}) == key_of(whole, [2], {}) == "group:batch:whole"
    assert key_of(keyed, [1, 2], {}) == key_of(keyed, [1, 3], {}) == "group:batch:keyed:1"


@pytest.mark.parametrize("default", [{"nonsense": 1}, {"concurrency": Concurrency(3, key="{nothing}")}])
def test_check_leaves_invalid_defaults_to_another_check(
    own_tasks: None, settings: Any, default: dict[str, Any]
) -> None:
    declare("one", rate="10/s")
    current = settings.REDIS_COMPONENTS
    options = {**current["TASKQUEUE"], "DEFAULTS": default}
    settings.REDIS_COMPONENTS = {**current, "TASKQUEUE": options}

    assert found() == []


def test_schedule_of_a_task_that_cannot_be_placed_has_a_shard_nevertheless(own_tasks: None) -> None:
    limits = {"concurrency": BY_CUSTOMER, "unique": Unique(key="{order}")}
    wrong = task(name="wrong", queue_name="events", **limits)(pay)
    right = task(name="right", queue_name="events", concurrency=BY_CUSTOMER)(pay)

    assert at(0, task=wrong, args=(1, 2)).shard in route_of("events")
    assert {at(0, task=right, args=(1, number)).shard for number in range(9)} == {place(route_of("events"), "key:1")}
