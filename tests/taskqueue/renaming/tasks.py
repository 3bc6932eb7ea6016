"""The task, as the version of the code has it that the environment names: "old" or "new"."""

from __future__ import annotations

import os
from typing import Any

from django_redis_components.taskqueue import task
from tests.taskqueue.tasks import hold

OLD_NAME, NEW_NAME = "shop.tasks.send", "billing.send"
#: Variable of the environment, and the names that each version gives the task.
VERSION = "TEST_VERSION"
NAMES: dict[str, dict[str, Any]] = {
    "old": {"name": OLD_NAME},
    "new": {"name": NEW_NAME, "aliases": [OLD_NAME]},
}


def send(word: str) -> str:
    """Wait as `hold` does; return the version that has run it, and the word."""
    return f"{os.environ[VERSION]} {hold.func(word)}"


if VERSION in os.environ:
    task(**NAMES[os.environ[VERSION]])(send)
