"""Callbacks in forked children."""

from __future__ import annotations

import os

import pytest

from django_redis_components.core.forks import after_fork_in_child


def test_callback_is_called_in_a_forked_child() -> None:
    called: list[int] = []
    after_fork_in_child(lambda: called.append(os.getpid()))

    pid = os.fork()
    if pid == 0:
        os._exit(42 if called == [os.getpid()] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
    assert called == []


def test_nothing_is_registered_where_the_platform_cannot_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")

    after_fork_in_child(lambda: None)
