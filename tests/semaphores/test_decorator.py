"""`@semaphore`; what names and guards do in general is tested with locks."""

from __future__ import annotations

import inspect
import re

import pytest

from django_redis_components.core.exceptions import TryLater
from django_redis_components.semaphores import Semaphore, SemaphoreFull, semaphore
from tests.support import Store, run_async


def test_a_decorated_function_runs_with_a_permit(store: Store) -> None:
    @semaphore("pool", limit=3)
    def work(number: int) -> tuple[int, int]:
        return number * 2, Semaphore("pool", 3).available()

    assert work(21) == (42, 2)
    assert Semaphore("pool", 3).available() == 3


def test_a_decorated_coroutine_function_runs_with_a_permit(store: Store) -> None:
    @semaphore("pool", limit=3)
    async def work(number: int) -> tuple[int, int]:
        return number * 2, await Semaphore("pool", 3).aavailable()

    assert inspect.iscoroutinefunction(work)
    assert run_async(work, 21) == (42, 2)


def test_a_full_semaphore_raises_unless_told_otherwise(store: Store) -> None:
    @semaphore("pool", limit=1)
    def work() -> None:
        pytest.fail("it ran")

    @semaphore("pool", limit=1)
    async def awork() -> None:
        pytest.fail("it ran")

    with Semaphore("pool", 1):
        with pytest.raises(SemaphoreFull, match="Semaphore 'pool' is full: its only permit is held by others"):
            work()
        with pytest.raises(SemaphoreFull):
            run_async(awork)


def test_skip_returns_none(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="skip")
    def work() -> str:
        return "ran"

    with Semaphore("pool", 1):
        assert work() is None
    assert work() == "ran"


def test_wait_runs_when_there_is_a_permit(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="wait")
    def work() -> str:
        return "ran"

    Semaphore("pool", 1, timeout=0.05).acquire()

    assert work() == "ran"


def test_wait_has_an_end(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="wait", blocking_timeout=0.02)
    def work() -> None:
        pytest.fail("it ran")

    with Semaphore("pool", 1), pytest.raises(SemaphoreFull, match="still full after"):
        work()


def test_delay_asks_the_executor_to_put_the_task_off(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="delay")
    def work() -> None:
        pytest.fail("it ran")

    with Semaphore("pool", 1), pytest.raises(TryLater) as caught:
        work()

    assert caught.value.reason == "Semaphore 'pool' is full: its only permit is held by others."


def test_a_template_names_the_call(store: Store) -> None:
    @semaphore("api:{customer}", limit=1)
    def call(customer: str, depth: int = 0) -> bool:
        return call("other", 1) if depth == 0 else Semaphore("api:other", 1).available() == 0

    assert call("one")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"on_conflict": "no"}, ValueError, "on_conflict='no': expected one of 'wait', 'raise', 'skip', 'delay'."),
        ({"limit": 0}, ValueError, "limit=0: expected a whole number"),
        ({"timeout": 0}, ValueError, "timeout=0: expected a number of seconds above 0"),
    ],
)
def test_a_wrong_option_is_told_when_the_function_is_decorated(
    arguments: dict[str, object], error: type, text: str
) -> None:
    with pytest.raises(error) as caught:
        semaphore("pool", **arguments)

    assert text in str(caught.value)


def test_a_semaphore_may_be_made_before_there_are_settings(settings) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "not {good}"}

    Semaphore("pool", 3)
    semaphore("pool")(lambda: None)


def test_a_wrong_template_is_told_when_the_function_is_decorated() -> None:
    def call(y: int) -> None:
        """Takes no x."""

    name = f"semaphore name 'api:{{x}}' of {call.__qualname__}()"
    with pytest.raises(ValueError, match=re.escape(f"{name}: the function takes no argument 'x'; it has y.")):
        semaphore("api:{x}")(call)
