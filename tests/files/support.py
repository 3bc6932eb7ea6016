"""What the tests of file channels share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django_redis_components.files import (
    FileChannel,
)
from tests.support import Store

CHUNK = 1_024


def new_channel(consumers: list[str] | None = None, limit_bytes: int = 100_000, **options: Any) -> FileChannel:
    return FileChannel("logs", consumers or ["a"], limit_bytes=limit_bytes, **({"chunk_bytes": CHUNK} | options))


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def chunk_keys(store: Store) -> list[bytes]:
    keys = store.keys()
    return [key for key in keys if re.search(rb":file:\w+:\d+$", key)]
