"""The formats of stored data: recorded by the process that starts first, and compared by each one that starts later."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest

from django_redis_components import __version__
from django_redis_components.core import stored_formats
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import StoredFormatTooNew
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.stored_formats import WRITTEN, StoredFormats, read_formats, record_formats
from tests.support import Store

CLIENT = connections.client


def formats_key(store: Store) -> str:
    return f"{store.prefix}:format:{{default}}"


def record() -> None:
    run(CLIENT(), record_formats("here"))


@pytest.mark.contract
def test_first_process_records_the_format_of_each_component_and_its_release(store: Store) -> None:
    record()

    stored = store.raw.hgetall(formats_key(store))
    assert stored == {name.encode(): f"{number} {__version__}".encode() for name, number in WRITTEN.items()}
    assert store.raw.ttl(formats_key(store)) == -1


def test_record_of_an_earlier_release_is_kept(store: Store) -> None:
    store.raw.hset(formats_key(store), mapping={"search": "1 0.0.9", "graph": "7 9.0"})

    record()

    stored = store.raw.hgetall(formats_key(store))
    assert (stored[b"search"], stored[b"graph"], stored[b"taskqueue"]) == (
        b"1 0.0.9",
        b"7 9.0",
        f"1 {__version__}".encode(),
    )


def test_later_process_writes_nothing(store: Store) -> None:
    record()
    store.raw.config_resetstat()

    record()

    sent = store.raw.info("commandstats")
    assert not {"cmdstat_hset", "cmdstat_hsetnx"} & set(sent)


@pytest.mark.contract
def test_newer_format_is_refused_and_nothing_is_written(store: Store) -> None:
    store.raw.hset(formats_key(store), mapping={"search": "2 1.3.0", "taskqueue": "4 2.0.1", "files": "1 1.0.0"})

    with pytest.raises(StoredFormatTooNew) as caught:
        record()

    assert str(caught.value) == (
        f"The data at here are newer than django-redis-components {__version__} can read:"
        " search has format 2, written by release 1.3.0 (this release reads up to 1);"
        " taskqueue has format 4, written by release 2.0.1 (this release reads up to 1)."
        " Install the release that has written them, or a newer one;"
        " to stay with this one, restore a backup from before the change."
    )
    assert [text.split()[0] for text in caught.value.newer] == ["search", "taskqueue"]
    assert store.raw.hlen(formats_key(store)) == 3
    assert str(copy.copy(caught.value)) == str(caught.value)


@pytest.mark.parametrize("value", [b"", b"two", b"-1 1.0", b"1.5 1.0", b"99999999999 2.0", b"\xff\x00"])
def test_format_that_cannot_be_read_is_refused(store: Store, value: bytes) -> None:
    store.raw.hset(formats_key(store), "search", value)

    with pytest.raises(StoredFormatTooNew, match=r"search has an unknown format '.*' \(this release reads up to 1\)"):
        record()


def test_release_raises_the_number_when_it_writes_a_newer_format(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    record()
    monkeypatch.setitem(WRITTEN, "search", 2)
    monkeypatch.setattr(stored_formats, "__version__", "1.3.0")

    record()

    stored = store.raw.hgetall(formats_key(store))
    assert (stored[b"search"], stored[b"taskqueue"]) == (b"2 1.3.0", f"1 {__version__}".encode())


def test_number_of_an_older_release_that_starts_at_the_same_time_is_raised(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> Flow[StoredFormats]:
        flow = record_formats("here")
        reply = yield next(flow)
        store.raw.hset(formats_key(store), "search", "1 0.9.0")
        with suppress(StopIteration):
            while True:
                reply = yield flow.send(reply)
        return StoredFormats({})

    monkeypatch.setitem(WRITTEN, "search", 2)

    run(CLIENT(), interrupted())

    assert store.raw.hget(formats_key(store), "search") == f"2 {__version__}".encode()


def test_release_that_reads_the_next_format_starts_beside_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.raw.hset(formats_key(store), "search", "2 1.3.0")
    monkeypatch.setitem(stored_formats.READ_AHEAD, "search", 2)

    record()

    assert store.raw.hget(formats_key(store), "search") == b"2 1.3.0"


def test_server_without_the_record_has_format_1(store: Store) -> None:
    stored = run(CLIENT(), read_formats())

    assert {stored.number(component) for component in WRITTEN} == {1}
    assert stored.newer() == []


def test_formats_are_those_of_the_prefix(store: Store, settings: Any) -> None:
    record()
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "PREFIX": f"{store.prefix}:other"}

    assert run(CLIENT(), read_formats()).record == {}
