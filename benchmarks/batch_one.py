"""`runworker` whose threads take one task in a round trip, never more."""

from __future__ import annotations

import sys

from django.core.management import execute_from_command_line

from django_redis_components.taskqueue.worker import prefetch_amount

if __name__ == "__main__":
    prefetch_amount.MAX_PREFETCH = 0
    execute_from_command_line(sys.argv)
