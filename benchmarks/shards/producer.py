"""Sends tasks at a rate until SIGTERM: ``python -m benchmarks.shards.producer KIND RATE THREADS FIRST PATH``.

Each call appends a line to the file: number, outcome, shard, when it began, its seconds, the error. Threads take the
next number when it is due; if all are blocked, fewer tasks are sent.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time

from django_redis_components.core.client.retry import NOT_EXECUTED_ERRORS


def main() -> None:
    """Send until SIGTERM."""
    import django

    django.setup()
    from redis.exceptions import RedisError, ResponseError

    from benchmarks.shards import tasks
    from django_redis_components.core.exceptions import RedisComponentsError
    from django_redis_components.taskqueue.enqueue import prepare

    kind, rate, threads, first, path = sys.argv[1:]
    task, interval_s, numbers = getattr(tasks, kind), 1 / float(rate), itertools.count(int(first))
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    started_at, stopped = time.monotonic(), threading.Event()

    def send() -> None:
        while not stopped.is_set():
            number = next(numbers)
            due_at = started_at + (number - int(first)) * interval_s
            stopped.wait(max(0.0, due_at - time.monotonic()))
            began_at, shard, error = time.monotonic(), "-", "-"
            try:
                shard = task.enqueue(number)._shard.name
                outcome = "accepted"
            except (RedisError, RedisComponentsError) as exc:
                is_refused = isinstance(exc, (ResponseError, *NOT_EXECUTED_ERRORS))
                outcome, error = "refused" if is_refused else "unconfirmed", type(exc).__name__
                if kind == "keyed":
                    shard = prepare(task, [number], {})[0]._shard.name
            words = (kind, number, outcome, shard, began_at, time.monotonic() - began_at, error)
            os.write(out, f"{' '.join(map(str, words))}\n".encode())

    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    running = [threading.Thread(target=send) for _ in range(int(threads))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main()
