"""The site of the benchmark: PostgreSQL and Redis are those of the environment."""

from __future__ import annotations

import os

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
        "HOST": "127.0.0.1",
        "PORT": os.environ.get("BENCH_POSTGRES_PORT", "5432"),
        "CONN_MAX_AGE": None,
    }
}
REDIS_COMPONENTS = {
    "CONNECTIONS": {"default": {"URL": os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/0")}},
    "TASKQUEUE": {"LEASE": 5},
}
