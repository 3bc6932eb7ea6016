"""The tests' site on the PostgreSQL server whose port is in the environment."""

from __future__ import annotations

import os

from tests.taskqueue.site import *  # noqa: F403 - it is that site, and another database

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": os.environ["TEST_POSTGRES_PORT"],
        "CONN_MAX_AGE": None if "TEST_POSTGRES_KEPT" in os.environ else 0,
        "CONN_HEALTH_CHECKS": "TEST_POSTGRES_KEPT" in os.environ,
    }
}
