"""What a machine lacks: skipped in one loud line at home, a failure where CI=true."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

import pytest

#: How the reason of such a skip begins; it is the only thing that a process of pytest-xdist tells the first one.
MARK = "absent: "


def absent(what: str) -> NoReturn:
    """Skip the running test because ``what`` is not there; fail it under CI=true."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI=true and {what}", pytrace=False)
    pytest.skip(MARK + what)


def counted(skips: Iterable[Any]) -> Counter[str]:
    """How many of these reports of skipped tests there are for each thing that was not there."""
    texts = (str(report.longrepr[2]) for report in skips if isinstance(report.longrepr, tuple))
    return Counter(text.partition(MARK)[2] for text in texts if MARK in text)
