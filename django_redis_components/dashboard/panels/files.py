"""The panel of file channels: their byte budget, files, and the progress of the consumers."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core.gather import gather, raise_if_all_failed
from django_redis_components.core.observability.catalog import MAX_NAMES, names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.formats import listed, number, percent
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.not_read import not_read
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.files import ChannelInfo, ConsumerProgress, FileInfo
from django_redis_components.files.channel import FileChannel, info_flow

#: Channels that are read, and what is described of each: 4 commands, 1 for each consumer, 3 for each file.
MAX_CHANNELS, MAX_CONSUMERS, MAX_FILES = 3, 8, 3


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel.

    Attributes:
        using: connection alias.
        info: None if it could not be read; `note` says why.
        consumers: number of all consumers.
    """

    name: str
    using: str
    info: ChannelInfo | None
    consumers: int
    note: str = ""


class FilesPanel(Panel):
    """The file channels that the site uses; those on other connections are listed without figures."""

    name = "files"
    title = gettext_lazy("File channels")
    page = "files"
    order = 30
    template_name = "django_redis_components/dashboard/panels/files.html"

    def read(self) -> Flow[list[ChannelRow]]:
        """Read the names and the channels in three round trips."""
        alias, registered = self.using(), objects((yield from names_flow(FileChannel.catalog_kind)), FileChannel)
        channels = [each for each in registered if each.using == alias][:MAX_CHANNELS]
        outcomes = yield from gather([info_flow(each, MAX_FILES, MAX_CONSUMERS) for each in channels])
        raise_if_all_failed(outcomes)
        read = dict(zip(channels, outcomes, strict=True))
        return [
            _row(each, read[each].value, str(read[each].error or ""))
            if each in read
            else _row(each, None, not_read(each.using, alias, MAX_CHANNELS))
            for each in registered
        ]

    def context(self, value: list[ChannelRow]) -> dict[str, Any]:
        """Return the rows of both tables."""
        read = [row.info for row in value if row.info is not None]
        files = _FILES.context((info.name, file) for info in read for file in info.files)
        return {
            **_CHANNELS.context(value),
            "files": files["table"],
            "count": ListCount(len(value), len(value), is_least=len(value) >= MAX_NAMES),
            "file_count": ListCount(len(files["table"].rows), sum(info.file_count for info in read)),
        }


def _row(channel: FileChannel, info: ChannelInfo | None, note: str) -> ChannelRow:
    return ChannelRow(channel.name, channel.using, info, len(channel.consumers), note)


def _reserved(row: ChannelRow) -> Cell:
    info = row.info
    if info is None:
        return Cell(kind="alarming")
    facts = {
        "reserved": filesizeformat(info.reserved_bytes),
        "limit": filesizeformat(info.limit_bytes),
        "part": percent(info.reserved_bytes / info.limit_bytes),
    }
    return Cell(_("%(reserved)s of %(limit)s, %(part)s") % facts, "alarming" if info.waiting else "")


def _consumers(row: ChannelRow) -> str:
    if row.info is None:
        return ""
    texts = [
        _("%(consumer)s: %(count)s pending") % {"consumer": consumer, "count": number(pending)}
        for consumer, pending in row.info.pending.items()
    ]
    if row.consumers > len(texts):
        texts.append(_("%(count)s more") % {"count": number(row.consumers - len(texts))})
    return listed(texts)


def _note(row: ChannelRow) -> str:
    return row.note if row.info is None else _("Producers wait for room.") if row.info.waiting else ""


def _file_progress(file: FileInfo) -> str:
    return listed(_progress(file, each) for each in file.consumers) if file.is_ready else _("being published")


def _progress(file: FileInfo, progress: ConsumerProgress) -> str:
    if progress.is_done:
        return _("%(consumer)s: done") % {"consumer": progress.consumer}
    part = percent(progress.read / file.size if file.size else 0)
    return _("%(consumer)s: %(part)s") % {"consumer": progress.consumer, "part": part}


_CHANNELS: Table[ChannelRow] = Table(
    [
        Column("name", gettext_lazy("Name"), lambda row: row.name, "name"),
        Column("reserved", gettext_lazy("Reserved"), _reserved, "whole"),
        Column("files", gettext_lazy("Files"), lambda row: row.info.file_count if row.info else ""),
        Column("waiting", gettext_lazy("Waiting producers"), lambda row: row.info.waiting if row.info else ""),
        Column("consumers", gettext_lazy("Consumers"), _consumers, "whole"),
        Column("note", gettext_lazy("Note"), _note, "whole", has_label=False, skip_empty=True),
    ],
    empty=gettext_lazy("No file channel has been used yet."),
)
#: The rows are pairs of the name of a channel, and a file.
_FILES: Table[tuple[str, FileInfo]] = Table(
    [
        Column("name", gettext_lazy("File"), lambda row: row[1].name, "name"),
        Column("channel", gettext_lazy("Channel"), lambda row: row[0], "whole"),
        Column("size", gettext_lazy("Size"), lambda row: filesizeformat(row[1].size)),
        Column("progress", gettext_lazy("Progress"), lambda row: _file_progress(row[1]), "whole"),
    ]
)
