"""The small site of the queue's tests, with the app of this directory, and log filters that raise if asked to."""

from __future__ import annotations

import os

from tests.taskqueue.site import *  # noqa: F403 - another app only

INSTALLED_APPS = ["django_redis_components", "tests.taskqueue.hostile"]
if "RAISING_FILTER" in os.environ:
    LOGGING = {
        "version": 1,
        "filters": {"raising": {"()": "tests.taskqueue.hostile.errors.RaisingFilter"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "filters": ["raising"]}},
        "root": {"handlers": ["console"], "level": "INFO"},
    }
