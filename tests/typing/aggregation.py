"""Aggregation of access logs."""

from __future__ import annotations

from datetime import date
from typing import assert_type

from django_redis_components.aggregation import FileReport, LogAggregator


def right() -> None:
    countries = LogAggregator("countries")
    assert_type(countries.add_file("access.log", format="combined"), FileReport)
    assert_type(countries.totals(date(2026, 1, 1)), dict[str, int])


def wrong() -> None:
    LogAggregator("countries").add_file("access.log", format="apache")  # type: ignore[arg-type]
    LogAggregator("countries").totals("2026-01-01")  # type: ignore[arg-type]
    LogAggregator("countries", max=3)  # type: ignore[call-arg]
