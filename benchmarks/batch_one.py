"""`runworker` whose threads take one task in a round trip, never more."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line

from django_redis_components.taskqueue.worker import prefetch_amount as pace

if __name__ == "__main__":
    pace.MAX_AHEAD = 0
    execute_from_command_line(sys.argv)
