"""A site with two task backends, for commands in child processes."""

from __future__ import annotations

import django

from tests.contrib.django_tasks.framework import IMMEDIATE, REDIS
from tests.settings import *  # noqa: F403 - it is the tests' site, with more apps and another default
from tests.settings import INSTALLED_APPS

TASKS = {"default": {"BACKEND": IMMEDIATE}, "redis": {"BACKEND": REDIS, "QUEUES": []}}
INSTALLED_APPS = [
    *INSTALLED_APPS,
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "tests.contrib.django_tasks.shop",
    "tests.contrib.django_tasks.elsewhere",
]
