"""Helpers of the tests of the backend for Django's Tasks framework."""

from __future__ import annotations

SITE = {"DJANGO_SETTINGS_MODULE": "tests.contrib.django_tasks.site"}
