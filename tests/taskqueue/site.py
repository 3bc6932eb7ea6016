"""A site with a ``tasks`` module, for the commands in child processes.

It has no admin, no URLs and no middleware: each child starts in two thirds of the time.
"""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - the settings of all tests, without the parts for requests

INSTALLED_APPS = ["django_redis_components", "tests.taskqueue"]
REDIS_COMPONENTS.pop("DASHBOARD", None)  # noqa: F405 - it requires the admin
MIDDLEWARE: list[str] = []
TEMPLATES: list[dict[str, object]] = []
ROOT_URLCONF = "tests.taskqueue.site"
urlpatterns: list[object] = []
