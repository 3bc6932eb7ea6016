"""What a task notes about itself while it runs: metadata of the site's own, and progress. One JSON field holds both."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from django_redis_components.core import serialization as arguments
from django_redis_components.core.protocol import Flow
from django_redis_components.taskqueue.store.scripts import SAVE_METADATA, base_key

#: Most bytes of JSON that a task may note; it is written whole each time.
MAX_BYTES = 64 * 1_024
#: Characters of a progress note that are kept.
MAX_NOTE = 500
#: Under which key progress stands. Keys that begin with an underscore are not the site's.
_PROGRESS = "_progress"


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How far a task has come: `done` of `total` (None: nobody knows), and a word about it."""

    done: float
    total: float | None = None
    note: str = ""

    @property
    def fraction(self) -> float | None:
        """From 0 to 1; None without a total."""
        return None if self.total is None else max(0.0, min(1.0, self.done / self.total))


def progress_of(done: Any, total: Any, note: Any) -> Progress:
    """Check what a task says of its progress.

    Raises:
        TypeError, ValueError: done or total is no finite number, total is not above 0, or the note is no text.
    """
    for name, value in (("done", done), ("total", total)):
        if value is None and name == "total":
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(f"{name}={value!r}: expected a number.")
        if not _is_finite(value) or (name == "total" and value <= 0):
            raise ValueError(f"{name}={value!r}: expected a finite number{' above 0' if name == 'total' else ''}.")
    if not isinstance(note, str):
        raise TypeError(f"note={note!r}: expected text.")
    return Progress(done, total, note[:MAX_NOTE])


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond 1.8e308, which has hundreds of digits
        return False


def metadata_of(value: Any) -> dict[str, Any]:
    """Metadata as JSON will give it back.

    Raises:
        TypeError, ValueError: it is no dict of JSON values, is larger than 64 KiB, or has a key that begins with
            an underscore.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"metadata={value!r}: expected a dict.")
    plain: dict[str, Any] = arguments.normalise(dict(value), "metadata")
    size = len(arguments.encode(plain))
    if size > MAX_BYTES:
        raise ValueError(f"metadata is {size:,} bytes of JSON: at most {MAX_BYTES:,} are kept.")
    for key in plain:
        if key.startswith("_"):
            raise ValueError(f"metadata has the key {key!r}: keys that begin with an underscore are reserved.")
    return plain


def encode(metadata: dict[str, Any], progress: Progress | None = None) -> bytes:
    """The field as it is stored."""
    return arguments.encode(metadata if progress is None else metadata | {_PROGRESS: dataclasses.astuple(progress)})


def decode(stored: bytes | None) -> tuple[dict[str, Any], Progress | None]:
    """Metadata and progress of a record."""
    found = arguments.decode(stored) if stored else {}
    progress = found.get(_PROGRESS)
    return {key: value for key, value in found.items() if not key.startswith("_")}, progress and Progress(*progress)


def save(task_id: str, token: str, text: bytes) -> Flow[bool]:
    """Write the field, if the task is still leased under this token. Returns whether it was."""
    kept = yield SAVE_METADATA(base=base_key(), id=task_id, token=token, text=text)
    return bool(kept)
