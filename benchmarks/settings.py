"""The smallest site for each of the three that run in Django; ``BENCH_PEER`` says which."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.bodies import URL

PEER = os.environ.get("BENCH_PEER", "ours")

SECRET_KEY = "benchmarks only"
USE_TZ = True
TIME_ZONE = "UTC"
DATABASES: dict[str, Any] = {}
INSTALLED_APPS = {"vtasks": ["django_vtasks"], "threadmill": ["threadmill"]}.get(
    PEER, ["django_redis_components", "benchmarks"]
)
REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": URL}}}
TASKS: dict[str, Any] = {
    "vtasks": {"BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend", "OPTIONS": {"BROKER_URL": URL}},
    "threadmill": {"BACKEND": "threadmill.backends.redis.RedisTaskBackend", "REDIS_URL": URL},
}
TASKS = {"default": TASKS[PEER]} if PEER in TASKS else {}
