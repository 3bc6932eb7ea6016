"""`manage.py distribute_files`: publishes files to a channel, or receives those of a consumer into a directory."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.files import FileChannel
from django_redis_components.files.channel import CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES
from django_redis_components.management import arguments
from django_redis_components.management.base import CommandResult, ExitCode, OperatorCommand, add_common
from django_redis_components.management.file_distribution import (
    Distribution,
    publish_all,
    receive_all,
    total_bytes,
)
from django_redis_components.management.progress import byte_progress
from django_redis_components.management.tables import TextTable, escape_controls

MIB = 1024 * 1024
#: Seconds to wait for room, if --timeout is not given.
ROOM_TIMEOUT_S = 60.0
#: The codecs of `FileChannel.publish` by the values of --codec.
CODECS = {"auto": None, "none": "", "gzip": "gzip", "zstd": "zstd"}


class Command(OperatorCommand):
    """Publish files to a channel, or receive those of a consumer."""

    help = (
        "Publish files and directories to the consumers of a file channel, or receive the files of one consumer into a"
        " directory. Files of a directory are published under their path below it. A received file appears whole or"
        " not at all, and is then done; a command that was killed continues when it is started again. Exit codes:"
        " 0 done; 1 some files were not published or received, with the reasons on standard error; 2 invalid arguments;"
        " 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("channel", metavar="CHANNEL", help="name of the channel")
        parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories to publish")
        parser.add_argument(
            "--consumers",
            type=arguments.names,
            metavar="NAMES",
            help="names of all consumers, separated by commas; required to publish",
        )
        parser.add_argument("--receive", metavar="DIRECTORY", help="receive files into this directory instead")
        parser.add_argument("--consumer", metavar="NAME", help="name of the consumer that receives")
        parser.add_argument(
            "--timeout",
            type=arguments.wait_seconds,
            metavar="SECONDS",
            help="seconds to wait for room for each file (default: 60), or for the next file to receive (default:"
            " without a limit); 0: do not wait",
        )
        _add_channel_options(parser)
        add_common(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Publish or receive."""
        if options["receive"] is None:
            return _result(_publish(options), "published")
        return _result(self._receive(options), "received")

    def _receive(self, options: dict[str, Any]) -> Distribution:
        if options["paths"] or options["consumers"]:
            raise _invalid("--receive takes no PATH and no --consumers.")
        if options["consumer"] is None:
            raise _invalid("--receive needs --consumer NAME.")
        directory = Path(options["receive"])
        if not directory.is_dir():
            raise _invalid(f"--receive {options['receive']!r}: expected a directory that exists.")
        consumer = _channel(options, [options["consumer"]]).consumer(options["consumer"])
        with byte_progress("receive", None) as advance:
            return receive_all(consumer, directory, options["timeout"], advance, self._print_failure)

    def _print_failure(self, name: str, reason: str) -> None:
        """Print why a file was not received. The command may run for weeks until it prints its result."""
        self.stderr.write(escape_controls(f"{name} was not received, and is tried again: {reason}"), self.style.WARNING)
        self.stderr.flush()


def _add_channel_options(parser: CommandParser) -> None:
    """Declare the options of the channel and its files."""
    parser.add_argument(
        "--limit",
        type=arguments.whole_number(1, 1024**2),
        default=256,
        metavar="MIB",
        help="most MiB of all files in the channel, the same for all producers; a larger file is refused"
        " (default: 256)",
    )
    parser.add_argument(
        "--ttl",
        type=arguments.seconds,
        default=86_400,
        metavar="SECONDS",
        help="seconds after which a file is removed, also if not all have received it (default: 86400)",
    )
    parser.add_argument(
        "--chunk-bytes",
        type=arguments.whole_number(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES),
        default=CHUNK_BYTES,
        metavar="BYTES",
        help=f"size of a chunk; a file has at most 20,000 (default: {CHUNK_BYTES})",
    )
    parser.add_argument(
        "--lease",
        type=arguments.seconds,
        default=30,
        metavar="SECONDS",
        help="seconds after which a producer that stopped in the middle counts as dead (default: 30)",
    )
    parser.add_argument(
        "--codec",
        choices=("auto", "none", "gzip", "zstd"),
        default="auto",
        help="how the lines of the files are compressed (default: auto, by their first bytes)",
    )


def _publish(options: dict[str, Any]) -> Distribution:
    if options["consumer"] is not None:
        raise _invalid("--consumer is for --receive; name all consumers by --consumers.")
    if not options["paths"] or not options["consumers"]:
        raise _invalid("Expected PATH and --consumers to publish, or --receive and --consumer.")
    channel = _channel(options, options["consumers"])
    timeout_s = ROOM_TIMEOUT_S if options["timeout"] is None else options["timeout"]
    with byte_progress("publish", partial(total_bytes, options["paths"])) as advance:
        return publish_all(channel, options["paths"], timeout_s, advance, CODECS[options["codec"]])


def _channel(options: dict[str, Any], consumers: list[str]) -> FileChannel:
    try:
        return FileChannel(
            options["channel"],
            consumers,
            limit_bytes=options["limit"] * MIB,
            chunk_bytes=options["chunk_bytes"],
            ttl=options["ttl"],
            lease=options["lease"],
            using=options["using"],
        )
    except ValueError as exc:
        raise _invalid(str(exc)) from exc


def _result(done: Distribution, verb: str) -> CommandResult:
    rows = [(str(one["name"]), f"{one['bytes']:,}", str(one["sha256"])) for one in done.files]
    text = f"{done.count:,} files with {done.bytes:,} bytes were {verb}."
    problem = ""
    if done.failed_count:
        reasons = "; ".join(f"{one['name']}: {one['reason']}" for one in done.failed[:5])
        more = f"; and {done.failed_count - 5:,} more" if done.failed_count > 5 else ""
        problem = f"{done.failed_count:,} files were not {verb}: {reasons}{more}"
    table = TextTable(("FILE", "BYTES", "SHA-256"), rows, frozenset({"BYTES"})) if rows else None
    return CommandResult(dataclasses.asdict(done), text, table, problem=problem)


def _invalid(text: str) -> CommandError:
    return CommandError(text, returncode=ExitCode.INVALID_ARGUMENTS)
