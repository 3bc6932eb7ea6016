"""Which record a log file has: its own, and those of files that it is a copy of."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from functools import partial
from itertools import count
from pathlib import Path

from django_redis_components.aggregation.log_files import LogFile, Mark
from django_redis_components.core.protocol import Batch, Flow, LocalIO, Read


@dataclasses.dataclass(frozen=True, slots=True)
class FileIdentity:
    """The records of a file.

    Attributes:
        id: of its record.
        family: ids of the files that it is a copy of: rotated, copied or compressed.
        is_proven: whether most lines that were counted of it are requests.
    """

    id: str
    family: tuple[str, ...]
    is_proven: bool


def identify(base: str, log: LogFile) -> Flow[FileIdentity]:
    """Find the records of a file.

    Its own has its first line and inode. If the file system has given the inode of a removed file to it, and both begin
    with the same line, further lines tell them apart, and it gets the next free id.
    """
    for number in count():
        file_id = f"{log.id}-{number}" if number else log.id
        head, lines, bad = yield Read("HMGET", f"{base}:file:{file_id}", "head", "lines", "bad")
        if head is None or log.begins_like(head.decode()):
            break
    members: list[bytes] = yield Read("ZREVRANGE", f"{base}:first:{log.first}", 0, -1)
    others = [each.decode() for each in members if each.decode() != file_id]
    fields = ("head", "name", "mark:0")
    records = (yield Batch([Read("HMGET", f"{base}:file:{each}", *fields) for each in others])) if others else []
    family = []
    for other, (other_head, name, mark) in zip(others, records, strict=True):
        if other_head is None or mark is None or not log.begins_like(other_head.decode()):
            continue
        if (yield LocalIO(partial(_is_copy, log, other, os.fsdecode(name), Mark.decode(mark)))):
            family.append(other)
    return FileIdentity(file_id, tuple(family), is_proven=int(lines or 0) > int(bad or 0))


def _is_copy(log: LogFile, other: str, name: str, mark: Mark) -> bool:
    """Return whether a file is a copy of another one, of which the text before a mark was counted.

    Logs of two hosts may begin with the same lines, such as the probes of a load balancer. So a short text is enough
    only if nothing follows in this file, or if the other file has vanished, as after a rotation.
    """
    if not log.has(mark):
        return False
    return not mark.is_short or log.ends_at(mark.offset) or not _still_has(name, other, mark)


def _still_has(name: str, file_id: str, mark: Mark) -> bool:
    """Return whether the file of a record is still at its path, with the text before a mark."""
    with contextlib.suppress(OSError, ImportError):
        if f"{Path(name).stat().st_ino:x}" == file_id.split("-")[1]:
            with LogFile(name) as log:
                return log.has(mark)
    return False
