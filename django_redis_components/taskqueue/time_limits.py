"""The `timeout` option: how long a run may take."""

from __future__ import annotations

from typing import Any, NamedTuple

from django_redis_components.core import conf
from django_redis_components.core.units import Seconds, to_seconds

#: What the option may be: the soft limit; or the soft and the hard one, either of them None.
Timeout = Seconds | tuple[Seconds | None, Seconds | None]


class Limits(NamedTuple):
    """Seconds after the begin of a run: `soft_s` raises an exception in it, `hard_s` ends its process.

    Then it is tried again after `retry_ms`, or never: it has failed.
    """

    soft_s: float | None
    hard_s: float | None
    retry_ms: int | None = None


def validate(timeout: Any) -> None:
    """Raise TypeError or ValueError, naming what is accepted, unless the option can be used."""
    if timeout is not None:
        _seconds(timeout)


def limits_of(timeout: Any) -> Limits | None:
    """The limits that hold in this worker; None without any."""
    if timeout is None:
        return None
    soft_s, hard_s = _seconds(timeout)
    if not isinstance(timeout, list | tuple) and soft_s is not None:
        hard_s = soft_s + conf.settings().taskqueue.timeout_grace_s
    return Limits(soft_s, hard_s)


def plain(timeout: Any) -> Any:
    """The option as JSON carries it."""
    if timeout is None:
        return None
    soft_s, hard_s = _seconds(timeout)
    return [soft_s, hard_s] if isinstance(timeout, list | tuple) else soft_s


def _seconds(timeout: Any) -> tuple[float | None, float | None]:
    if not isinstance(timeout, list | tuple):
        return to_seconds(timeout, "timeout"), None
    if len(timeout) != 2 or timeout[0] is timeout[1] is None:
        raise ValueError(f"timeout={timeout!r}: expected seconds, or (soft, hard), one of which may be None.")
    soft_s, hard_s = (
        None if value is None else to_seconds(value, f"timeout[{index}]") for index, value in enumerate(timeout)
    )
    if soft_s is not None and hard_s is not None and hard_s <= soft_s:
        raise ValueError(f"timeout={timeout!r}: the hard limit must be longer than the soft one.")
    return soft_s, hard_s
