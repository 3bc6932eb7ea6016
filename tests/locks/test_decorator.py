"""`@lock` and the names of decorated calls."""

from __future__ import annotations

import asyncio
import functools
import inspect
from datetime import date
from types import SimpleNamespace

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory
from django.utils.decorators import method_decorator
from django.views import View

from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.locks import Lock, LockNotAcquired, lock
from tests.support import Store, run_async

pytestmark = pytest.mark.integration


def test_decorated_function_runs_under_the_lock(store: Store) -> None:
    @lock("stock")
    def work(number: int) -> tuple[int, bool]:
        return number * 2, Lock("stock").locked()

    assert work(21) == (42, True)
    assert not Lock("stock").locked()


def test_decorated_coroutine_function_runs_under_the_lock(store: Store) -> None:
    @lock("stock")
    async def work(number: int) -> tuple[int, bool]:
        await asyncio.sleep(0)
        return number * 2, await Lock("stock").alocked()

    assert inspect.iscoroutinefunction(work)
    assert run_async(work, 21) == (42, True)
    assert not Lock("stock").locked()


def test_decorated_function_keeps_its_name_and_docstring() -> None:
    @lock("stock")
    def work() -> None:
        """Works."""

    assert (work.__name__, work.__doc__) == ("work", "Works.")


def test_lock_is_released_when_the_function_raises(redis_server: Store) -> None:
    @lock("stock")
    def work() -> None:
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        work()
    assert not Lock("stock").locked()


def test_raise_raises_when_the_lock_is_held(store: Store) -> None:
    @lock("stock", on_conflict="raise")
    def work() -> None:
        pytest.fail("it ran")

    @lock("stock", on_conflict="raise")
    async def awork() -> None:
        pytest.fail("it ran")

    with Lock("stock"):
        with pytest.raises(LockNotAcquired, match="Lock 'stock' is held by another owner"):
            work()
        with pytest.raises(LockNotAcquired):
            run_async(awork)


def test_skip_returns_none_when_the_lock_is_held(store: Store) -> None:
    @lock("stock", on_conflict="skip")
    def work() -> str:
        return "ran"

    @lock("stock", on_conflict="skip")
    async def awork() -> str:
        return "ran"

    with Lock("stock"):
        assert work() is None
        assert run_async(awork) is None
    assert work() == "ran"
    assert run_async(awork) == "ran"


def test_wait_calls_the_function_when_the_lock_becomes_free(store: Store) -> None:
    @lock("stock", timeout=5)
    def work() -> str:
        return "ran"

    Lock("stock", timeout=0.05).acquire()

    assert work() == "ran"


def test_wait_raises_after_blocking_timeout(store: Store) -> None:
    @lock("stock", blocking_timeout=0.02)
    def work() -> None:
        pytest.fail("it ran")

    with Lock("stock"), pytest.raises(LockNotAcquired, match="still held by another owner after"):
        work()


def test_skip_waits_for_blocking_timeout(redis_server: Store) -> None:
    @lock("stock", on_conflict="skip", blocking_timeout=60)
    def work() -> str:
        return "ran"

    Lock("stock", timeout=0.05).acquire()

    assert work() == "ran"


def test_delay_requests_a_retry_of_the_task(store: Store) -> None:
    @lock("stock", on_conflict="delay")
    def work() -> None:
        pytest.fail("it ran")

    with Lock("stock"), pytest.raises(TaskDelayed) as caught:
        work()

    assert caught.value.reason == "Lock 'stock' is held by another owner."
    assert "outside a task it is an error" in str(caught.value)
    assert isinstance(caught.value.__cause__, LockNotAcquired)


def test_refusal_of_a_lock_inside_the_function_is_not_handled_by_the_decorator(redis_server: Store) -> None:
    @lock("outer", on_conflict="skip")
    def work() -> None:
        with Lock("inner", blocking=False):
            pytest.fail("it ran")

    with Lock("inner"), pytest.raises(LockNotAcquired, match="'inner'"):
        work()


