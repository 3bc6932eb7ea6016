"""The site that Django's own tests run in."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - the tests' site with a separate database

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
