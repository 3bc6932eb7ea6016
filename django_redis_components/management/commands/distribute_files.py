"""`manage.py distribute_files`: publishes files to a channel, or receives those of a consumer into a directory."""

from __future__ import annotations

import dataclasses
import os
from argparse import ArgumentTypeError
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.core.decompression import CODECS as STREAM_CODECS
from django_redis_components.core.text import counted
from django_redis_components.files import FileChannel
from django_redis_components.files.channel import CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES
from django_redis_components.management import arguments
from django_redis_components.management.base import CommandResult, ExitCode, OperatorCommand, add_subcommands
from django_redis_components.management.jobs.file_distribution import (
    Distribution,
    publish_all,
    receive_all,
    total_bytes,
)
from django_redis_components.management.progress import byte_progress
from django_redis_components.management.tables import TextTable, escape_controls

MIB = 1024 * 1024
#: Seconds that `publish` waits for room, if --timeout is not given.
ROOM_TIMEOUT_S = 60.0
#: The codecs of `FileChannel.publish` by the values of --codec.
CODECS = {"auto": None, "none": "", **{codec: codec for codec in STREAM_CODECS if codec}}
#: Subcommands and their descriptions.
VERBS = {
    "publish": "publish files and directories to the consumers of a channel",
    "receive": "receive the files of one consumer into a directory",
}


class Command(OperatorCommand):
    """Publish files to a channel, or receive those of a consumer."""

    help = (
        "Publish files and directories to the consumers of a file channel, or receive the files of one consumer into a"
        " directory. Files of a directory are published under their path below it. A received file appears whole or"
        " not at all, and is then done; a command that was killed continues when it is started again.\n\nExit codes:"
        " 0 done; 1 some files were not published or received, with the reasons on standard error; 2 invalid arguments;"
        " 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        made = add_subcommands(parser, VERBS)
        for each in made.values():
            each.add_argument("channel", metavar="CHANNEL", help="name of the channel")
        _add_publish_options(made["publish"])
        receive = made["receive"]
        receive.add_argument("directory", type=_directory, metavar="DIRECTORY", help="where received files are written")
        receive.add_argument("--consumer", required=True, metavar="NAME", help="name of the consumer that receives")
        _add_timeout(receive, None, "the next file (default: without a limit")
        for each in made.values():
            _add_channel_options(each)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Publish or receive."""
        if options["verb"] == "publish":
            return _result(_publish(options), "published")
        return _result(self._receive(options), "received")

    def _receive(self, options: dict[str, Any]) -> Distribution:
        consumer = _channel(options, [options["consumer"]]).consumer(options["consumer"])
        with byte_progress("receive", None) as advance:
            return receive_all(consumer, options["directory"], options["timeout"], advance, self._print_failure)

    def _print_failure(self, name: str, reason: str) -> None:
        """Print why a file was not received. The command may run for weeks until it prints its result."""
        self.stderr.write(escape_controls(f"{name} was not received, and is tried again: {reason}"), self.style.WARNING)
        self.stderr.flush()


def _add_publish_options(parser: CommandParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and directories to publish")
    parser.add_argument(
        "--consumers",
        type=arguments.names,
        required=True,
        metavar="NAMES",
        help="names of all consumers, separated by commas",
    )
    parser.add_argument(
        "--codec",
        choices=CODECS,
        default="auto",
        help="how the lines of the files are compressed (default: auto, by their first bytes)",
    )
    _add_timeout(parser, ROOM_TIMEOUT_S, f"room for each file (default: {ROOM_TIMEOUT_S:g}")


def _add_timeout(parser: CommandParser, default: float | None, what: str) -> None:
    parser.add_argument(
        "--timeout",
        type=arguments.wait_seconds,
        default=default,
        metavar="SECONDS",
        help=f"seconds to wait for {what}; 0: do not wait)",
    )


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


def _publish(options: dict[str, Any]) -> Distribution:
    channel = _channel(options, options["consumers"])
    with byte_progress("publish", partial(total_bytes, options["paths"])) as advance:
        return publish_all(channel, options["paths"], options["timeout"], advance, CODECS[options["codec"]])


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
        raise CommandError(str(exc), returncode=ExitCode.INVALID_ARGUMENTS) from exc


def _result(done: Distribution, verb: str) -> CommandResult:
    rows = [(str(one["name"]), f"{one['bytes']:,}", str(one["sha256"])) for one in done.files]
    text = f"{verb.capitalize()}: {counted(done.count, 'file')} with {counted(done.bytes, 'byte')}."
    problem = ""
    if done.failed_count:
        reasons = "; ".join(f"{one['name']}: {one['reason']}" for one in done.failed[:5])
        more = f"; and {done.failed_count - 5:,} more" if done.failed_count > 5 else ""
        problem = f"Not {verb}: {counted(done.failed_count, 'file')}: {reasons}{more}"
    table = TextTable(("FILE", "BYTES", "SHA-256"), rows, frozenset({"BYTES"})) if rows else None
    return CommandResult(dataclasses.asdict(done), text, table, problem=problem)


def _directory(text: str) -> Path:
    path = Path(text)
    if not os.path.isdir(text):  # noqa: PTH112 - of Path it raises if the name is too long
        raise ArgumentTypeError(f"{text!r}: expected a directory that exists.")
    return path
