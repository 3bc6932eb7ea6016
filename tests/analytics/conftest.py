"""Fixtures of the tests of analytics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """``configure(VISITOR_IDENTITY="user")`` sets keys of ``REDIS_COMPONENTS["ANALYTICS"]``.

    Ask for the server's fixture first: it sets the whole dict.
    """

    def change(**keys: object) -> None:
        before = settings.REDIS_COMPONENTS.get("ANALYTICS", {})
        settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"ANALYTICS": before | keys}

    return change
