"""The site of the benchmark: its components are those of the environment."""

from __future__ import annotations

import json
import os
from typing import Any

SECRET_KEY = "benchmarks only"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django_redis_components", "benchmarks.shards"]
DATABASES: dict[str, Any] = {}
REDIS_COMPONENTS = json.loads(os.environ["BENCH_SHARDS"])
