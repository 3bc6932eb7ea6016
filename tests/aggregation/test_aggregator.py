"""Counts of log lines: each once, over kills, lost replies, several processes, rotated and damaged files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import shutil
import threading
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.aggregation import (
    KeyMismatch,
    LogAggregator,
    LogEntry,
    LogFileChanged,
    NoRangesLoaded,
    PlaceKey,
)
from django_redis_components.core.decompression import zstd_module
from django_redis_components.geoip import IpLookup, IpRange, Place
from tests.aggregation.logs import DAYS, by_path, lines, plain_count, write_log
from tests.support import Proxy, Store, run_async, run_together


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments, blocks and batches of a few lines, so that short files have many of each."""
    for module in ("log_files", "cursor", "counting"):
        monkeypatch.setattr(f"django_redis_components.aggregation.{module}.SEGMENT_BYTES", 3_000)
    monkeypatch.setattr("django_redis_components.aggregation.log_text.BLOCK_BYTES", 700)
    monkeypatch.setattr("django_redis_components.aggregation.log_text.COMPRESSED_BLOCK_BYTES", 100)
    monkeypatch.setattr("django_redis_components.aggregation.batches.MAX_LINES", 7)
    for module in ("log_text", "log_files"):
        monkeypatch.setattr(f"django_redis_components.aggregation.{module}.WINDOW_BYTES", 300)


@pytest.fixture
def visits() -> LogAggregator:
    return LogAggregator("visits", key=by_path)


def counted(visits: LogAggregator) -> Counter[tuple[date, str]]:
    return Counter({(day, key): count for day in DAYS for key, count in visits.totals(day).items()})


@pytest.mark.contract
@pytest.mark.usefixtures("small_parts")
def test_file_is_counted_once_and_equals_a_plain_count(store: Store, visits: LogAggregator, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 500)
    expected = plain_count(log.read_text())

    first, second = visits.add_file(log), visits.add_file(log)

    assert (first.lines, first.lines + first.bad) == (expected.total(), 500)
    assert (second.lines, second.bad, second.error) == (0, 0, "")
    assert counted(visits) == expected
    assert visits.count(None, *DAYS[::2]) == expected.total()
    keys = store.keys()
    assert all(0 < store.raw.ttl(key) <= 400 * 86_400 for key in keys)
    [state] = visits.files()
    assert (state.name, state.lines, state.bad) == (str(log), first.lines, first.bad)


