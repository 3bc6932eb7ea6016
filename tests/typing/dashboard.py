"""Panels and checks of a site."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.dashboard import Panel, register_panel


class Sales(Panel):
    title = "Sales"


def right() -> None:
    assert_type(register_panel(Sales), type[Sales])


def wrong() -> None:
    register_panel("sales")  # type: ignore[arg-type]
    register_panel(Sales, "sales")  # type: ignore[call-arg]
