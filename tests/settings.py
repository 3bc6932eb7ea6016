"""The site that the tests run in: small, strict, and without a Redis unless a fixture gives it one."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

#: A file for each run, so that threads and children see one database and parallel runs do not meet.
DATABASE = os.environ.get("TEST_DATABASE") or str(Path(tempfile.gettempdir()) / f"drc-tests-{os.getpid()}.sqlite3")

#: No server listens there: a test that requests no server must not use one of the developer.
NOWHERE = {"PREFIX": "nowhere", "CATALOG": False, "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}

SECRET_KEY = "for the tests only"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
#: Read by Django 6.1 and later, which warns when a mail is sent without it.
MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_redis_components",
]

MIDDLEWARE = [
    "tests.support.csp.StrictContentSecurityPolicy",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATABASE,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        },
        "TEST": {"NAME": DATABASE},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
REDIS_COMPONENTS = json.loads(os.environ["TEST_REDIS_COMPONENTS"]) if "TEST_REDIS_COMPONENTS" in os.environ else NOWHERE

# `django.tasks` on Django 6.0 and later, the package django-tasks before.
TASKS = {"default": {"BACKEND": "django_redis_components.contrib.django_tasks.RedisBackend", "QUEUES": []}}

LANGUAGE_CODE = "en-us"
TIME_ZONE = "Europe/Berlin"
USE_TZ = True
STATIC_URL = "static/"
LOGGING_CONFIG = None
