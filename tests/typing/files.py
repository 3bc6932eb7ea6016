"""File channels."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from django_redis_components.files import FileChannel, PublishedFile


def right() -> None:
    channel = FileChannel("orders", ["billing"])
    assert_type(channel.publish(Path("orders.csv")), PublishedFile)
    for file in channel.consumer("billing").files(timeout=1):
        assert_type(file.read(), bytes)
        assert_type(list(file.lines()), list[str])


def wrong() -> None:
    FileChannel("orders")  # type: ignore[call-arg]
    channel = FileChannel("orders", ["billing"])
    channel.publish(b"orders.csv")  # type: ignore[arg-type]
    channel.consumer(1)  # type: ignore[arg-type]
