"""Skip tests that need a program which is not installed: reported at the end of a run, a failure with CI=true."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

#: Start of the reason of such a skip. A process of pytest-xdist sends only the reason to the main process.
PREFIX = "missing: "


def skip_missing(problem: str) -> NoReturn:
    """Skip the running test because of ``problem``; fail it with CI=true."""
    import pytest  # here, because the children of tests import this module: pytest is a fifth of their start

    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI=true and {problem}", pytrace=False)
    pytest.skip(PREFIX + problem)


def count_missing(skips: Iterable[Any]) -> Counter[str]:
    """Count the reports of skipped tests by problem."""
    texts = (str(report.longrepr[2]) for report in skips if isinstance(report.longrepr, tuple))
    return Counter(text.partition(PREFIX)[2] for text in texts if PREFIX in text)
