"""`gather` runs flows concurrently in shared round trips."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from django_redis_components.core.gather import gather
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Sleep, run


class Recorder:
    """A client that answers each command with its name, and "FAIL" with an error."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    def execute(self, request: Command) -> Any:
        raise AssertionError("nothing is sent alone")

    def execute_many(self, requests: list[Command]) -> list[Any]:
        self.sent.append([request.args[0] for request in requests])
        if "LOST" in self.sent[-1]:
            raise ResponseError("all of it")
        return [ResponseError("no") if name == "FAIL" else name.lower() for name in self.sent[-1]]

    def wait(self, wakeup: str, seconds: float) -> None:
        raise AssertionError("no flow waits")


def one(*names: str) -> Flow[list[Any]]:
    replies = []
    for name in names:
        replies.append((yield Read(name, "k")))
    return replies


def many(*names: str, errors: bool = False) -> Flow[list[Any]]:
    return (yield Batch([Read(name, "k") for name in names], return_exceptions=errors))


def nothing() -> Flow[str]:
    yield from ()
    return "at once"


def careful(name: str) -> Flow[str]:
    try:
        yield Read(name, "k")
    except ResponseError as exc:
        return f"caught {exc}"
    return "well"


def drive(*flows: Flow[Any]) -> tuple[list[Any], list[list[str]]]:
    recorder = Recorder()
    outcomes = run(recorder, gather(flows))
    return [outcome.error or outcome.value for outcome in outcomes], recorder.sent


def test_pending_requests_share_one_round_trip() -> None:
    values, sent = drive(one("A", "B"), many("C", "D"), nothing())

    assert values == [["a", "b"], ["c", "d"], "at once"]
    assert sent == [["A", "C", "D"], ["B"]]


def test_gather_without_flows_sends_nothing() -> None:
    assert drive() == ([], [])


def test_error_of_one_flow_does_not_affect_the_others() -> None:
    values, sent = drive(one("A", "FAIL", "B"), many("FAIL", "C"), one("D", "E", "F"), careful("FAIL"))

    assert [str(values[0]), str(values[1])] == ["no", "no"]
    assert values[2:] == [["d", "e", "f"], "caught no"]
    assert sent == [["A", "FAIL", "C", "D", "FAIL"], ["FAIL", "E"], ["F"]]


def test_batch_with_return_exceptions_receives_errors_in_the_list() -> None:
    values, _ = drive(many("FAIL", "C", errors=True))

    assert (str(values[0][0]), values[0][1]) == ("no", "c")


def test_failed_round_trip_raises_in_each_flow() -> None:
    values, _ = drive(one("LOST"), one("A"), careful("B"))

    assert [str(value) for value in values] == ["all of it", "all of it", "caught all of it"]


def test_exception_in_one_flow_is_its_outcome() -> None:
    def broken() -> Flow[None]:
        yield Read("A", "k")
        raise KeyError("mine")

    values, _ = drive(broken(), one("B"))

    assert isinstance(values[0], KeyError)
    assert values[1] == ["b"]


def test_gather_can_be_nested() -> None:
    def outer() -> Flow[list[Any]]:
        return [outcome.value for outcome in (yield from gather([one("A"), one("B")]))]

    values, sent = drive(outer(), one("C"))

    assert values == [[["a"], ["b"]], ["c"]]
    assert sent == [["A", "B", "C"]]


def test_gathered_flow_cannot_sleep() -> None:
    def sleeper() -> Flow[None]:
        yield Sleep(0)

    with pytest.raises(TypeError, match="may only yield Call, Command and Batch"):
        drive(sleeper())
