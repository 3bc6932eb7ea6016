"""Describing an exception never raises."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from django_redis_components.core import serialization
from django_redis_components.core.exception_text import BARE_HEADER, safe_repr
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.sealing import HIDDEN_TEXT, without_text
from django_redis_components.taskqueue.stats.fingerprint import identify
from django_redis_components.taskqueue.store.job import ErrorIdentity
from tests.taskqueue.hostile.errors import KINDS, EndlessError, NamelessError, NotesError, make


def described(kind: str) -> tuple[dict[str, str], ErrorIdentity, str]:
    """What the worker stores and logs about an exception that was raised, in a thread as a worker's."""
    found: list[Any] = []

    def run() -> None:
        try:
            raise make(kind)
        except BaseException as exc:  # noqa: BLE001 - any is described
            found.append((describe(exc), identify(exc), safe_repr(exc)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    [result] = found
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_any_exception_is_described(kind: str) -> None:
    error, group, text = described(kind)

    assert error["exception_class_path"].rpartition(".")[2] in error["traceback"]
    assert "in run" in error["traceback"] or kind == "slots"
    assert len(serialization.encode(error)) < 50_000
    assert json.loads(group.description)["class"]
    assert len(text) <= 1_000


def test_exception_that_cannot_be_formatted_is_described_by_class_and_frames() -> None:
    error, _, _ = described("notes")  # since Python 3.13 the traceback has the errors of attributes, but no SystemExit

    lines = error["traceback"].splitlines()
    assert lines[:2] == [BARE_HEADER, f"{NotesError.__module__}.NotesError"]
    assert lines[2].startswith(f'  File "{__file__}", line ')
    assert lines[2].endswith(", in run")


def test_endless_chain_of_causes_is_not_followed() -> None:
    error, _, _ = described("endless")

    assert error["exception_class_path"] == f"{EndlessError.__module__}.EndlessError"
    assert error["traceback"].startswith(BARE_HEADER)


def test_class_whose_metaclass_hides_its_name_is_named() -> None:
    error, _, _ = described("nameless")

    assert error["exception_class_path"] == "tests.taskqueue.hostile.errors.NamelessError"
    assert issubclass(NamelessError, Exception)


@pytest.mark.parametrize("kind", KINDS)
def test_any_exception_is_hidden_if_the_arguments_are_sealed(kind: str) -> None:
    shown: list[BaseException] = []

    def run() -> None:  # in a thread, which SystemExit may end
        shown.append(without_text(make(kind)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    [exc] = shown
    error, _, _ = described(kind)
    hidden = describe(exc)
    assert (hidden["exception_class_path"], hidden["message"]) == (error["exception_class_path"], HIDDEN_TEXT)
    assert hidden["traceback"].endswith(f": {HIDDEN_TEXT}\n")
