"""An ack that the server rejects blocks no other, and becomes a failure that names the cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from redis.exceptions import ConnectionError, NoPermissionError, OutOfMemoryError, ResponseError

from django_redis_components.taskqueue import OutcomeRefused, ResultTooLarge, TaskFailed, chain, get_queue
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker import rejected_acks as refusals
from django_redis_components.taskqueue.worker.fetcher import MAX_ACK_BYTES, Fetcher
from django_redis_components.taskqueue.worker.rejected_acks import RejectedAcks, is_caused_by
from tests.conftest import components_settings
from tests.support import Store, eventually
from tests.support.pools import close_pools
from tests.taskqueue.support import base_key, new_fetcher, running_worker, taskqueue_settings, work_off
from tests.taskqueue.tasks import blocked_notes, echo, note, note_when_released, text_of

MIB = 1_048_576


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "BACKOFF_S", 0.02)


@pytest.fixture
def small_strings(own_server: Store) -> Store:
    """A server with the smallest proto-max-bulk-len that there is."""
    own_server.raw.config_set("proto-max-bulk-len", "1mb")
    return own_server


@pytest.fixture
def full_server(own_server: Store) -> Iterator[Store]:
    """A server whose memory a test can fill; given back at the end, so that workers can end."""
    yield own_server
    own_server.raw.config_set("maxmemory", 0)


def fill(store: Store, left: int = 0) -> None:
    """Leave this many bytes of memory; 0: none."""
    used = store.raw.info("memory")["used_memory"]
    store.raw.config_set("maxmemory", used + left if left else 1)


def leased(count: int) -> tuple[Fetcher, list[Job]]:
    note.enqueue_many([((number,), {}) for number in range(count)])
    fetcher = new_fetcher(worker="worker:1")
    return fetcher, fetcher.fetch("0", count)


def states(jobs: list[Job]) -> list[str]:
    found = []
    for job in jobs:
        result = note.get_result(job.id)
        found.append(result.state)
    return found


def ok(job: Job, payload: bytes = b"1") -> Ack:
    return Ack(job.id, job.token, "succeeded", payload, ttl_ms=60_000, ran_us=5)


def test_result_above_the_limit_is_a_failure_that_names_the_sizes(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, MAX_RESULT_BYTES=1_024)
    fits, result = text_of.enqueue(1_022), text_of.using(max_attempts=5).enqueue(1_023)

    work_off()

    assert fits.get(0) == "x" * 1_022
    with pytest.raises(TaskFailed, match=r"The return value is 1,025 bytes of JSON: at most 1,024 are kept"):
        result.get(0)
    [error] = result.errors
    assert error.exception_class is ResultTooLarge
    assert result.attempts == 1, "it would be as large again"


def test_result_of_the_default_limit_reaches_a_server_with_the_smallest_strings(small_strings: Store) -> None:
    fits, result = text_of.enqueue(MIB - 2), text_of.enqueue(MIB - 1)
    with running_worker():
        assert len(fits.get(30)) == MIB - 2
        with pytest.raises(TaskFailed, match=r"1,048,577 bytes of JSON: at most 1,048,576 are kept"):
            result.get(30)


def test_result_above_the_strings_of_the_server_ends_as_a_failure(
    small_strings: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    taskqueue_settings(settings, MAX_RESULT_BYTES=4 * MIB)
    too_large, others = text_of.enqueue(2 * MIB), [note.enqueue(number) for number in range(20)]

    with running_worker():
        assert [result.get(60) for result in others] == list(range(20))
        with pytest.raises(TaskFailed, match=r"Redis .* the outcome .* of this run, 2,097,154 bytes: ") as raised:
            too_large.get(60)

    assert 'Lower TASKQUEUE["MAX_RESULT_BYTES"] to the proto-max-bulk-len of the server' in str(raised.value)
    assert too_large.errors[0].exception_class is OutcomeRefused
    assert get_queue("default").info().running == 0


def test_large_result_survives_a_lost_connection(own_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, MAX_RESULT_BYTES=4 * MIB)
    text_of.enqueue(MIB)
    fetcher = new_fetcher(worker="worker:1")
    [job] = fetcher.fetch("0", 1)
    fetcher.settle(ok(job, b'"' + b"x" * MIB + b'"'))

    own_server.servers[0].stop()
    with pytest.raises(ConnectionError):
        fetcher.fetch("acks", 0)
    own_server.servers[0].start()

    eventually(lambda: (retry(fetcher), text_of.get_result(job.id).state == "successful")[1])


def retry(fetcher: Fetcher) -> None:
    with suppress(ConnectionError):
        fetcher.retry_rejected()


def test_flow_ends_at_a_result_that_is_too_large(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, MAX_RESULT_BYTES=1_024)
    flow = chain(text_of.s(2_000), echo.s()).enqueue()

    work_off()

    with pytest.raises(TaskFailed):
        flow.get(0)


def test_outcomes_are_sent_in_calls_of_bounded_size(redis_server: Store) -> None:
    fetcher, jobs = leased(6)
    for job in jobs:
        fetcher.settle(ok(job, b"x" * (MAX_ACK_BYTES // 2)))

    fetcher.fetch("acks", 0)
    assert fetcher.pending_acks() == 4
    fetcher.fetch("acks", 0)
    fetcher.fetch("acks", 0)

    assert states(jobs) == ["successful"] * 6


def test_rejected_ack_does_not_block_others(full_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    fetcher, jobs = leased(5)
    for number, job in enumerate(jobs):
        fetcher.settle(ok(job, b"x" * 900_000 if number == 2 else b"1"))
    fill(full_server, left=400_000)

    def others_arrived() -> bool:
        with suppress(OutOfMemoryError):  # the rejected call is in the server's buffers for a moment
            fetcher.fetch("acks", 0)
        return states(jobs) == ["successful", "successful", "running", "successful", "successful"]

    eventually(others_arrived)
    assert fetcher.pending_acks() == 0
    assert fetcher.leases == {jobs[2].id: jobs[2].token}, "its lease is renewed meanwhile"

    def is_replaced() -> bool:
        with suppress(OutOfMemoryError):
            fetcher.retry_rejected()
        return fetcher.leases == {}

    eventually(is_replaced)
    result = note.get_result(jobs[2].id)
    [error] = result.errors
    assert result.state == "failed"
    assert error.exception_class is OutcomeRefused
    assert (
        "Redis rejected the outcome (succeeded) of this run, 900,000 bytes: command not allowed when" in error.message
    )
    assert ".." not in error.message
    assert fetcher.seconds_to_retry() is None
    assert "a failure is sent instead" in caplog.text


def test_rejected_ack_is_applied_after_memory_is_freed(full_server: Store) -> None:
    fetcher, [job] = leased(1)
    fetcher.settle(ok(job, b"x" * 900_000))
    fill(full_server, left=400_000)
    fetcher.fetch("acks", 0)
    full_server.raw.config_set("maxmemory", 0)

    eventually(lambda: (fetcher.retry_rejected(), fetcher.leases == {})[1])

    assert states([job]) == ["successful"]


def test_worker_replaces_a_rejected_ack_by_a_failure(full_server: Store, settings: Any) -> None:
    with running_worker(threads=2):
        assert note.enqueue("before").get(30) == "before"
        fill(full_server, left=700_000)
        result = text_of.enqueue(1_000_000)

        def failure() -> str:
            with suppress(OutOfMemoryError):  # the rejected call is in the server's buffers for a moment
                result.get(30)
            return ""

        with pytest.raises(TaskFailed, match="Redis rejected the outcome"):
            eventually(failure)


def test_acks_are_kept_while_the_server_rejects_all(full_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    with running_worker(threads=4) as worker, blocked_notes() as released:
        results = note_when_released.enqueue_many([((number,), {}) for number in range(30)])
        eventually(lambda: worker.busy() == 4)
        fill(full_server)
        released.set()
        eventually(lambda: "Redis rejected the request (OutOfMemoryError: " in caplog.text)
        before = full_server.raw.info("stats")["total_commands_processed"]
        eventually(lambda: full_server.raw.info("stats")["total_commands_processed"] > before + 30)
        assert "Redis is unavailable" not in caplog.text
        full_server.raw.config_set("maxmemory", 0)

        assert [result.get(60) for result in results] == list(range(30))
    assert caplog.text.count("Redis rejected the request") == 1
    assert "a failure is sent instead" not in caplog.text


def test_acks_without_permission_are_kept_until_it_is_granted(
    redis_server: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    user = f"user-{redis_server.prefix}"
    redis_server.raw.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all")
    url = redis_server.url.replace("redis://", f"redis://{user}:secret@")
    settings.REDIS_COMPONENTS = components_settings(redis_server, limited=url)
    result = note.enqueue(1)
    fetcher = new_fetcher(worker="worker:1", using="limited")
    [job] = fetcher.fetch("0", 1)
    redis_server.raw.execute_command("ACL", "SETUSER", user, "-hset")
    fetcher.settle(ok(job))

    for _ in range(10):
        with pytest.raises(ResponseError):
            fetcher.fetch("acks", 0)
    assert fetcher.pending_acks() == 1

    redis_server.raw.execute_command("ACL", "SETUSER", user, "+hset")
    fetcher.fetch("acks", 0)
    assert result.get(0) == 1
    redis_server.raw.execute_command("ACL", "DELUSER", user)
    close_pools()


def test_ack_that_can_never_be_applied_is_dropped(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Another client has written a key of another type at the key of the task's errors."""
    fetcher, jobs = leased(3)
    redis_server.raw.set(base_key(redis_server, "t", jobs[1].id, "errors"), "text")
    for job in jobs:
        fetcher.settle(Ack(job.id, job.token, "failed", b"{}", ttl_ms=60_000, ran_us=5))

    fetcher.fetch("acks", 0)
    eventually(lambda: (fetcher.retry_rejected(), fetcher.leases == {})[1])

    redis_server.raw.delete(base_key(redis_server, "t", jobs[1].id, "errors"))
    assert states([jobs[0], jobs[2]]) == ["failed", "failed"]
    assert fetcher.seconds_to_retry() is None


