"""What the script of a limit is asked by hits of one cost."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.protocol import Call
from django_redis_components.core.rates import Rate
from django_redis_components.ratelimits.algorithms import Algorithm


class Question:
    """Made once, by the names of the script's arguments; each hit adds its visitor's keys and its id, and no more.

    All of the scripts that count have the penalty's key first and the id as their first argument.
    """

    __slots__ = ("_arguments", "_script", "cost")

    def __init__(self, algorithm: Algorithm, rates: Sequence[Rate], cost: int, denials: int, block_us: int) -> None:
        common = {"penalty": "", "id": b"", "denials": denials, "block_us": block_us}
        made = algorithm.ask([], rates, cost, common)
        self._script = made.script
        self._arguments = tuple(map(str, made.args[1:]))  # text: a number would be made into it for each hit
        self.cost = cost

    def call(self, penalty: str, places: Sequence[str], call_id: bytes) -> Call:
        """The call of one hit; an empty id only looks."""
        return Call(self._script, (penalty, *places), (call_id, *self._arguments))
