"""The option `fair`: what it accepts, the groups that it makes, and what it stores."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import FairShare, InvalidTask, task
from django_redis_components.taskqueue.store.messages import TaskMessage
from tests.support import Store
from tests.taskqueue.fair_share.support import serve, take
from tests.taskqueue.support import base_key, queue_key, taskqueue_settings
from tests.taskqueue.tasks import note


def serve_badly(customer: str) -> None: ...


def share_of(store: Store, task_id: str) -> bytes | None:
    found: bytes | None = store.raw.hget(base_key(store, "t", task_id), "G")
    return found


def test_template_that_names_an_unknown_argument_is_refused_when_it_is_declared() -> None:
    text = r"fair key '\{client\}' of serve_badly\(\): the function takes no argument 'client'; it has customer"

    with pytest.raises(InvalidTask, match=text):
        task(fair="{client}")(serve_badly)


def test_template_that_names_an_unknown_argument_is_refused_by_using() -> None:
    with pytest.raises(InvalidTask, match=r"fair key '\{client\}' .* it has customer, number"):
        serve.using(fair="{client}")


@pytest.mark.parametrize("fair", [7, True, ["a"], b"a"], ids=repr)
def test_value_that_is_no_key_is_refused(fair: Any) -> None:
    with pytest.raises(InvalidTask, match=r"fair=.*: expected a template such as '\{id\}', a function or a FairShare"):
        serve.using(fair=fair)


@pytest.mark.parametrize("weight", [0, 101, 1.5, True, "2", None], ids=repr)
def test_weight_that_is_not_accepted_is_refused(weight: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"weight={weight!r}: expected an integer from 1 to 100"):
        FairShare("{customer}", weight=weight)


def test_weight_of_a_function_is_checked_by_the_call() -> None:
    with pytest.raises(ValueError, match="weight=0: expected an integer from 1 to 100"):
        serve.using(fair=FairShare("{customer}", weight=lambda customer, number: 0)).enqueue("a", 1)


def test_function_that_makes_no_text_is_refused_by_the_call() -> None:
    with pytest.raises(TypeError, match=r"The fair key of .*serve is None: expected text or an integer"):
        serve.using(fair=lambda customer, number: None).enqueue("a", 1)


def test_function_makes_the_group(store: Store) -> None:
    by_number = serve.using(fair=lambda customer, number: number % 2)
    by_number.enqueue_many([(("a", number), {}) for number in (1, 3, 5, 2)])

    assert take() == ["a1", "a2", "a3", "a5"]


def test_share_is_stored_as_weight_and_group(store: Store) -> None:
    result = serve.using(fair=FairShare("{customer}", weight=3)).enqueue("a/b", 1)

    assert share_of(store, result.id) == b"3/a/b"


@pytest.mark.parametrize("customer", ["x" * 101, "a\tb", "a\nb", "\ud800"], ids=ascii)
def test_text_that_is_long_or_has_control_characters_is_hashed(store: Store, customer: str) -> None:
    result = serve.using(fair=lambda name, number: customer).enqueue("a", 1)

    share = share_of(store, result.id)
    assert share is not None
    assert len(share) < 60
    assert b"\t" not in share
    assert take() == ["a1"]


@pytest.mark.parametrize("customer", ["", " ", "{a}", "\\", "[x", "(x", "-", "+", "é", "a:b"], ids=ascii)
def test_group_may_have_any_other_text(store: Store, customer: str) -> None:
    serve.enqueue(customer, 1)
    serve.enqueue("other", 1)
    serve.enqueue(customer, 2)

    assert take() == [f"{customer}1", "other1", f"{customer}2"]


def test_group_is_not_a_prefix_of_another(store: Store) -> None:
    serve.enqueue_many([((customer, number), {}) for customer in ("a", "ab", "a b") for number in (1, 2)])

    assert take() == ["a1", "ab1", "a b1", "a2", "ab2", "a b2"]


def test_task_without_the_option_is_sent_as_before(store: Store) -> None:
    assert note.options.are_plain
    assert not serve.options.are_plain
    assert TaskMessage("1", "n", "q", b"[]").is_plain

    note.enqueue("x")

    assert not store.raw.exists(queue_key(store, "turns"), queue_key(store, "grouped"))


def test_none_makes_a_task_plain_again(store: Store) -> None:
    result = serve.using(fair=None).enqueue("a", 1)

    assert share_of(store, result.id) is None


def test_option_is_a_default_of_the_settings(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, DEFAULTS={"fair": "one"})

    result = note.enqueue("x")

    assert share_of(store, result.id) == b"1/one"
