"""The panel of file channels: their byte budget, files, and the progress of the consumers."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core import conf
from django_redis_components.core.catalog import names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import number, percent
from django_redis_components.dashboard.gather import gather, raise_if_all_failed
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.not_read import not_read
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


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelLine:
    """A channel as texts."""

    name: str
    reserved: str
    files: str
    waiting: str
    consumers: str
    is_bad: bool
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class FileLine:
    """A file as texts."""

    channel: str
    name: str
    size: str
    progress: str


class FilesPanel(Panel):
    """The file channels that the site uses."""

    name = "files"
    title = gettext_lazy("File channels")
    page = "messaging"
    order = 30
    template_name = "django_redis_components/dashboard/panels/files.html"

    def using(self) -> str:
        """Return the alias of the dashboard; channels on other connections are listed without figures."""
        return conf.settings().dashboard.using

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
        return {
            "rows": [_channel_line(row) for row in value],
            "files": [_file_line(info.name, file) for info in read for file in info.files],
        }

    def data(self, value: list[ChannelRow]) -> list[dict[str, Any]]:
        """Return the channels."""
        return [dataclasses.asdict(row) for row in value]


def _row(channel: FileChannel, info: ChannelInfo | None, note: str) -> ChannelRow:
    return ChannelRow(channel.name, channel.using, info, len(channel.consumers), note)


def _channel_line(row: ChannelRow) -> ChannelLine:
    info = row.info
    if info is None:
        return ChannelLine(row.name, "", "", "", "", is_bad=True, note=row.note)
    return ChannelLine(
        name=row.name,
        reserved=_("%(reserved)s of %(limit)s, %(part)s")
        % {
            "reserved": filesizeformat(info.reserved_bytes),
            "limit": filesizeformat(info.limit_bytes),
            "part": percent(info.reserved_bytes / info.limit_bytes),
        },
        files=number(info.file_count),
        waiting=number(info.waiting),
        consumers=_consumers(info, row.consumers),
        is_bad=bool(info.waiting),
        note=_("Producers wait for room.") if info.waiting else "",
    )


def _consumers(info: ChannelInfo, count: int) -> str:
    texts = [
        _("%(consumer)s: %(count)s pending") % {"consumer": consumer, "count": number(pending)}
        for consumer, pending in info.pending.items()
    ]
    if count > len(texts):
        texts.append(_("%(count)s more") % {"count": number(count - len(texts))})
    return ", ".join(texts)


def _file_line(channel: str, file: FileInfo) -> FileLine:
    if file.is_ready:
        progress = ", ".join(_progress(file, each) for each in file.consumers)
    else:
        progress = _("being published")
    return FileLine(channel, file.name, filesizeformat(file.size), progress)


def _progress(file: FileInfo, progress: ConsumerProgress) -> str:
    if progress.is_done:
        return _("%(consumer)s: done") % {"consumer": progress.consumer}
    part = percent(progress.read / file.size if file.size else 0)
    return _("%(consumer)s: %(part)s") % {"consumer": progress.consumer, "part": part}
