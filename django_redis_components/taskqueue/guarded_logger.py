"""The logger of the task queue: an error in the site's logging never reaches a worker."""

from __future__ import annotations

from django_redis_components.core.guarded_logger import guarded_logger

#: The logger of all modules of the task queue.
logger = guarded_logger("django_redis_components.taskqueue")
