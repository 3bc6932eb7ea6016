"""Lua scripts: declarations, includes, and scripts that the server has not loaded."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Call, Command, Read, arun, run
from django_redis_components.core.scripts import LuaScript
from tests.core.sample import COUNT, FAIL, PUT, in_this_room, script
from tests.support import Store, run_async


def flow(request: Any):
    return (yield request)


def ask(request: Any) -> Any:
    return run(connections.client(), flow(request))


def put(name: str = "thing", value: str = "v") -> Call:
    return PUT(target=key("sample", name), counter=key("sample", name, "times"), value=value)


def forget_scripts(store: Store) -> None:
    for server in store.servers:
        with redis.Redis.from_url(server.url) as client:
            client.script_flush()


def test_script_runs_with_its_includes(store: Store) -> None:
    assert ask(put()) == [1, 42]

    assert store.raw.get(key("sample", "thing")) == b"v"
    assert 30_000 < store.raw.pttl(key("sample", "thing")) <= 60_000


def test_sha_is_that_of_the_expanded_source() -> None:
    assert "-- @include" not in PUT.source
    assert PUT.source.index("LIFE_MS = 60000") < PUT.source.index("local function answer()") < PUT.source.index("SET")
    assert hashlib.sha1(PUT.source.encode(), usedforsecurity=False).hexdigest() == PUT.sha


def test_missing_include_is_named() -> None:
    lost = LuaScript("sample", "lost", keys=())

    with in_this_room(), pytest.raises(FileNotFoundError, match=r"^sample/lua/shared/nowhere\.lua$"):
        _ = lost.source


class Field:
    total = "t"
    last_amount = "a"


class Ttl:
    counter_ms = 60_000


LEGEND = {"F": Field, "T": Ttl}


def lazy_script() -> LuaScript:
    return script("lazy", keys=("counter",), args=("amounts*",), legend=LEGEND)


def test_lazy_part_is_created_at_its_first_use(redis_server: Store) -> None:
    counter, lazy = key("sample", "lazy"), lazy_script()

    assert ask(lazy(counter=counter, amounts=[])) == [0, 1]
    assert ask(lazy(counter=counter, amounts=[2, 3])) == [5, 84]


def test_part_in_scope_is_not_repeated() -> None:
    source = lazy_script().source

    assert source.count("local function increment") == source.count("local function twice") == 1
    assert source.count("local function answer()") == 2  # inside of the lazy part, and outside of it


def test_kind_is_included_in_parts_where_it_is_needed(redis_server: Store) -> None:
    early = script("early", keys=("counter",), args=("number",), kind="sample/shelf")

    assert [ask(early(counter=key("sample", "early"), number=number)) for number in (10, 20)] == [40, 40]
    first, _, rest = early.source.partition("if number <= 10")
    assert re.findall(r"^local (?:function )?(\w+)", first, re.M) == ["number", "STEP", "double", "quadruple"]
    assert re.findall(r"^local (?:function )?(\w+)", rest, re.M) == ["LIFE_MS", "half"]
    assert repr(early) == "<LuaScript sample/early of sample/shelf>"


def test_unknown_function_of_an_included_part_is_an_error() -> None:
    lost = LuaScript("sample", "early", keys=("counter",), args=("number",), kind="sample/limits")

    with in_this_room(), pytest.raises(ValueError, match=r"^shared/kind\.lua does not define quadruple"):
        _ = lost.source


def test_names_of_the_legend_become_literals(redis_server: Store) -> None:
    counter = key("sample", "legend")

    ask(lazy_script()(counter=counter, amounts=[2, 3]))

    assert redis_server.raw.hgetall(counter) == {b"t": b"5", b"a": b"3"}
    assert 30_000 < redis_server.raw.pttl(counter) <= 60_000


def test_unknown_name_of_the_legend_is_an_error() -> None:
    lost = LuaScript("sample", "unknown_constant", keys=("record",), legend=LEGEND)

    with (
        in_this_room(),
        pytest.raises(ValueError, match=r"unknown_constant> names F\.lost, which Field does not define"),
    ):
        _ = lost.source


def test_unknown_function_of_a_lazy_part_is_an_error() -> None:
    lost = LuaScript("sample", "unknown_function", keys=())

    with (
        in_this_room(),
        pytest.raises(ValueError, match=r"^shared/answers\.lua does not define question: it defines answer\.$"),
    ):
        _ = lost.source


def test_last_key_and_last_argument_can_be_variadic(redis_server: Store) -> None:
    keys = [key("sample", "n", str(number)) for number in range(3)]

    assert ask(COUNT(first=keys[0], others=keys[1:], by=[1, 2])) == [3, 3, 3]
    assert ask(COUNT(first=keys[0], others=[], by=(number for number in (4,)))) == [7]
    assert redis_server.raw.mget(keys) == [b"7", b"3", b"3"]


@pytest.mark.parametrize("value", ["abc", b"abc", 7, None])
def test_variadic_value_must_be_a_sequence(value: object) -> None:
    with pytest.raises(TypeError) as caught:
        COUNT(first="a", others=["b"], by=value)

    assert str(caught.value) == f"by={value!r}: expected a sequence of keys or arguments."


def test_missing_argument_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        PUT(target="a", value="v")

    assert str(caught.value) == "<LuaScript sample/put> is missing counter: expected target, counter, value."


def test_unknown_argument_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        COUNT(first="a", others=[], by=[1], ttl=5, key="x")

    assert str(caught.value) == "<LuaScript sample/count> got unknown key, ttl: expected first, others*, by*."


@pytest.mark.contract
def test_script_without_keys_runs_on_any_node(store: Store) -> None:
    nothing = LuaScript("sample", "count", keys=(), args=("by*",), idempotent=True)
    nothing.source = COUNT.source

    assert nothing(by=[1]).key is None
    assert ask(nothing(by=[1])) == []


@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_unloaded_script_is_sent_with_its_source_and_runs_once(store: Store, name: str) -> None:
    ask(put(name))
    forget_scripts(store)

    assert ask(put(name)) == [2, 42]
    assert ask(put(name)) == [3, 42]


@pytest.mark.contract
def test_unloaded_script_is_sent_with_its_source_on_an_event_loop(store: Store) -> None:
    forget_scripts(store)

    async def twice() -> list[Any]:
        return [await arun(connections.aclient(), flow(put())) for _ in range(2)]

    assert run_async(twice) == [[1, 42], [2, 42]]


def test_batch_loads_a_script_once_and_runs_each_call_once(store: Store) -> None:
    names = [f"n{number}" for number in range(10)]
    ask(put())
    forget_scripts(store)

    replies = ask(Batch([*(put(name) for name in names), Read("GET", key("sample", "thing"))]))

    assert replies == [[1, 42]] * 10 + [b"v"]
    if not store.is_cluster:
        sent = store.raw.info("commandstats")
        assert ask(Batch([put(name) for name in names])) == [[2, 42]] * 10
        now = store.raw.info("commandstats")
        assert now["cmdstat_eval"]["calls"] == sent["cmdstat_eval"]["calls"]


def test_error_of_a_script_is_raised_without_a_retry(store: Store) -> None:
    counter = key("sample", "failed")

    with pytest.raises(redis.ResponseError, match="BROKEN on purpose"):
        ask(FAIL(counter=counter))

    assert store.raw.get(counter) == b"1"
    store.raw.delete(counter)


def test_plain_evalsha_of_an_unloaded_script_raises(redis_server: Store) -> None:
    with pytest.raises(redis.exceptions.NoScriptError):
        ask(Command("EVALSHA", "0" * 40, 0, key="x"))
