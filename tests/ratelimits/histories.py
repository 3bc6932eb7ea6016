"""Random histories of a rate limit.

``RATELIMIT_EXAMPLES`` sets their number; without it each run tries the same ones.
"""

from __future__ import annotations

import itertools
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("RATELIMIT_EXAMPLES", "40"))

histories = settings(
    max_examples=EXAMPLES,
    derandomize="RATELIMIT_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

PERIODS = st.one_of(st.sampled_from([1, 7, 1_000_000, 60_000_000, 86_400_000_000]), st.integers(1, 10**11))
numbers = itertools.count()


def rates_of(algorithm: str) -> st.SearchStrategy[list[tuple[int, int]]]:
    most = 12 if algorithm == "sliding" else 1_000_000
    limits = st.one_of(st.integers(1, 5), st.integers(1, most))
    return st.lists(st.tuples(limits, PERIODS), min_size=1, max_size=3, unique=True)
