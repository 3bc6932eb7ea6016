"""A site with that app."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - it is the tests' site, and one app more
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.taskqueue.forking"]
