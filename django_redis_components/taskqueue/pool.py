"""The pool of a worker process: its threads, its coroutines, and its queues in order. It may change while it runs.

A change is a dict of texts by name, such as ``{"threads": "8", "queues": "mail=5,default=1"}``: so it travels to the
supervisor, and so it is kept in Redis for processes that start later.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from django_redis_components.core.keys import validate_name
from django_redis_components.taskqueue.options import check_queue

#: The names of what can be changed.
POOL_VALUES = ("threads", "coroutines", "queues")
#: Most threads of a process: each has a byte of the memory that it shares with its supervisor. As of ``--threads``.
MAX_THREADS = 1_000
#: Most coroutines of a process: its supervisor reads their leases from a heartbeat each second. As of
#: ``--async-concurrency``.
MAX_COROUTINES = 10_000
#: Most queues of a process that a change names: each fetch sends their names.
MAX_QUEUES = 100
#: Largest weight of a queue.
MAX_WEIGHT = 1_000
#: Longest text of a command line; of a longer one the end is a hash.
MAX_COMMAND_LINE = 160


class PoolChange(NamedTuple):
    """A changed value, its author, and whether processes that start later take it."""

    value: str
    author: str
    at: datetime
    is_kept: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """The pool of a worker process.

    Attributes:
        threads, coroutines: tasks that it runs at once, in threads and on its event loop.
        queues: names, in strict order unless they have weights.
        weights: one for each queue, or none: see `fetcher.QueueOrder`.
    """

    threads: int
    coroutines: int
    queues: tuple[str, ...]
    weights: tuple[int, ...] = ()

    def value(self, name: str) -> str:
        """Return a value as the text of a change."""
        return queues_text(self.queues, self.weights) if name == "queues" else str(getattr(self, name))

    def changed(self, change: Mapping[str, str]) -> Pool:
        """Return the pool with a change, which has been checked."""
        queues, weights = parse_queues(change["queues"]) if "queues" in change else (self.queues, self.weights)
        return Pool(
            threads=int(change.get("threads", self.threads)),
            coroutines=int(change.get("coroutines", self.coroutines)),
            queues=queues,
            weights=weights,
        )

    def command_line(self, *, burst: bool = False) -> str:
        """Return the arguments of `runworker` that give this pool, by which processes know what is kept for them."""
        text = f"{self.value('queues')} --threads {self.threads} --async-concurrency {self.coroutines}"
        text += " --burst" if burst else ""
        if len(text) <= MAX_COMMAND_LINE:
            return text
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return f"{text[: MAX_COMMAND_LINE - len(digest) - 1]}…{digest}"


def check_change(change: Mapping[str, str]) -> dict[str, str]:
    """Return a change of a pool in its canonical form.

    Raises:
        ValueError: it is empty, has an unknown name, or a value that is not accepted.
        UnknownQueue: a queue is not declared.
    """
    if not change:
        raise ValueError(f"The pool is not changed: expected at least one of {', '.join(POOL_VALUES)}.")
    if unknown := [name for name in change if name not in POOL_VALUES]:
        raise ValueError(f"{unknown[0]!r}: expected one of {', '.join(map(repr, POOL_VALUES))}.")
    checked = {}
    if "threads" in change:
        checked["threads"] = _whole_number("threads", change["threads"], MAX_THREADS)
    if "coroutines" in change:
        checked["coroutines"] = _whole_number("coroutines", change["coroutines"], MAX_COROUTINES)
    if "queues" in change:
        queues, weights = parse_queues(change["queues"])
        for name in queues:
            check_queue(name)
        checked["queues"] = queues_text(queues, weights)
    return checked


def parse_queues(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the queues and their weights of NAME,NAME (strict order) or NAME=WEIGHT,NAME=WEIGHT.

    Raises:
        ValueError: the text is something else.
    """
    accepted = f"expected 1 to {MAX_QUEUES} queues as NAME,NAME in strict order, or as NAME=WEIGHT,NAME=WEIGHT"
    parts = [part.strip() for part in text.split(",")]
    if not 0 < len(parts) <= MAX_QUEUES or not all(parts):
        raise ValueError(f"queues {text[:80]!r}: {accepted}.")
    is_weighted = any("=" in part for part in parts)
    weights: dict[str, int] = {}
    for part in parts:
        name, _, number = part.rpartition("=") if is_weighted else (part, "", "1")
        if not number.isascii() or not number.isdecimal() or not 1 <= int(number[:5]) <= MAX_WEIGHT:
            raise ValueError(f"queues {part[:80]!r}: {accepted}, each weight from 1 to {MAX_WEIGHT}.")
        if name in weights:
            raise ValueError(f"queues {text[:80]!r}: queue {name!r} is named twice.")
        weights[validate_name(name, "queue name")] = int(number)
    return tuple(weights), tuple(weights.values()) if is_weighted else ()


def queues_text(queues: tuple[str, ...], weights: tuple[int, ...]) -> str:
    """Return queues as `parse_queues` takes them."""
    if not weights:
        return ",".join(queues)
    return ",".join(f"{queue}={weight}" for queue, weight in zip(queues, weights, strict=True))


def encode_change(change: Mapping[str, str], *, keep: bool) -> str:
    """Return a change as a word, for a command to a supervisor."""
    return urlencode({**change, **({"keep": "1"} if keep else {})})


def decode_change(word: str) -> tuple[dict[str, str], bool]:
    """Return a checked change, and whether it is kept.

    Raises:
        ValueError, UnknownQueue: see `check_change`.
    """
    change = dict(parse_qsl(word))
    keep = bool(change.pop("keep", ""))
    return check_change(change), keep


def _whole_number(name: str, text: str, most: int) -> str:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= number <= most:
        raise ValueError(f"{name} {text[:40]!r}: expected a whole number from 1 to {most}.")
    return str(number)
