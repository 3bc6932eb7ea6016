"""Chats beside a sorted set of JSON texts, and the cost of waiting.

    python -m benchmarks.messaging [--chats 100] [--members 50] [--calls 2000] [--waiters 1000]

One thread: p50 of a call in microseconds, and commands that the server executes, for chats with 50 messages; bytes per
message on the server, in one chat of 5,000 messages; and memory, threads and commands per second of a process with a
thousand waiters, and with a thousand event streams. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import threading
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import redis

from benchmarks.environment import server_url
from benchmarks.locks import set_up

#: The text of each message: a short sentence, 129 bytes as JSON of the whole message.
TEXT = "See you at noon in the small room on the second floor, please."
#: Messages of the log whose memory is measured, and of each chat.
LOG, EACH = 5_000, 50
#: Seconds for which a process with waiters is watched.
WATCH_S = 10.0
#: Seconds in which each waiter reads its state once more, after its channel was subscribed.
SETTLE_S = 3.0


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=100, help="chats (default: 100)")
    parser.add_argument("--members", type=int, default=50, help="members of each (default: 50)")
    parser.add_argument("--calls", type=int, default=2_000, help="calls of each row (default: 2000)")
    parser.add_argument("--waiters", type=int, default=1_000, help="waits, and event streams (default: 1000)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """All parts in turn."""
    set_up(url)
    plain = redis.Redis.from_url(url)
    measure_calls(plain, options)
    measure_memory(plain)
    asyncio.run(measure_waiters(plain, options.waiters))
    asyncio.run(measure_streams(plain, options.waiters, options.members))


def measure_calls(plain: redis.Redis, options: argparse.Namespace) -> None:
    """p50 and commands of each call, over all chats and members at random."""
    from django_redis_components.messaging import Chat, chats, pending, unread_counts

    users = [f"user {number}" for number in range(options.members)]
    rooms = [Chat.create(users[0], users, TEXT, chat_id=f"room {number}") for number in range(options.chats)]
    for room in rooms:
        for _ in range(EACH - 1):
            room.send(random.choice(users), TEXT)
    rows: dict[str, tuple[Callable[[], object], int]] = {
        "PING": (plain.ping, options.calls),
        "send": (lambda: random.choice(rooms).send(random.choice(users), TEXT), options.calls),
        "fetch of 10 messages": (lambda: random.choice(rooms).fetch(random.choice(users), limit=10), options.calls),
        "fetch of 50 messages": (lambda: random.choice(rooms).fetch(random.choice(users)), options.calls),
        "unread": (lambda: random.choice(rooms).unread(random.choice(users)), options.calls),
        "ack": (lambda: random.choice(rooms).ack(random.choice(users), 40), options.calls),
        "chats": (lambda: chats(random.choice(users)), options.calls // 50),
        "unread_counts": (lambda: unread_counts(random.choice(users)), options.calls // 50),
        "pending, 10 of each chat": (lambda: pending(random.choice(users), 10), options.calls // 50),
    }
    print(f"{options.chats} chats of {options.members} members")
    for name, (call, count) in rows.items():
        call()
        times: list[float] = []
        before = total(plain)
        for _ in range(count):
            started_at = time.perf_counter()
            call()
            times.append((time.perf_counter() - started_at) * 1e6)
        sent = total(plain) - before - 1
        print(f"{name:26} p50 {statistics.median(times):8.0f} us   {sent / count:6.2f} commands, scripts' own included")


def measure_memory(plain: redis.Redis) -> None:
    """Bytes per message: of a chat whose tokens have expired, and of the log as a sorted set of JSON texts."""
    from django_redis_components.messaging import Chat, Retention

    chat = Chat.create("user 1", ["user 2"], TEXT, chat_id="memory", retention=Retention(keep_last=LOG))
    for _ in range(LOG - 1):
        chat.send("user 1", TEXT)
    sizes = {key: plain.memory_usage(key, samples=0) or 0 for key in plain.scan_iter(match="drc:messaging:{memory}*")}
    tokens = sum(size for key, size in sizes.items() if key.endswith(b":sent"))
    for number in range(LOG):
        row = {"id": number, "ts": time.time(), "sender": "user 1", "message": TEXT}
        plain.zadd("zset", {json.dumps(row): number})
    print(f"bytes a message: chat {(sum(sizes.values()) - tokens) / LOG:.0f}, and {tokens / LOG:.0f} for 60 s;")
    print(f"                 sorted set of JSON {(plain.memory_usage('zset', samples=0) or 0) / LOG:.0f}")


async def measure_waiters(plain: redis.Redis, count: int) -> None:
    """What a process with many waiters costs while nothing happens, and how soon a message wakes one of them."""
    from django_redis_components.messaging import Mailbox

    before_kb, before_clients = resident_kb(), len(plain.client_list())
    waits = [asyncio.ensure_future(Mailbox(number).await_for_message(WATCH_S * 4)) for number in range(count)]
    while len(plain.execute_command("PUBSUB", "SHARDCHANNELS")) < count:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    await asyncio.sleep(SETTLE_S)
    clients, sent = len(plain.client_list()) - before_clients, total(plain)
    await asyncio.sleep(WATCH_S)
    idle = (total(plain) - sent - 1) / WATCH_S
    started_at = time.perf_counter()
    await Mailbox(0).asend("x")
    await waits[0]
    woken_ms = (time.perf_counter() - started_at) * 1e3
    grown_kb = resident_kb() - before_kb
    print(f"{count} waiters: {idle:.1f} commands/s, {threading.active_count()} threads, {clients} more connections,")
    print(f"{grown_kb / count:.1f} KiB each; send and wake {woken_ms:.1f} ms")
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def measure_streams(plain: redis.Redis, count: int, members: int) -> None:
    """What a process with many event streams costs, and how soon all members of a chat have a message."""
    from django_redis_components.messaging import Chat

    users = [f"user {number}" for number in range(members)]
    rooms = [Chat.create(users[0], users, "hi", chat_id=f"stream {number}") for number in range(-(-count // members))]
    before_kb, before_clients, received = resident_kb(), len(plain.client_list()), asyncio.Semaphore(0)
    streams = [asyncio.ensure_future(_read_stream(room, user, received)) for room in rooms for user in users][:count]
    for _ in streams:  # the first message
        await received.acquire()
    await asyncio.sleep(SETTLE_S)
    clients, sent = len(plain.client_list()) - before_clients, total(plain)
    await asyncio.sleep(WATCH_S * 3)
    idle = (total(plain) - sent - 1) / (WATCH_S * 3)
    started_at = time.perf_counter()
    await rooms[0].asend(users[0], "x")
    for _ in range(min(members, count)):
        await received.acquire()
    seen_ms = (time.perf_counter() - started_at) * 1e3
    print(
        f"{count} event streams: {idle:.1f} commands/s, {threading.active_count()} threads, {clients} more connections,"
    )
    print(
        f"{(resident_kb() - before_kb) / count:.1f} KiB each; a message seen by {members} members in {seen_ms:.1f} ms"
    )
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


async def _read_stream(room: Any, user: str, received: asyncio.Semaphore) -> None:
    """Read the events of a chat as a browser does, through the view."""
    from django.core.handlers.asgi import ASGIRequest

    from django_redis_components.messaging.views import chat_events

    request = ASGIRequest({"type": "http", "method": "GET", "path": "/", "query_string": b"after=0"}, BytesIO())
    signed_in = SimpleNamespace(is_authenticated=True, pk=user)

    async def auser() -> Any:
        return signed_in

    request.auser = auser  # type: ignore[method-assign]
    response = await chat_events(request, room.id)
    async for chunk in response:
        if b"event: message" in chunk:
            received.release()


def total(plain: redis.Redis) -> int:
    """Return the commands that the server has executed."""
    return int(plain.info("stats")["total_commands_processed"])


def resident_kb() -> int:
    """Return the memory of this process in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


if __name__ == "__main__":
    main()
