"""What our scripts allow with next to no Python around them, over dedicated connections.

    python -m benchmarks.bare enqueue COUNT     one enqueue script after the other on one connection
    python -m benchmarks.bare drain             threads of one loop: fetch 32, read the JSON, settle with the next

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import django
import redis

from benchmarks import bodies

django.setup()

from benchmarks import tasks  # noqa: E402 - needs the settings
from django_redis_components.taskqueue.shards import home  # noqa: E402
from django_redis_components.taskqueue.store import task_records  # noqa: E402
from django_redis_components.taskqueue.store.job import Ack, ack_args  # noqa: E402
from django_redis_components.taskqueue.store.messages import TaskMessage, call_for  # noqa: E402
from django_redis_components.taskqueue.store.scripts import FETCH  # noqa: E402
from django_redis_components.taskqueue.worker import fetcher  # noqa: E402

THREADS = 8
BATCH = 32


class Held:
    """A dedicated connection with the interface of a client; keeps the last call."""

    def __init__(self) -> None:
        self.connection = redis.Redis.from_url(bodies.URL).connection_pool.make_connection()
        self.connection.connect()
        self.call: Any = None

    def send(self, *words: Any) -> Any:
        """One command, one reply."""
        self.connection.send_packed_command(self.connection.pack_command(*words), check_health=False)
        return self.connection.read_response()

    def execute(self, call: Any) -> Any:
        """Run a call by its text, so that the server knows the script, and remember it."""
        self.call = call
        return self.send(*call.script.eval_args(call.keys, call.args))


def enqueue(count: int) -> float:
    held = Held()
    message = TaskMessage(task_records.new_id(), tasks.noop.name, "default", b"[[1],{}]")
    call = call_for(home(), message)
    held.execute(call)
    before, after = _around(call.command_args(), message.id)
    started_at = time.perf_counter()
    for _ in range(count):
        held.send(*before, task_records.new_id(), *after)
    return count / (time.perf_counter() - started_at)


def drain() -> float:
    done: list[int] = []
    threads = [threading.Thread(target=_loop, args=(f"slot{slot}", done)) for slot in range(THREADS)]
    started_at = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - started_at)


def _loop(slot: str, done: list[int]) -> None:
    held, count = Held(), 0
    fetcher.Fetcher(home(), held, "bare", ("default",)).fetch(slot, 1)  # type: ignore[arg-type]
    words = list(held.call.command_args())
    first = len(words) - len(held.call.args)
    want, request = first + FETCH.args.index("want"), first + FETCH.args.index("request")
    words[want] = BATCH
    acks: list[Any] = []
    rows: list[Any] = [None]
    while rows:
        words[request] += 1
        _, rows, *_ = held.send(*words, *acks)
        acks = ack_args(map(_run, rows))
        count += len(rows)
    done.append(count)


def _run(row: Any) -> Ack:
    task_id, token, _, body, *_ = row
    args, _ = json.loads(body)
    return Ack(task_id, token, "succeeded", json.dumps(args[0]).encode(), ttl_ms=600_000)


def _around(words: Any, word: Any) -> tuple[Any, Any]:
    at = words.index(word)
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    action, *numbers = sys.argv[1:]
    print(json.dumps({"rate": enqueue(int(numbers[0])) if action == "enqueue" else drain()}))
