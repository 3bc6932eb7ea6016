"""The limit of the wait for a moving slot ends with its block, however the block ends."""

from __future__ import annotations

import itertools
import sys
import time
from types import FrameType
from typing import Any

import pytest

from django_redis_components.core import slot_waits
from django_redis_components.core.slot_waits import give_up_at, slot_wait_limit

pytestmark = pytest.mark.integration


def limit_s() -> float:
    """Seconds that a request may wait now, which without a limit are a thousand."""
    return give_up_at(1_000) - time.monotonic()


class Interruption:
    """Raises KeyboardInterrupt at the n-th line, call or return of the module of the limit."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, frame: FrameType, *_: object) -> Any:
        if frame.f_code.co_filename != slot_waits.__file__:
            return None
        self._left -= 1
        if not self._left:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self


def is_interrupted(at: int) -> bool:
    """Enter and leave a block with this interruption."""
    before = sys.gettrace()
    limit = slot_wait_limit(1)
    sys.settrace(Interruption(at))
    try:
        with limit:
            del limit  # as in `with slot_wait_limit(1):`
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("around_s", [None, 100])
def test_interruption_anywhere_leaves_no_limit_behind(around_s: float | None) -> None:
    def interrupt_everywhere(least: float) -> None:
        for at in itertools.count(1):
            interrupted = is_interrupted(at)
            assert limit_s() > least, f"interrupted at {at}"
            if not interrupted:
                assert at > 8
                return

    if around_s is None:
        interrupt_everywhere(500)
    else:
        with slot_wait_limit(around_s):
            interrupt_everywhere(30)
            assert limit_s() <= around_s
    assert limit_s() > 500


def test_innermost_limit_is_never_longer_than_those_around_it() -> None:
    with slot_wait_limit(50):
        with slot_wait_limit(500):
            assert limit_s() <= 50
        with slot_wait_limit(0):
            assert limit_s() <= 0
        assert 0 < limit_s() <= 50
