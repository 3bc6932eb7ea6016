"""The small site of the queue's tests, with the app of this directory, and log filters that raise if asked to."""

from __future__ import annotations

import os

from tests.taskqueue.site import *  # noqa: F403 - another app only

INSTALLED_APPS = ["django_redis_components", "tests.taskqueue.hostile"]
if "HOSTILE_SQLITE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["HOSTILE_SQLITE"]  # noqa: F405 - of the site above
if "TEST_POSTGRES_PORT" in os.environ:
    from tests.taskqueue.postgres_site import DATABASES  # noqa: F401 - the same server as in other tests
if "RAISING_FILTER" in os.environ:
    LOGGING = {
        "version": 1,
        "filters": {"raising": {"()": "tests.taskqueue.hostile.errors.RaisingFilter"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "filters": ["raising"]}},
        "root": {"handlers": ["console"], "level": "INFO"},
    }
