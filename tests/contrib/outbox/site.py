"""A site with the outbox, for child processes: on SQLite, or the PostgreSQL whose port is in the environment."""

from __future__ import annotations

import os

from tests.taskqueue.site import *  # noqa: F403 - it is that site, and the outbox

INSTALLED_APPS = ["django_redis_components", "django_redis_components.contrib.outbox", "tests.taskqueue"]
REDIS_COMPONENTS["TASKQUEUE"] = {**REDIS_COMPONENTS.get("TASKQUEUE", {}), "OUTBOX": True}  # noqa: F405

if "TEST_POSTGRES_PORT" in os.environ:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": "127.0.0.1",
            "PORT": os.environ["TEST_POSTGRES_PORT"],
        }
    }
