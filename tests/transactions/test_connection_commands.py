"""Commands that would change the connection of a transaction raise and leave it unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import RedisError

from django_redis_components.transactions import aatomic_update, atomic_update
from tests.support import Store, run_async

COMMANDS = [
    "SELECT 1", "select 1", "AUTH name password", "HELLO 3", "RESET", "QUIT", "READONLY", "READWRITE", "ASKING",
    "CLIENT", "CLIENT REPLY OFF", "client reply skip", "CLIENT TRACKING ON", "CLIENT CACHING YES", "CLIENT NO-EVICT ON",
    "CLIENT NO-TOUCH ON", "CLIENT SETNAME other", "CLIENT SETINFO LIB-NAME other", "CLIENT KILL ID 1", "CLIENT PAUSE 1",
    "CLIENT UNPAUSE", "CLIENT UNBLOCK 1", "CLIENT CAPA redirect", "CLIENT IMPORT-SOURCE ON", "SCRIPT DEBUG YES",
    "HIMPORT PREPARE a b",
    "SUBSCRIBE a", "PSUBSCRIBE a", "SSUBSCRIBE a", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
    "MONITOR", "SYNC", "PSYNC ? -1", "REPLCONF ACK 1",
    "MULTI", "EXEC", "DISCARD", "WATCH a", "UNWATCH",
]  # fmt: skip


def spellings(command: str) -> list[tuple[Any, ...]]:
    """Return the ways to pass the command to `execute_command`."""
    words = tuple(command.split())
    encoded = tuple(word.encode() for word in words)
    return [words, encoded, (command,), (" ".join(words[:2]), *words[2:]), ("", *words)]


def refused(command: str) -> str:
    """Return a pattern for the start of the error."""
    name = " ".join(command.upper().split()[: 2 if command.upper().startswith(("CLIENT", "SCRIPT")) else 1])
    return rf"^{name} is not allowed|^'' is not a command name"


@pytest.fixture
def key(redis_server: Store) -> str:
    return f"{redis_server.prefix}:account"


@pytest.mark.parametrize("command", COMMANDS)
def test_queued_command_that_changes_the_connection_raises(redis_server: Store, key: str, command: str) -> None:
    def queue(pipe: Any, words: tuple[Any, ...]) -> None:
        pipe.multi()
        pipe.set(key, 1)
        pipe.execute_command(*words)

    for words in spellings(command):
        with pytest.raises(RedisError, match=refused(command)):
            atomic_update(lambda pipe, words=words: queue(pipe, words), key)

    assert not redis_server.raw.exists(key)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "WATCH a"])
def test_command_before_multi_that_changes_the_connection_raises(key: str, command: str) -> None:
    for words in spellings(command):
        with pytest.raises(RedisError, match=refused(command)):
            atomic_update(lambda pipe, words=words: pipe.execute_command(*words), key)


def test_async_pipe_rejects_the_same_connection_commands(redis_server: Store, key: str) -> None:
    async def send(pipe: Any, words: list[str]) -> None:
        await pipe.execute_command(*words)

    async def queue(pipe: Any, words: list[str]) -> None:
        pipe.multi()
        pipe.set(key, 1)
        pipe.execute_command(*words)

    async def try_all() -> None:
        for command in COMMANDS:
            for use in (queue, send) if command != "WATCH a" else (queue,):
                with pytest.raises(RedisError, match=refused(command)):
                    await aatomic_update(lambda pipe, use=use, command=command: use(pipe, command.split()), key)

    run_async(try_all)

    assert not redis_server.raw.exists(key)


METHODS: list[Callable[[Any], object]] = [
    lambda pipe: pipe.select(1),
    lambda pipe: pipe.auth("password"),
    lambda pipe: pipe.client_reply("OFF"),
    lambda pipe: pipe.client_setname("other"),
    lambda pipe: pipe.client_tracking_on(),
    lambda pipe: pipe.client_no_evict("ON"),
    lambda pipe: pipe.quit(),
    lambda pipe: pipe.readonly(),
    lambda pipe: pipe.psync("?", -1),
]


@pytest.mark.parametrize("method", range(len(METHODS)))
def test_methods_of_redis_py_that_change_the_connection_raise(key: str, method: int) -> None:
    def queue(pipe: Any) -> None:
        pipe.multi()
        METHODS[method](pipe)

    with pytest.raises(RedisError, match="is not allowed in atomic_update"):
        atomic_update(queue, key)


def test_error_says_why_and_what_to_do(key: str) -> None:
    with pytest.raises(RedisError) as caught:
        atomic_update(lambda pipe: (pipe.multi(), pipe.select(1)), key)

    assert str(caught.value) == (
        "SELECT is not allowed in atomic_update(): it changes a connection that returns to the pool. "
        "Set the database, user or name in the URL of the connection; otherwise use a separate client."
    )
    with pytest.raises(RedisError) as caught:
        atomic_update(lambda pipe: (pipe.multi(), pipe.execute_command("EXEC")), key)
    assert str(caught.value) == "EXEC is not allowed: atomic_update() sends WATCH, MULTI and EXEC itself."


def test_connection_is_unchanged_after_a_rejected_command(redis_server: Store, key: str) -> None:
    def where(pipe: Any) -> tuple[Any, Any]:
        pipe.multi()
        pipe.client_id()
        pipe.client_info()
        pipe.client_getname()
        pipe.blpop(f"{key}:empty", timeout=1)
        pipe.set(key, 7)

    with pytest.raises(RedisError):
        atomic_update(lambda pipe: (pipe.multi(), pipe.select(1)), key)
    atomic_update(where, key)

    assert redis_server.raw.get(key) == b"7"


@pytest.mark.parametrize("name", ["client", "keyspace_notifications", "lock", "monitor", "pipeline", "pubsub"])
def test_methods_that_would_use_another_connection_raise(key: str, name: str) -> None:
    async def call(pipe: Any) -> None:
        getattr(pipe, name)()

    with pytest.raises(RedisError, match=rf"^{name}\(\) is not allowed: it would not use the connection of the pipe"):
        atomic_update(lambda pipe: getattr(pipe, name)(), key)
    with pytest.raises(RedisError, match=rf"^{name}\(\) is not allowed: it would not use the connection of the pipe"):
        run_async(lambda: aatomic_update(call, key))
