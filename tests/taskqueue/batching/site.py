"""A site whose tasks run in batches."""

from __future__ import annotations

from tests.taskqueue.site import *  # noqa: F403 - the same settings

INSTALLED_APPS = ["django_redis_components", "tests.taskqueue", "tests.taskqueue.batching"]