def test_calls_with_different_arguments_use_different_locks(store: Store) -> None:
    @lock("order:{order_id}", on_conflict="raise")
    def pay(order_id: int, depth: int = 0) -> bool:
        return pay(order_id + 1, 1) if depth == 0 else True

    assert pay(7)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("order:{order_id}", "order:7"),
        ("{order_id}", "7"),
        ("{kind}:{order_id}", "plain:7"),
        ("of {user.profile.name}", "of 张三"),
        ("{items[1]}", "b"),
        ("on {day:%Y-%m-%d}", "on 2026-11-21"),
        ("{day:{form}}", "2026"),
        ("{order_id!r:>4}", "   7"),
        ("{rest}", "()"),
    ],
)
def test_template_is_formatted_with_the_arguments(redis_server: Store, template: str, expected: str) -> None:
    user = SimpleNamespace(profile=SimpleNamespace(name="张三"))

    @lock(template)
    def work(order_id, user, items, day=date(2026, 11, 21), form="%Y", kind="plain", *rest) -> bool:
        return Lock(expected).locked()

    assert work(7, user, items=["a", "b"])


def test_template_accepts_keyword_arguments_of_the_call(redis_server: Store) -> None:
    @lock("{tenant}:{order_id}")
    def work(order_id: int, **options: object) -> bool:
        return Lock("acme:7").locked()

    assert work(7, tenant="acme")
    with pytest.raises(ValueError, match="this call has no argument 'tenant'"):
        work(7)


def test_template_of_a_method_may_use_self(redis_server: Store) -> None:
    class Order:
        pk = 7

        @lock("order:{self.pk}")
        def pay(self) -> bool:
            return Lock("order:7").locked()

    assert Order().pay()


def test_callable_returns_the_name_for_a_call(redis_server: Store) -> None:
    @lock(lambda order_id, **_: f"order-{order_id}")
    def work(order_id: int, note: str = "") -> bool:
        return Lock("order-7").locked()

    assert work(7, note="x")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("order:{order}", "the function takes no argument 'order'; it has order_id."),
        ("order:{}", "name the argument, as in {order_id}"),
        ("order:{0}", "name the argument, as in {order_id}"),
        ("order:{order_id", "expected '}' before end of string"),
        ("order:{{7}}", "braces are not accepted"),
        ("order:{order_id:{width}}", "the function takes no argument 'width'"),
        ("or\nder:{order_id}", "control character"),
        ("", "lock name is empty"),
        ("x" * 201, "has 201 bytes"),
    ],
)
def test_invalid_template_raises_at_decoration(template: str, text: str) -> None:
    def pay(order_id: int) -> None: ...

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared
        lock(template)(pay)

    assert text in str(caught.value)


def test_template_error_lists_the_available_arguments() -> None:
    def pay(order_id: int, *, amount: int) -> None: ...

    pay.__qualname__ = "pay"

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared
        lock("order:{order}")(pay)

    assert str(caught.value) == (
        "lock name 'order:{order}' of pay(): the function takes no argument 'order'; it has order_id, amount."
    )


