"""`WatchedCheck`: a check that reads more than a page may, so that one process of the site makes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class WatchedCheck:
    """A check in two parts: what is read in one process, and what any process makes of it, in its own language.

    Attributes:
        name: in the stored facts.
        read: reads Redis in bounded requests, and returns JSON of bounded size.
        find: returns the problems for that JSON.
        is_of_server: whether they are problems of the server or of all data. They are listed before those of queues.
        is_of_shard: whether it is made in each shard of the task queue; otherwise in the connection as a whole.
        is_of_connection: whether it is made on further connections, too: components may use any. Then `queues` of the
            facts is None there.
    """

    name: str
    read: Callable[[ProblemFacts], Flow[Any]]
    find: Callable[[Any, ProblemFacts], Iterable[Problem]]
    is_of_server: bool = False
    is_of_shard: bool = False
    is_of_connection: bool = False
