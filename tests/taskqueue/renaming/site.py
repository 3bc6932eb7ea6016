"""The small site of the queue's tests, with the app of this directory."""

from __future__ import annotations

from tests.taskqueue.site import *  # noqa: F403 - another app only

INSTALLED_APPS = ["django_redis_components", "tests.taskqueue.renaming"]
