"""`manage.py aggregate_logs` on the server of a benchmark: python -m benchmarks.aggregation_command URL LOG NAME N."""

from __future__ import annotations

import sys

import django
from django.conf import settings

#: What the commands need of a site.
APPS = ["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django_redis_components"]


def main() -> None:
    """Count a log by country."""
    url, log, name, processes = sys.argv[1:]
    settings.configure(INSTALLED_APPS=APPS, USE_TZ=True, REDIS_COMPONENTS={"CONNECTIONS": {"default": {"URL": url}}})
    django.setup()
    from django.core.management import call_command

    call_command("aggregate_logs", log, "--name", name, "--processes", processes)


if __name__ == "__main__":
    main()
