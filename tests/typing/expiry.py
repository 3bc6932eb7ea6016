"""Cached functions."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.expiry import cached, jitter


@cached("report:{year}", 60)
def report(year: int) -> str:
    return str(year)


def right() -> None:
    assert_type(report(2026), str)
    assert_type(report.invalidate(2026), bool)
    assert_type(jitter(60), float)


def wrong() -> None:
    report("2026")  # type: ignore[arg-type]
    report.invalidate("2026")  # type: ignore[arg-type]
    cached("report", 60, on_error="skip")  # type: ignore[arg-type]
    cached("report", "60")  # type: ignore[arg-type]