def test_file_whose_name_is_no_text_is_counted_and_recognized(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log = write_log(Path(os.fsdecode(bytes(tmp_path) + b"/access\xff.log")), 20)

    first, second = visits.add_file(log), visits.add_file(log)
    copy = visits.add_file(shutil.copy(log, tmp_path / "copy.log"))

    assert (first.lines, second.lines, copy.lines) == (plain_count(log.read_text()).total(), 0, 0)
    assert {Path(state.name).name for state in visits.files()} == {"access\N{REPLACEMENT CHARACTER}.log", "copy.log"}


@pytest.mark.contract
@pytest.mark.usefixtures("small_parts")
def test_async_methods_behave_like_the_sync_ones(store: Store, visits: LogAggregator, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 200)
    expected = plain_count(log.read_text())
    of_day = Counter({key: count for (day, key), count in expected.items() if day == DAYS[0]})

    async def scene() -> list[Any]:
        report = await visits.aadd_file(log)
        return [
            report.lines,
            await visits.acount("/", DAYS[0]),
            await visits.aseries(None, DAYS[0]),
            await visits.atotals(DAYS[0]),
            (await visits.atop(DAYS[0], limit=1))[0][1],
            len(await visits.afiles()),
        ]

    assert run_async(scene) == [
        expected.total(),
        of_day["/"],
        {DAYS[0]: of_day.total()},
        of_day,
        max(of_day.values()),
        1,
    ]


@pytest.mark.usefixtures("small_parts")
def test_second_file_of_a_day_is_added_not_overwritten(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    logs = [write_log(tmp_path / f"{seed}.log", 100, seed) for seed in range(3)]

    for log in logs:
        visits.add_file(log)

    assert counted(visits) == plain_count(*(log.read_text() for log in logs))
    assert visits.top(DAYS[0], DAYS[2], limit=2) == visits.top(DAYS[0], DAYS[2])[:2]


@pytest.mark.usefixtures("small_parts")
def test_growing_file_is_continued_and_its_incomplete_line_is_left(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    text = "".join(f"{line}\n" for line in lines(120))
    log = tmp_path / "access.log"

    for end in (40, 1_000, 3_000, 3_001, 9_000, len(text)):
        log.write_text(text[:end]) if not log.exists() else append(log, text[log.stat().st_size : end])
        report = visits.add_file(log)
        assert counted(visits) == plain_count(text[: text.rindex("\n", 0, end) + 1] if "\n" in text[:end] else "")
        assert report.incomplete == end - (text[:end].rindex("\n") + 1 if "\n" in text[:end] else 0)


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("counted_lines", [30, 120, 300])
def test_renamed_copied_and_compressed_files_are_recognized(
    redis_server: Store, visits: LogAggregator, tmp_path: Path, counted_lines: int
) -> None:
    text = "".join(f"{line}\n" for line in lines(300))
    log = tmp_path / "access.log"
    log.write_text("".join(f"{line}\n" for line in list(lines(300))[:counted_lines]))
    visits.add_file(log)
    log.write_bytes(text.encode())  # the same inode

    visits.add_file(log.rename(tmp_path / "access.log.1"))
    shutil.copy(tmp_path / "access.log.1", tmp_path / "copy.log")
    half = text.index("\n", len(text) // 2) + 1
    compressed = gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode())
    (tmp_path / "access.log.2.gz").write_bytes(compressed)
    again = [visits.add_file(tmp_path / name).lines for name in ("copy.log", "access.log.2.gz")]

    assert again == [0, 0]
    assert counted(visits) == plain_count(text)


@pytest.mark.usefixtures("small_parts")
def test_copy_that_continues_a_counted_file_is_continued(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    text = "".join(f"{line}\n" for line in lines(300))
    log = tmp_path / "access.log"
    log.write_text(text[: text.index("\n", 5_000) + 1])
    visits.add_file(log)

    path = tmp_path / "access.log.1.gz"
    path.write_bytes(gzip.compress(text[:9_000].encode()) + gzip.compress(text[9_000:].rstrip("\n").encode()))
    visits.add_file(path)

    assert counted(visits) == plain_count(text)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("is_gzip", [False, True])
def test_another_file_with_the_same_first_line_is_counted_too(
    redis_server: Store, visits: LogAggregator, tmp_path: Path, is_gzip: bool
) -> None:
    texts = []
    for seed in (1, 2):
        texts.append("".join(f"{line}\n" for line in [*list(lines(2))[:1], *lines(100, seed)]))
        data = texts[-1].encode()
        (tmp_path / f"{seed}.log").write_bytes(gzip.compress(data) if is_gzip else data)
        visits.add_file(tmp_path / f"{seed}.log")

    assert counted(visits) == plain_count(*texts)


@pytest.mark.usefixtures("small_parts")
def test_two_callers_on_one_file_count_each_line_once(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 600)

    reports = run_together(4, lambda: visits.add_file(log))

    expected = plain_count(log.read_text())
    assert sum(report.lines for report in reports) == expected.total()
    assert counted(visits) == expected


@pytest.mark.usefixtures("small_parts")
def test_lost_replies_double_nothing(proxy: Proxy, tmp_path: Path) -> None:
    visits = LogAggregator("visits", key=by_path, using="proxied")
    log = write_log(tmp_path / "access.log", 300)
    proxy.drop_random(0.2, seed=7)

    lines_counted = 0
    for _ in range(50):
        try:
            lines_counted += visits.add_file(log).lines
        except ConnectionError:
            continue
        break
    proxy.drop_random(0)

    assert proxy.dropped > 5
    assert counted(visits) == plain_count(log.read_text())


@pytest.mark.usefixtures("small_parts")
def test_lost_reply_is_repeated_and_the_report_is_exact(proxy: Proxy, tmp_path: Path) -> None:
    visits = LogAggregator("visits", key=by_path, using="proxied")
    log = write_log(tmp_path / "access.log", 100)
    proxy.drop_next_reply(after=b"2026101", times=3)

    report = visits.add_file(log)

    assert proxy.dropped == 3
    assert report.lines == visits.count(None, *DAYS[::2]) == plain_count(log.read_text()).total()


@pytest.mark.usefixtures("small_parts")
def test_torn_gzip_is_reported_and_its_lines_before_are_counted(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    text = "".join(f"{line}\n" for line in lines(400))
    data = gzip.compress(text.encode())
    path = tmp_path / "access.log.gz"
    path.write_bytes(data[: len(data) // 2])

    torn = visits.add_file(path)

    assert torn.error == "the data end before the end of the stream"
    assert 0 < torn.lines < 300
    with path.open("r+b") as file:  # the rest arrives
        file.write(data)
    assert visits.add_file(path).error == ""
    assert counted(visits) == plain_count(text)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_torn_file_loses_no_complete_line_of_its_last_block(
    redis_server: Store, visits: LogAggregator, tmp_path: Path, codec: str
) -> None:
    text = "".join(f"{line}\n" for line in lines(4_000))
    data = (gzip if codec == "gzip" else zstd_module()).compress(text.encode())
    path = tmp_path / "access.log.gz"
    path.write_bytes(data[:-20])

    torn = visits.add_file(path)

    assert torn.error == "the data end before the end of the stream"
    if codec == "gzip":  # a frame of zstd is decompressed in blocks of 128 KiB
        assert torn.lines + torn.bad > 3_900
    path.write_bytes(data)
    assert visits.add_file(path).error == ""
    assert counted(visits) == plain_count(text)


@pytest.mark.parametrize("module", [bz2, lzma], ids=["bzip2", "xz"])
def test_log_is_counted_once_before_and_after_it_is_compressed(
    redis_server: Store, visits: LogAggregator, tmp_path: Path, module: Any
) -> None:
    log, packed = write_log(tmp_path / "access.log", 100), tmp_path / "access.log.1"
    packed.write_bytes(module.compress(log.read_bytes()))

    reports = [visits.add_file(path) for path in (log, packed)]

    assert [report.lines + report.bad for report in reports] == [100, 0]
    assert counted(visits) == plain_count(log.read_text())


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("nulls", [10, 2_000, 70_000])
def test_null_bytes_of_a_truncated_log_are_no_part_of_a_line(
    redis_server: Store, tmp_path: Path, nulls: int, is_compressed: bool
) -> None:
    text = "".join(f"{line}\n" for line in lines(40))
    half = text.index("\n", len(text) // 2) + 1
    written = ("\0" * nulls + text[:half] + "\0" * nulls + text[half:] + "\0" * nulls).encode()
    log = tmp_path / ("access.log.gz" if is_compressed else "access.log")
    log.write_bytes(gzip.compress(written) if is_compressed else written)
    addresses = LogAggregator("addresses", key=lambda entry: entry.address)

    report = addresses.add_file(log)

    assert report.bad == 0

    assert report.lines == plain_count(text).total()
    assert {key for day in DAYS for key in addresses.totals(day) if not re.fullmatch(r"[\d.]+", key)} == set()


def test_logs_of_two_hosts_with_the_same_first_lines_are_counted_apart(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    probes = "".join(f"{line}\n" for line in lines(12, seed=9))
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text(probes)
    visits.add_file(first)
    second.write_text(probes + "".join(f"{line}\n" for line in lines(100, seed=1)))
    visits.add_file(second)
    append(first, "".join(f"{line}\n" for line in lines(110, seed=2)))

    again = [visits.add_file(log) for log in (first, second)]

    assert [report.lines + report.bad for report in again] == [110, 0]
    assert counted(visits) == plain_count(first.read_text(), second.read_text())


@pytest.mark.parametrize("counted_lines", [5, 100])
def test_rotated_and_compressed_log_is_recognized_whatever_was_counted_of_it(
    redis_server: Store, visits: LogAggregator, tmp_path: Path, counted_lines: int
) -> None:
    log = write_log(tmp_path / "access.log", counted_lines)
    visits.add_file(log)
    append(log, "".join(f"{line}\n" for line in lines(20, seed=1)))
    text = log.read_text()
    (tmp_path / "access.log.1.gz").write_bytes(gzip.compress(text.encode()))
    log.unlink()

    reports = [visits.add_file(tmp_path / "access.log.1.gz") for _ in range(2)]

    assert [report.lines + report.bad for report in reports] == [20, 0]
    assert counted(visits) == plain_count(text)


def test_copy_that_was_counted_further_than_its_original_is_not_counted_again(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 100)
    visits.add_file(log)
    append(log, "".join(f"{line}\n" for line in lines(50, seed=1)))
    visits.add_file(shutil.copy(log, tmp_path / "backup.log"))
    append(log, "".join(f"{line}\n" for line in lines(7, seed=2)))

    report = visits.add_file(log)

    assert report.lines + report.bad == 7
    assert counted(visits) == plain_count(log.read_text())


def test_rewritten_file_raises_and_is_counted_after_it_was_forgotten(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    first_lines = list(lines(40))
    log = tmp_path / "access.log"
    log.write_text("".join(f"{line}\n" for line in first_lines))
    visits.add_file(log)
    text = "".join(f"{line}\n" for line in [*first_lines[:20], *lines(100, seed=5)])
    log.write_text(text)

    with pytest.raises(LogFileChanged, match="truncated or rewritten with the same first lines"):
        visits.add_file(log)
    visits.recount_file(log)

    report = visits.add_file(log)
    assert report.lines + report.bad == 120


def test_new_log_with_the_banner_and_inode_of_a_removed_one_is_another_file(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log, texts = tmp_path / "access.log", []
    for seed in range(3):
        texts.append("# access log\n" + "".join(f"{line}\n" for line in lines(60 - 20 * seed, seed=seed)))
        log.write_text(texts[-1])  # the same inode
        visits.add_file(log)

    assert counted(visits) == plain_count(*texts)


def test_copies_are_recognized_after_many_rotations_with_one_banner(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    texts = ["# access log\n" + "".join(f"{line}\n" for line in lines(10, seed=seed)) for seed in range(20)]
    for number, text in enumerate(texts):
        log = tmp_path / f"access.log.{number}"
        log.write_text(text)
        visits.add_file(log)
        compressed = tmp_path / f"access.log.{number}.gz"
        compressed.write_bytes(gzip.compress(text.encode()))
        log.unlink()
        visits.add_file(compressed)

    for number in range(20):
        visits.add_file(tmp_path / f"access.log.{number}.gz")

    assert counted(visits) == plain_count(*texts)


def test_lines_of_a_wrong_format_are_not_marked_as_counted(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 50)

    wrong = visits.add_file(log, format="caddy")

    assert (wrong.lines, wrong.bad, wrong.uncounted) == (0, 0, 50)
    assert redis_server.keys() == []
    visits.add_file(log)
    assert counted(visits) == plain_count(log.read_text())


def test_file_of_mostly_bad_lines_is_counted_if_that_is_accepted_or_others_were_counted_before(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log, known = tmp_path / "junk.log", write_log(tmp_path / "access.log", 50)
    log.write_text("junk\n" * 30 + f"{next(lines(1))}\n")
    visits.add_file(known)
    append(known, "junk\n" * 30)

    reports = [visits.add_file(log, accept_bad=True), visits.add_file(known)]

    assert [(report.lines, report.bad, report.uncounted) for report in reports] == [(1, 30, 0), (0, 30, 0)]


@pytest.mark.contract
def test_delete_removes_all_keys(store: Store, visits: LogAggregator, tmp_path: Path) -> None:
    for seed in range(3):
        visits.add_file(write_log(tmp_path / f"{seed}.log", 50, seed))

    visits.delete()

    assert store.keys() == []
    visits.delete()


def test_places_are_not_counted_without_ranges(redis_server: Store, tmp_path: Path) -> None:
    visits, log = LogAggregator("places"), write_log(tmp_path / "access.log", 50)

    with pytest.raises(NoRangesLoaded, match=r"^No ranges 'default' are loaded: all places would be unknown"):
        visits.add_file(log)

    assert redis_server.keys() == []


def test_places_are_not_counted_if_a_load_of_an_earlier_version_has_left_no_ranges(
    redis_server: Store, tmp_path: Path
) -> None:
    base = f"{redis_server.prefix}:geoip:{{default}}"
    redis_server.raw.hset(base, mapping={"generation": "a", "ranges": 0, "blocks": 0, "source": "", "loaded_at": 1})

    with pytest.raises(NoRangesLoaded):
        LogAggregator("places").add_file(write_log(tmp_path / "access.log", 50))


def test_places_are_not_counted_if_the_ranges_are_removed_meanwhile(redis_server: Store, tmp_path: Path) -> None:
    places = IpLookup(source="ranges")
    places.rebuild([IpRange("8.0.0.0", "8.255.255.255", Place("US"))])
    visits = LogAggregator("places")
    log = write_log(tmp_path / "access.log", 50)

    with pytest.raises(NoRangesLoaded):
        visits.add_file(log, progress=lambda _: places.delete())

    assert visits.files() == []


def test_counts_of_another_key_are_refused(redis_server: Store, visits: LogAggregator, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 50)
    visits.add_file(log)
    append(log, f"{next(lines(1))}\n")
    problem = (
        "The aggregator 'visits' counts by 'tests.aggregation.logs.by_path', and not by 'status'. Nothing was counted."
        " Use another name, or key_name='tests.aggregation.logs.by_path' if the function was only renamed, or delete"
        " the counts."
    )

    with pytest.raises(KeyMismatch, match=f"^{re.escape(problem)}$"):
        LogAggregator("visits", key=lambda entry: str(entry.status), key_name="status").add_file(log)

    renamed = LogAggregator("visits", key=lambda entry: entry.path, key_name="tests.aggregation.logs.by_path")
    assert renamed.add_file(log).lines == 1


def test_async_counting_reads_the_file_outside_of_the_event_loop(redis_server: Store, tmp_path: Path) -> None:
    threads = set()

    def key_of_a_thread(entry: LogEntry) -> str:
        threads.add(threading.current_thread())
        return entry.path

    async def scene() -> None:
        await LogAggregator("visits", key=key_of_a_thread).aadd_file(write_log(tmp_path / "access.log", 50))
        assert threading.current_thread() not in threads

    run_async(scene)
    assert threads


@pytest.mark.parametrize("is_gzip", [False, True])
def test_skipped_bytes_are_reported_as_read(
    redis_server: Store, visits: LogAggregator, tmp_path: Path, is_gzip: bool
) -> None:
    log = write_log(tmp_path / "access.log", 100)
    if is_gzip:
        log.write_bytes(gzip.compress(log.read_bytes()))
    sums = []

    for _ in range(2):
        counts: list[int] = []
        visits.add_file(log, progress=counts.append)
        sums.append(sum(counts))

    assert sums == [log.stat().st_size] * 2


def test_bad_lines_are_counted_and_named_by_their_offsets(
    redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    good = '8.8.8.8 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1'
    log = tmp_path / "access.log"
    log.write_bytes(
        b"\n".join([good.encode(), b"junk", b"x" * 100_000, b"\xff" * 3_000_000, *[good.encode()] * 4, b"", b"cut"])
    )

    report = visits.add_file(log)

    start = len(good) + 1
    assert (report.lines, report.bad, report.incomplete) == (5, 4, 3)
    assert report.examples == [start, start + 5, start + 100_006]
    assert counted(visits) == {(DAYS[0], "/"): 5}
    assert visits.files()[0].bad == 4


@pytest.mark.parametrize("content", [b"", b"no newline", gzip.compress(b"")], ids=["empty", "incomplete", "gzip"])
def test_file_without_a_line_is_no_error(
    content: bytes, redis_server: Store, visits: LogAggregator, tmp_path: Path
) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(content)

    report = visits.add_file(log)

    assert (report.lines, report.bad, report.error) == (0, 0, "")
    assert redis_server.keys() == []


def test_truncated_file_and_missing_file_raise(redis_server: Store, visits: LogAggregator, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 100)
    visits.add_file(log)
    os.truncate(log, 2_000)

    with pytest.raises(LogFileChanged, match=r"access.log' has 2,000 bytes, and lacks the text up to byte [\d,]+"):
        visits.add_file(log)
    with pytest.raises(FileNotFoundError):
        visits.add_file(tmp_path / "no.log")


@pytest.mark.usefixtures("redis_server", "small_parts")
def test_a_log_that_grows_while_it_is_read_is_counted_without_an_error(tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 5)
    added = iter(lines(3, seed=1))

    def key_of_a_growing_log(entry: LogEntry) -> str:
        if (line := next(added, None)) is not None:
            with log.open("a") as file:
                file.write(f"{line}\n")
        return by_path(entry)

    visits = LogAggregator("visits", key=key_of_a_growing_log)

    reports = [visits.add_file(log) for _ in range(3)]

    assert sum(report.lines + report.bad for report in reports) == 8
    assert counted(visits) == plain_count(log.read_text())


def test_requests_are_counted_by_place(redis_server: Store, tmp_path: Path) -> None:
    lookup = IpLookup("test", source="ranges")
    paris = Place("FR", "Île-de-France", "Paris")
    lookup.rebuild([IpRange("8.0.0.0", "8.255.255.255", Place("US")), IpRange("90.0.0.0", "90.255.255.255", paris)])
    log = write_log(tmp_path / "access.log", 300)
    firsts = Counter(
        line.split(".")[0] for line in log.read_text().splitlines() if '"GET /' in line and " - - [1" in line
    )

    for level, key in (("country", "FR"), ("region", "FR/Île-de-France"), ("city", "FR/Île-de-France/Paris")):
        visits = LogAggregator(level, key=PlaceKey(level, lookup))  # type: ignore[arg-type]
        visits.add_file(log)
        assert visits.totals(DAYS[0], DAYS[2]) == {"US": firsts["8"], key: firsts["90"], "ZZ": firsts["91"]}


@pytest.mark.contract
def test_further_keys_of_a_day_are_counted_together(store: Store, tmp_path: Path) -> None:
    visits = LogAggregator("visits", key=by_path, max_keys=2)
    log = write_log(tmp_path / "access.log", 300)

    visits.add_file(log)

    totals = visits.totals(DAYS[0])
    assert len(totals) == 3
    assert "__other__" in totals
    assert sum(totals.values()) == visits.count(None, DAYS[0])


def test_long_and_empty_keys_are_kept_apart(redis_server: Store, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    paths = ["/" + "é" * 300 + end for end in "ab"]
    log.write_text("".join(f'8.8.8.8 - - [10/Oct/2026:13:55:36 +0000] "{p}" 200 1\n' for p in [*paths, ""]))
    keys = iter([*paths, ""])
    visits = LogAggregator("visits", key=lambda _: next(keys))

    visits.add_file(log)

    totals = visits.totals(DAYS[0])
    assert sorted(map(len, totals)) == [1, 113, 113]
    assert totals["-"] == 1
    assert visits.count(paths[0], DAYS[0]) == 1


def test_requests_without_a_key_are_not_counted(redis_server: Store, tmp_path: Path) -> None:
    visits = LogAggregator("visits", key=lambda entry: None if entry.path == "/" else entry.path)

    report = visits.add_file(write_log(tmp_path / "access.log", 300))

    assert "/" not in visits.totals(*DAYS[::2])
    assert visits.count(None, *DAYS[::2]) < report.lines


@pytest.mark.usefixtures("small_parts")
def test_marks_that_were_deleted_meanwhile_lose_no_line(redis_server: Store, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 300)
    seen = []

    def delete_once(entry: Any) -> str:
        seen.append(entry)
        if len(seen) == 200:
            redis_server.delete_keys()
        return by_path(entry)

    visits = LogAggregator("visits", key=delete_once)
    visits.add_file(log)
    visits.add_file(log)

    assert counted(visits) == plain_count(log.read_text())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: LogAggregator("a{b"), ValueError, "a{b"),
        (
            lambda: LogAggregator("v", key="path"),
            TypeError,
            "key='path': expected a function of a LogEntry, or a PlaceKey.",
        ),
        (lambda: LogAggregator("v", max_keys=0), ValueError, "max_keys=0: expected an integer from 1 to 100000."),
        (
            lambda: LogAggregator("v", key=PlaceKey(lookup=IpLookup(using="x"))),
            ValueError,
            "using='default': expected that",
        ),
        (lambda: PlaceKey("town"), ValueError, "level='town': expected one of 'country', 'region', 'city'."),
        (lambda: LogAggregator("v").top(DAYS[0], limit=0), ValueError, "limit=0: expected an integer from 1 to 1000."),
        (lambda: LogAggregator("v").files(limit=True), TypeError, "limit=True: expected an integer"),
        (
            lambda: LogAggregator("v").count(None, DAYS[1], DAYS[0]),
            ValueError,
            "end=2026-10-10 is before start=2026-10-11.",
        ),
        (
            lambda: LogAggregator("v").totals(date(2020, 1, 1), DAYS[0]),
            ValueError,
            "2020-01-01 to 2026-10-10 are 2475 days",
        ),
        (lambda: LogAggregator("v").totals("today"), TypeError, "start='today': expected a date."),
        (
            lambda: LogAggregator("v").add_file("x", format="w3c"),
            ValueError,
            "format='w3c': expected one of 'auto', 'common'",
        ),
    ],
)
def test_arguments_are_checked(call: Any, error: type[Exception], text: str, redis_server: Store) -> None:
    with pytest.raises(error) as raised:
        call()

    assert text in str(raised.value)


def test_day_of_a_datetime_is_its_date(redis_server: Store, visits: LogAggregator, tmp_path: Path) -> None:
    visits.add_file(write_log(tmp_path / "access.log", 50))

    assert visits.count(None, datetime(2026, 10, 10, 12, tzinfo=UTC)) == visits.count(None, DAYS[0]) > 0