def test_template_is_refused_for_a_function_without_arguments() -> None:
    with pytest.raises(ValueError, match="takes no argument 'x'; it has no arguments"):
        lock("{x}")(lambda: None)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"on_conflict": "ignore"},
            ValueError,
            "on_conflict='ignore': expected one of 'wait', 'raise', 'skip', 'delay'.",
        ),
        ({"timeout": 0}, ValueError, "timeout=0: expected a number of seconds above 0"),
        ({"blocking": True}, TypeError, '@lock has no option blocking: use on_conflict="wait".'),
        ({"timeout": -1}, ValueError, "timeout=-1: expected a number of seconds above 0"),
        ({"timeout": "30"}, TypeError, "timeout='30': expected a number of seconds above 0"),
        ({"blocking_timeout": -1}, ValueError, "blocking_timeout=-1: expected"),
        ({"blocking_timeout": "1"}, TypeError, "blocking_timeout='1': expected a number of seconds of at least 0"),
        ({"min_replicas": 1.0}, TypeError, "min_replicas=1.0: expected an integer from 0 to 100."),
    ],
)
def test_invalid_option_raises_at_decoration(arguments: dict[str, object], error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        lock("stock", **arguments)

    assert text in str(caught.value)


def test_connection_that_is_no_name_raises_at_decoration() -> None:
    with pytest.raises(TypeError, match=r"^using=\['jobs'\]: expected a string\.$"):
        lock("stock", using=["jobs"])(lambda: None)


def test_template_error_names_the_argument_that_cannot_be_formatted() -> None:
    @lock("order:{order.pk}:{order[day]}")
    def work(order: object) -> None: ...

    class Order:
        pk = 7

        def __getitem__(self, name: str) -> str:
            raise KeyError(name)

    where = r"lock name 'order:\{order\.pk\}:\{order\[day\]\}' of .*work\(\): "
    with pytest.raises(ValueError, match=where + r"AttributeError: 'NoneType' object has no attribute 'pk'\."):
        work(None)
    with pytest.raises(ValueError, match=where + r"KeyError: 'day'\."):
        work(Order())


def test_decorator_without_a_name_raises() -> None:
    @lock
    def pay(order_id: int) -> None: ...

    with pytest.raises(TypeError, match=r"^7 is not a function: pass the lock name to the decorator, in parentheses"):
        pay(7)


def test_name_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="lock name 7: expected a string, a template or a callable"):
        lock(7)(lambda: None)


def test_invalid_name_made_from_arguments_raises_at_the_call(redis_server: Store) -> None:
    @lock("order:{order_id}")
    def pay(order_id: str) -> None:
        pytest.fail("it ran")

    with pytest.raises(ValueError, match="braces are not accepted"):
        pay("{7}")
    with pytest.raises(TypeError, match="missing a required argument: 'order_id'"):
        pay()


def test_lock_may_be_created_before_settings_are_configured(settings) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "not {good}"}

    Lock("stock")
    lock("stock")(lambda: None)


def test_generator_functions_are_refused() -> None:
    def numbers():
        yield 1

    async def anumbers():
        yield 1

    for generator in (numbers, anumbers):
        with pytest.raises(TypeError, match="is a generator function: its body would run after the context has exited"):
            lock("stock")(generator)


def test_coroutine_behind_a_plain_decorator_raises(redis_server: Store) -> None:
    def logged(func):
        @functools.wraps(func)
        def call():
            return func()

        return call

    @lock("stock")
    @logged
    async def work() -> None:
        pytest.fail("it ran")

    with pytest.raises(
        TypeError,
        match=r"work\(\) must be awaited: what it returned would be awaited after the context has exited\. A",
    ):
        work()


def test_asynchronous_view_runs_under_the_lock_of_its_dispatch(redis_server: Store) -> None:
    @method_decorator(lock("stock"), name="dispatch")
    class Stock(View):
        async def get(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse(str(await Lock("stock").alocked()))

    view = Stock.as_view()

    assert run_async(view, AsyncRequestFactory().get("/")).content == b"True"
    assert run_async(view, AsyncRequestFactory().post("/")).status_code == 405
    assert not Lock("stock").locked()


def test_function_wrapped_by_sync_to_async_runs_under_the_lock(redis_server: Store) -> None:
    @lock("stock")
    @sync_to_async
    def work() -> bool:
        return Lock("stock").locked()

    assert run_async(lambda: work()) is True


def test_object_with_an_async_call_method_runs_under_the_lock(redis_server: Store) -> None:
    class Work:
        async def __call__(self) -> bool:
            return Lock("stock").locked()

    assert run_async(lock("stock")(Work())) is True


def test_callable_without_a_name_can_be_decorated(redis_server: Store) -> None:
    def work(number: int) -> tuple[int, bool]:
        return number, Lock("stock-7").locked()

    assert lock("stock-{number}")(functools.partial(work, number=7))() == (7, True)
