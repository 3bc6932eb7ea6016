"""Failures are grouped by fingerprint."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import ErrorGroup, ErrorSample, get_queue
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import fingerprint as fingerprints
from django_redis_components.taskqueue.stats.errors import list_errors
from django_redis_components.taskqueue.store.job import Ack, ErrorIdentity
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import add, fail, fail_thrice, fail_without_text, note, return_what_is_not_json


def errors(queue: str = "default") -> list[ErrorGroup]:
    return get_queue(queue).errors()


def failing(text: str) -> Exception:
    try:
        raise LookupError(text)
    except LookupError as exc:
        return exc


def settle_with(*fingerprints_: str) -> list[str]:
    """Let tasks fail with these fingerprints; their ids."""
    results = note.enqueue_many([((number,), {}) for number in range(len(fingerprints_))])
    worker = new_fetcher(worker=f"here:{results[0].id}")
    jobs = worker.fetch("0", len(results))
    acks = [
        Ack(
            job.id,
            job.token,
            "failed",
            b"{}",
            ttl_ms=60_000,
            ran_us=5,
            error=ErrorIdentity(each, '{"class":"E","location":"p","text":"t"}'),
        )
        for job, each in zip(jobs, fingerprints_, strict=True)
    ]
    settle_now(worker, *acks)
    return [job.id for job in jobs]


def test_equal_failures_are_grouped(store: Store) -> None:
    results = [fail.enqueue(f"user {number} has no 'mail{number}'") for number in range(3)]
    work_off()

    [group] = errors()

    assert (group.exception_class_path, group.location) == ("builtins.LookupError", "tests.taskqueue.tasks.fail")
    assert (group.message, group.count, group.final) == ("user # has no '…'", 3, 3)
    assert group.task_ids == [result.id for result in reversed(results)]
    assert timedelta(0) <= group.last_at - group.first_at < timedelta(minutes=1)


def test_equal_failures_of_one_batch_are_grouped(store: Store) -> None:
    fail.enqueue_many([((f"number {number}",), {}) for number in range(25)])
    worker = new_fetcher()
    jobs = worker.fetch("0", 25)
    settle_now(worker, *[execute(job) for job in jobs])

    [group] = errors()

    assert (group.count, group.final) == (25, 25)
    assert group.task_ids == [job.id for job in reversed(jobs)][:10]


def test_different_texts_places_and_classes_are_different_errors(store: Store) -> None:
    fail.enqueue("no mail")
    fail.enqueue("no phone")
    fail_thrice.enqueue("no mail")
    fail_without_text.enqueue()
    work_off()

    assert {
        (group.exception_class_path.rpartition(".")[2], group.location.rpartition(".")[2]) for group in errors()
    } == {
        ("LookupError", "fail"),
        ("LookupError", "fail_thrice"),
        ("BrokenTextError", "fail_without_text"),
    }
    assert len(errors()) == 4


def test_errors_are_listed_per_queue_newest_first(store: Store) -> None:
    settle_with("aa")
    settle_with("bb")
    store.raw.zadd(queue_key(store, "errors"), {"aa": server_ms(store) + 5_000})

    assert [group.fingerprint for group in errors()] == ["aa", "bb"]
    assert [group.fingerprint for group in get_queue("default").errors(limit=1)] == ["aa"]
    assert errors("mail") == []


def test_retried_attempts_are_counted_as_not_final(store: Store) -> None:
    work_until_finished(fail_thrice.enqueue())

    [group] = errors()

    assert (group.count, group.final, len(group.task_ids)) == (3, 1, 1)


@pytest.mark.contract
def test_a_task_that_crashed_its_workers_is_a_separate_error(store: Store) -> None:
    result = note.using(max_deliveries=1).enqueue("killer")
    new_fetcher().fetch("0", 1)
    end_lease(store, result.id)
    recover()

    [group] = errors()

    assert group.exception_class_path == "django_redis_components.taskqueue.exceptions.WorkerLost"
    assert (group.location, group.message, group.count, group.final) == ("", "", 1, 1)
    assert group.task_ids == [result.id]


def test_sample_is_the_whole_message_of_the_newest_task_that_still_has_the_error(store: Store) -> None:
    old, newer = fail.enqueue("template 'welcome.html'\nnot found"), fail.enqueue("template 'bye.html'")
    work_off()
    [group] = errors()
    assert (group.message, group.sample) == (
        "template '…'", ErrorSample(newer.id, fail.name, "template 'bye.html'")
    )  # fmt: skip

    store.raw.delete(base_key(store, "t", newer.id))
    [group] = errors()
    assert group.sample == ErrorSample(old.id, fail.name, "template 'welcome.html'\nnot found")
    [whole] = run(connections.client(), list_errors(home(), ["default"], 5, group.fingerprint)).groups
    assert whole.sample
    assert whole.sample.traceback.endswith("LookupError: template 'welcome.html'\nnot found\n")

    store.raw.hset(base_key(store, "t", old.id), Field.fingerprint, "ab")  # it has failed with another error since
    assert errors()[0].sample is None


def test_errors_of_all_queues_are_listed_newest_first_and_say_how_many_there_are(store: Store) -> None:
    for queue, moment in (("default", 1), ("mail", 3), ("video", 2)):
        fail.using(queue_name=queue).enqueue("no user")
        work_off(queue)
        index = queue_key(store, "errors", queue)
        store.raw.zadd(index, {store.raw.zrange(index, 0, 0)[0]: server_ms(store) + moment * 1_000})

    found = run(connections.client(), list_errors(home(), [], 2))

    assert ([group.queue for group in found.groups], found.total) == (["mail", "video"], 3)
    of_one = run(connections.client(), list_errors(home(), [], 5, found.groups[0].fingerprint))
    assert ([group.queue for group in of_one.groups], of_one.total) == (["mail", "video", "default"], 3)
    assert [bool(group.sample and group.sample.traceback) for group in of_one.groups] == [True, False, False]
    assert run(connections.client(), list_errors(home(), ["mail", "none"], 5, "0" * 16)).groups == []


def test_failures_are_counted_by_minute_for_an_hour(store: Store) -> None:
    fail.enqueue_many([(("no user",), {})] * 3)
    work_off()
    [group] = errors()
    key = queue_key(store, f"error:{group.fingerprint}")
    assert sum(count for _minute, count in group.minutes) == 3
    now = int(server_ms(store)) // 60_000
    stored = f"{now - 1}:7 {now - 2}:1 {now - 61}:5 {now - 90}:4"
    store.raw.hset(key, "minutes", stored)

    fail.enqueue("no user")
    work_off()

    [group] = errors()
    counts = [count for _minute, count in group.minutes]
    assert sum(counts) == 9
    assert counts[-1] == 1
    assert b":5" not in store.raw.hget(key, "minutes")
    for other in ("", "junk", f"{now + 500}:4"):  # a clock that was set back, another client
        store.raw.hset(key, "minutes", other)
        fail.enqueue("no user")
        work_off()
        assert [count for _minute, count in errors()[0].minutes] == [1], other


def test_outcomes_of_expired_leases_are_no_errors(store: Store) -> None:
    result = fail.enqueue()
    late = new_fetcher(worker="late")
    [job] = late.fetch("0", 1)
    end_lease(store, result.id)
    recover()

    settle_now(late, execute(job))

    assert errors() == []


def test_errors_are_kept_as_long_as_failed_tasks(store: Store, settings) -> None:
    taskqueue_settings(settings, FAILED_TTL=5_000)
    fail.enqueue()
    work_off()

    [group] = errors()

    for part in ("errors", f"error:{group.fingerprint}"):
        assert 4_900_000 < store.raw.pttl(queue_key(store, part)) <= 5_000_000
    store.raw.zadd(queue_key(store, "errors"), {"old": 1})
    recover()
    assert store.raw.zrange(queue_key(store, "errors"), 0, -1) == [group.fingerprint.encode()]


def test_errors_without_a_record_are_omitted(store: Store) -> None:
    settle_with("aa", "bb")
    store.raw.delete(queue_key(store, "error:aa"))

    assert [group.fingerprint for group in errors()] == ["bb"]


def test_the_latest_hundred_errors_are_kept(redis_server: Store) -> None:
    settle_with(*[f"{number:04x}" for number in range(60)])
    for number in range(60):
        redis_server.raw.zadd(queue_key(redis_server, "errors"), {f"{number:04x}": number})
    settle_with(*[f"{number:04x}" for number in range(60, 120)])

    assert redis_server.raw.zcard(queue_key(redis_server, "errors")) == 100
    assert redis_server.raw.zscore(queue_key(redis_server, "errors"), f"{19:04x}") is None
    kept = redis_server.raw.keys(queue_key(redis_server, "error:*"))
    assert len(kept) == len(get_queue("default").errors(limit=100)) == 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no user 17", "no user #"),
        ("took 3.5 s at 12:04:31", "took # s at #"),
        ("key 'a b' and \"c\"", "key '…' and '…'"),
        ("‘x’ “y”", "'…' '…'"),
        ("to ada@example.com failed", "to …@… failed"),
        ("id 550e8400-e29b-41d4-a716-446655440000 gone", "id # gone"),
        ("object at 0x7f3a2b", "object at #"),
        ("hash deadbeef01 and word facade", "hash # and word facade"),
        ("\n first line\nsecond line", "first line"),
        ("", ""),
        ("x" * 1_000, "x" * 300),
    ],
)
def test_variable_parts_of_a_text_are_removed(text: str, expected: str) -> None:
    assert fingerprints.normalize(text) == expected


def test_a_fingerprint_is_stable_across_processes_and_contains_its_parts() -> None:
    one, two = fingerprints.identify(failing("no 1")), fingerprints.identify(failing("no 2"))

    assert one == two
    assert len(one.fingerprint) == 16
    assert json.loads(one.description) == {
        "class": "builtins.LookupError",
        "location": f"{__name__}.failing",
        "text": "no #",
    }


def test_the_place_is_the_innermost_frame_of_project_code() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")

    assert json.loads(fingerprints.identify(caught.value).description)["location"] == (
        f"{__name__}.test_the_place_is_the_innermost_frame_of_project_code"
    )


def test_an_error_raised_outside_project_code_has_its_own_place(redis_server: Store) -> None:
    return_what_is_not_json.enqueue()
    work_off()

    [group] = errors()

    assert group.location == "django_redis_components.core.serialization.normalize"


def test_an_exception_without_traceback_has_no_place() -> None:
    assert fingerprints.location_of(None) == ""


def test_a_text_that_utf8_cannot_encode_is_recorded(store: Store) -> None:
    fail.enqueue("lone \ud800 half")
    work_off()

    assert [group.message for group in errors()] == [r"lone \ud800 half"]


def test_a_success_records_no_error(store: Store) -> None:
    add.enqueue(1, 2)
    work_off()

    assert errors() == []
