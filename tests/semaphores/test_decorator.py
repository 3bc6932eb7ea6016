"""`@semaphore`; what names and guards do in general is tested with locks."""

from __future__ import annotations

import inspect
import re

import pytest

from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.semaphores import Semaphore, SemaphoreFull, semaphore
from tests.support import Store, run_async

pytestmark = pytest.mark.integration


def test_decorated_function_runs_with_a_permit(store: Store) -> None:
    @semaphore("pool", limit=3)
    def work(number: int) -> tuple[int, int]:
        return number * 2, Semaphore("pool", 3, blocking=False).available()

    assert work(21) == (42, 2)
    assert Semaphore("pool", 3, blocking=False).available() == 3


def test_decorated_coroutine_function_runs_with_a_permit(store: Store) -> None:
    @semaphore("pool", limit=3)
    async def work(number: int) -> tuple[int, int]:
        return number * 2, await Semaphore("pool", 3, blocking=False).aavailable()

    assert inspect.iscoroutinefunction(work)
    assert run_async(work, 21) == (42, 2)


def test_raise_raises_when_all_permits_are_held(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="raise")
    def work() -> None:
        pytest.fail("it ran")

    @semaphore("pool", limit=1, on_conflict="raise")
    async def awork() -> None:
        pytest.fail("it ran")

    with Semaphore("pool", 1, blocking=False):
        with pytest.raises(SemaphoreFull, match="Semaphore 'pool' is full: its only permit is held by other owners"):
            work()
        with pytest.raises(SemaphoreFull):
            run_async(awork)


def test_skip_returns_none_when_all_permits_are_held(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="skip")
    def work() -> str:
        return "ran"

    with Semaphore("pool", 1, blocking=False):
        assert work() is None
    assert work() == "ran"


def test_decorated_function_waits_by_default(store: Store) -> None:
    @semaphore("pool", limit=1)
    def work() -> str:
        return "ran"

    Semaphore("pool", 1, timeout=0.05, blocking=False).acquire()

    assert work() == "ran"


def test_wait_raises_after_blocking_timeout(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="wait", blocking_timeout=0.02)
    def work() -> None:
        pytest.fail("it ran")

    with Semaphore("pool", 1, blocking=False), pytest.raises(SemaphoreFull, match="still full after"):
        work()


def test_delay_requests_a_retry_of_the_task(store: Store) -> None:
    @semaphore("pool", limit=1, on_conflict="delay")
    def work() -> None:
        pytest.fail("it ran")

    with Semaphore("pool", 1, blocking=False), pytest.raises(TaskDelayed) as caught:
        work()

    assert caught.value.reason == "Semaphore 'pool' is full: its only permit is held by other owners."


def test_template_is_formatted_with_the_arguments(store: Store) -> None:
    @semaphore("api:{customer}", limit=1)
    def call(customer: str, depth: int = 0) -> bool:
        return call("other", 1) if depth == 0 else Semaphore("api:other", 1, blocking=False).available() == 0

    assert call("one")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"on_conflict": "no"}, ValueError, "on_conflict='no': expected one of 'wait', 'raise', 'skip', 'delay'."),
        ({"limit": 0}, ValueError, "limit=0: expected an integer"),
        ({"limit": "5"}, TypeError, "limit='5': expected an integer from 1 to 1000000."),
        ({"timeout": 0}, ValueError, "timeout=0: expected a number of seconds above 0"),
        ({"timeout": -1}, ValueError, "timeout=-1: expected a number of seconds above 0"),
        ({"timeout": "10"}, TypeError, "timeout='10': expected a number of seconds above 0"),
        ({"blocking_timeout": -1}, ValueError, "blocking_timeout=-1: expected a number of seconds of at least 0"),
        ({"max_lease": 60}, ValueError, "max_lease=60 requires renew=True"),
        ({"on_lost": 7}, TypeError, "on_lost=7: expected a function that takes the semaphore."),
    ],
)
def test_invalid_option_raises_at_decoration(arguments: dict[str, object], error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        semaphore("pool", **({"limit": 5} | arguments))

    assert text in str(caught.value)


def test_semaphore_may_be_created_before_settings_are_configured(settings) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "not {good}"}

    Semaphore("pool", 3, blocking=False)
    semaphore("pool", limit=1)(lambda: None)


def test_invalid_template_raises_at_decoration() -> None:
    def call(y: int) -> None:
        """Takes no x."""

    name = f"semaphore name 'api:{{x}}' of {call.__qualname__}()"
    with pytest.raises(ValueError, match=re.escape(f"{name}: the function takes no argument 'x'; it has y.")):
        semaphore("api:{x}", limit=1)(call)


def test_name_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="semaphore name 7: expected a string"):
        semaphore(7, limit=1)(lambda: None)


def test_invalid_name_made_from_arguments_raises_at_the_call(redis_server: Store) -> None:
    @semaphore("api:{customer}", limit=1)
    def call(customer: str) -> None:
        pytest.fail("it ran")

    with pytest.raises(ValueError, match="braces are not accepted"):
        call("{x}")


def test_limit_is_required() -> None:
    with pytest.raises(TypeError, match="limit"):
        semaphore("pool")
