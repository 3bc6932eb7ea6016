"""The site of the benchmark: PostgreSQL and Redis are those of the environment."""

from __future__ import annotations

import os

#: Of the database, and of its standby.
PORTS = os.environ.get("BENCH_POSTGRES_PORTS", "5432")
SECRET_KEY = "benchmarks only"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django_redis_components", "django_redis_components.contrib.outbox", "benchmarks.outbox"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": ",".join("127.0.0.1" for _ in PORTS.split(",")),
        "PORT": PORTS,
        "OPTIONS": {"target_session_attrs": "read-write"},
        "CONN_MAX_AGE": None,
    }
}
REDIS_COMPONENTS = {
    "CONNECTIONS": {"default": {"URL": os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/0")}},
    "TASKQUEUE": {"LEASE": 5},
}