def test_due_ack_is_taken_by_one_of_two_threads() -> None:
    acks, ack = RejectedAcks(), Ack("id", "token", "succeeded")
    others: list[Ack] = []
    compared: list[object] = []

    class Due(float):
        """A time that has come. While one thread compares it, another one takes the acks that are due."""

        def __radd__(self, now: float) -> float:
            return Due(now)

        def __le__(self, now: float) -> bool:
            compared.append(now)
            if len(compared) == 1:
                others.extend(acks.pop_due())
            return True

    acks.postpone(ack, Due())

    assert [*acks.pop_due(), *others] == [ack]


@pytest.mark.parametrize(
    ("error", "size", "expected"),
    [
        (OutOfMemoryError("used memory"), 10, False),
        (OutOfMemoryError("used memory"), 10_000, True),
        (NoPermissionError("no permissions"), 10_000, False),
        (ResponseError("MISCONF Errors writing to the AOF file"), 10_000, False),
        (ResponseError("WRONGTYPE Operation against a key"), 10, True),
        (ConnectionError("gone"), 10_000, False),
    ],
    ids=str,
)
def test_error_reply_is_attributed_to_the_ack_that_caused_it(error: Exception, size: int, expected: bool) -> None:
    assert is_caused_by(Ack("id", "token", "succeeded", b"x" * size), error) is expected
