"""`manage.py distribute_files`."""

from __future__ import annotations

import gzip
import io
import re
import signal
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.files import FileChannel
from django_redis_components.management.jobs.file_distribution import safe_path
from tests.management.support import command_data, refusal, run_command
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.support.proxy import Proxy


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with files."""
    (tmp_path / "source" / "2026").mkdir(parents=True)
    (tmp_path / "source" / "b.log").write_bytes(b"b" * 2_000_000)
    (tmp_path / "source" / "2026" / "a.log").write_text("a\n")
    (tmp_path / "source" / "empty").touch()
    return tmp_path / "source"


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.contract
def test_directory_reaches_the_directories_of_all_consumers(store: Store, source: Path, tmp_path: Path) -> None:
    published = command_data("distribute_files", "publish", "logs", str(source), "--consumers", "one,two")

    assert [each["name"] for each in published["files"]] == ["b.log", "empty", "2026/a.log"]
    assert (published["count"], published["bytes"], published["failed"]) == (3, 2_000_002, [])
    for name in ("one", "two"):
        target = tmp_path / name
        target.mkdir()
        arguments = (str(target), "--consumer", name, "--timeout", "0")
        received = command_data("distribute_files", "receive", "logs", *arguments)
        assert received["files"] == published["files"]
        assert contents(target) == contents(source)
    assert store.keys() == []


def test_files_are_listed_with_size_and_checksum(redis_server: Store, source: Path) -> None:
    shown = run_command("distribute_files", "publish", "logs", str(source / "2026" / "a.log"), "--consumers", "one")

    header, row, *_ = shown.splitlines()
    assert header.split() == ["FILE", "BYTES", "SHA-256"]
    assert row.split() == ["a.log", "2", "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"]
    assert shown.endswith("Published: 1 file with 2 bytes.\n")


def test_file_that_cannot_be_published_is_named_and_the_others_follow(redis_server: Store, source: Path) -> None:
    missing = str(source / "missing")

    problem = refusal("distribute_files", "publish", "logs", missing, str(source), "--consumers", "one", "--limit", "1")

    assert "Not published: 2 files: missing: [Errno 2] No such file or directory: " in problem
    assert "has 2,000,000 bytes; channel 'logs' accepts files of up to its limit_bytes=1,048,576." in problem
    assert FileChannel("logs", ["one"]).info().file_count == 2


def test_path_that_is_too_long_is_named(redis_server: Store) -> None:
    assert "File name too long" in refusal("distribute_files", "publish", "logs", "x" * 300, "--consumers", "a")


def test_empty_path_is_not_the_current_directory(
    redis_server: Store, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source)

    assert "Not published: 1 file: " in refusal("distribute_files", "publish", "logs", "", "--consumers", "a")


def test_full_channel_ends_the_command(redis_server: Store, source: Path) -> None:
    arguments = ("--consumers", "one", "--limit", "2", "--timeout", "0")
    run_command("distribute_files", "publish", "logs", str(source / "b.log"), *arguments)

    problem = refusal("distribute_files", "publish", "logs", str(source), *arguments)

    assert problem.startswith("Not published: 1 file: b.log: Channel 'logs' had no room for 2,000,000 bytes within")


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside", "link/outside", "."])
def test_name_that_leads_out_of_the_directory_is_refused(redis_server: Store, tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "link").symlink_to(tmp_path)
    (tmp_path / "x").write_text("x")
    FileChannel("logs", ["one"]).publish(tmp_path / "x", name=name)

    problem = refusal("distribute_files", "receive", "logs", str(target), "--consumer", "one", "--timeout", "0")

    assert f"Not received: 1 file: {name}: {name!r} is not a path below {str(target)!r}: not saved." in problem
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "x"]
    assert FileChannel("logs", ["one"]).info().pending == {"one": 1}


def test_name_below_the_directory_is_accepted(tmp_path: Path) -> None:
    assert safe_path(tmp_path, "a/b..c") == tmp_path.resolve() / "a" / "b..c"


def test_failure_is_printed_at_once_and_the_file_is_tried_again(
    redis_server: Store, children: Children, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    (target / "x").mkdir(parents=True)  # a directory in the place of the file
    (tmp_path / "x").write_text("x")
    channel = FileChannel("logs", ["one"])
    channel.publish(tmp_path / "x")
    waiting = children.call("tests.management.support:receive_files", str(target), "one")
    problem = "x was not received, and is tried again: [Errno 21] expected the path of a file"
    eventually(lambda: problem in waiting.output)

    (target / "x").rmdir()
    eventually(lambda: channel.info().file_count == 0)
    waiting.signal(signal.SIGTERM)

    assert waiting.wait() == 0
    assert (target / "x").read_text() == "x"
    assert waiting.output.count("is tried again") == 1
    assert '"failed_count": 0' in waiting.output


def test_options_of_the_channel_reach_it(redis_server: Store, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"x"))
    options = ("--consumers", "one", "--chunk-bytes", "1024", "--lease", "5", "--codec", "none")

    run_command("distribute_files", "publish", "logs", str(tmp_path / "x.gz"), *options)

    [file] = FileChannel("logs", ["one"]).consumer("one").files(timeout=0)
    assert file.codec == ""
    [record] = [key for key in redis_server.keys() if re.search(rb":file:\w+$", key)]  # noqa: SIM118
    assert redis_server.raw.hget(record, "chunk_bytes") == b"1024"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("publish", "logs"), "the following arguments are required: PATH, --consumers"),
        (("publish", "logs", "x", "--consumers", "a", "--lost", "a"), "unrecognized arguments: --lost"),
        (("receive", "logs", "."), "the following arguments are required: --consumer"),
        (("receive", "logs", "missing", "--consumer", "a"), "'missing': expected a directory that exists."),
        (("receive", "logs", "", "--consumer", "a"), "'': expected a directory that exists."),
        (("receive", "logs", "x" * 300, "--consumer", "a"), "': expected a directory that exists."),
    ],
)
def test_missing_and_other_arguments_are_refused(arguments: tuple[str, ...], text: str) -> None:
    assert text in refusal("distribute_files", *arguments)


def test_repeated_consumer_is_refused(redis_server: Store) -> None:
    problem = refusal("distribute_files", "publish", "logs", "x", "--consumers", "a,a", code=2)

    assert "consumers names 'a' twice." in problem


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--timeout", "-1"), "expected a number of seconds of at least 0, at most ten years."),
        (("--limit", "0"), "0: expected an integer from 1 to 1048576."),
        (("--ttl", "0"), "'0': expected a number of seconds above 0, at most ten years."),
        (("--consumers", "a,"), "name is empty: expected 1 to 200 bytes of text."),
    ],
)
def test_wrong_values_are_refused(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError) as raised:
        call_command("distribute_files", "publish", "logs", "x", *arguments, stdout=io.StringIO(), stderr=io.StringIO())

    assert text in str(raised.value)


def test_outage_has_exit_code_3(proxy: Proxy, source: Path) -> None:
    proxy.close()

    problem = refusal(
        "distribute_files", "publish", "logs", str(source), "--consumers", "one", "--using", "proxied", code=3
    )

    assert problem.startswith("Redis is unavailable: ")


def test_killed_command_continues(redis_server: Store, children: Children, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    channel = FileChannel("logs", ["one"])
    channel.publish(source / "b.log")
    words = ("distribute_files", "receive", "logs", str(target), "--consumer", "one")
    waiting = children.manage(*words)
    eventually((target / "b.log").exists)
    waiting.kill()
    channel.publish(source / "2026" / "a.log")

    run_command(*words, "--timeout", "0")

    assert contents(target) == {"b.log": b"b" * 2_000_000, "a.log": b"a\n"}
    assert channel.info().file_count == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_command_with_its_result(
    redis_server: Store, children: Children, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "x").write_text("x")
    target = tmp_path / "target"
    target.mkdir()
    channel = FileChannel("logs", ["one"])
    channel.publish(tmp_path / "x")
    waiting = children.manage("distribute_files", "receive", "logs", str(target), "--consumer", "one")
    eventually(lambda: channel.info().file_count == 0)

    waiting.signal(number)

    assert waiting.wait() == 0
    assert "Received: 1 file with 1 byte." in waiting.output
