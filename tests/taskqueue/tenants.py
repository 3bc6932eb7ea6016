"""The tenant of the current code, in tests of middleware."""

from __future__ import annotations

from contextvars import ContextVar

tenant: ContextVar[str] = ContextVar("tenant", default="")
