"""The page of failures: its URLs, and a function that masks errors."""

from __future__ import annotations

import re

from tests.taskqueue.hostile.errors import AttributesError

FAILURES = "/admin/django_redis_components/failure/"
RETRY, DELETE = f"{FAILURES}retry_error/", f"{FAILURES}delete_error/"
MASK = f"{__name__}.mask_users"


def mask_users(text: str) -> str:
    """Called by the page as ``DASHBOARD["MASK_ERROR"]``."""
    if "break the mask" in text:
        raise RuntimeError
    if "exit" in text:
        raise SystemExit(AttributesError())
    return re.sub(r"user \w+", "user •••", text)
