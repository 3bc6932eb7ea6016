"""Names of users and chats that the site's function returns for their ids: ``DASHBOARD["NAMES"]``.

The function runs in a separate thread, because a page must not wait for it: after `LIMIT_S` the page shows the ids.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from django.db import connections
from django.utils.module_loading import import_string

from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.exception_text import safe_repr
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable, one_line

logger = guarded_logger("django_redis_components.dashboard")

#: What ids are of.
Kind = Literal["user", "chat"]
#: Seconds for which a page waits for the names of all kinds.
LIMIT_S = 1.0
#: Calls at the same time in this process. While as many are late, pages show ids at once.
MAX_CALLS = 4
#: Characters of a name.
MAX_NAME = 80

_free_calls = threading.BoundedSemaphore(MAX_CALLS)


class Names:
    """Names of the ids of a page."""

    def __init__(self, found: Mapping[tuple[str, str], str] | None = None) -> None:
        self._found = found or {}

    def name_of(self, kind: Kind, id_: str) -> str:
        """Return the name of an id; "" without one."""
        return self._found.get((kind, id_), "")

    def text_of(self, kind: Kind, id_: str) -> str:
        """Return the name with the id behind it, or the id."""
        name = self.name_of(kind, id_)
        return f"{name} ({id_})" if name else id_


def find_names(ids: Mapping[Kind, Iterable[str]]) -> Names:
    """Return the names of ids, by one call of the site's function for each kind, at the same time.

    An id has no name without the setting, and if the function does not know it, raises, or takes longer than `LIMIT_S`.
    """
    path, found = conf.settings().dashboard.names, dict[tuple[str, str], str]()
    wanted = {kind: list(dict.fromkeys(id_ for id_ in given if id_)) for kind, given in ids.items()}
    if path is None:
        return Names(found)
    deadline = time.monotonic() + LIMIT_S
    for call in [_Call(path, kind, given) for kind, given in wanted.items() if given]:
        found.update({(call.kind, id_): name for id_, name in call.names(deadline).items()})
    return Names(found)


class _Call:
    """A call of the function in a thread. A late call ends by itself, and its names are dropped."""

    def __init__(self, path: str, kind: Kind, ids: list[str]) -> None:
        self.kind, self._path, self._found = kind, path, dict[str, str]()
        self._thread: threading.Thread | None = None
        if not _free_calls.acquire(blocking=False):
            _warn(kind, "%s has not returned from earlier calls, so ids are shown.", path)
            return
        context, args = contextvars.copy_context(), (_run, path, kind, ids, self._found)
        thread = threading.Thread(target=context.run, args=args, name="redis-components-names", daemon=True)
        try:
            thread.start()
        except RuntimeError as exc:  # the process has as many threads as it may
            _free_calls.release()
            _warn(kind, "%s(%r, …) cannot be called, so ids are shown: %s", path, kind, safe_repr(exc))
        else:
            self._thread = thread

    def names(self, deadline: float) -> dict[str, str]:
        """Wait for the names until the deadline."""
        if self._thread is None:
            return {}
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            text = "%s(%r, …) has not returned within %s s, so ids are shown."
            _warn(self.kind, text, self._path, self.kind, LIMIT_S)
            return {}
        return self._found


def _run(path: str, kind: Kind, ids: list[str], found: dict[str, str]) -> None:
    try:
        try:
            texts = _texts(import_string(path)(kind, ids), ids)
        finally:
            connections.close_all()  # those of this thread
        found.update(texts)
    except BaseException as exc:  # noqa: BLE001 - an error of a thread has no caller
        _warn(kind, "%s(%r, …) failed, so ids are shown: %s", path, kind, safe_repr(exc))
    finally:
        _free_calls.release()


def _warn(kind: Kind, text: str, *args: object) -> None:
    """Log a warning, once a minute for each kind: pages refresh every few seconds."""
    if should_log_failure(f"names of {kind}s"):
        logger.warning(text, *args)


def _texts(names: Any, ids: list[str]) -> dict[str, str]:
    """Return the names of known ids as one line of text each. A key may be another type than text, such as an int."""
    by_text = {str(key): name for key, name in names.items()}
    texts = {id_: one_line(encodable(str(by_text[id_]))).strip() for id_ in ids if by_text.get(id_) is not None}
    return {id_: text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…" for id_, text in texts.items() if text}
