"""The example site: a sellers' market on this machine. Not a pattern for production settings.

Environment
    REDIS_URL       the server to use; without it the one of the running demo, else redis://127.0.0.1:6379/0
    DEMO_SALES      how one of several buyers is chosen: ``item`` (a lock per item), ``one`` (one lock) or ``watch``
    DEMO_DATA_DIR   where database, mails, access log and the embedded server's files are kept; without it ``.data``
"""

from __future__ import annotations

import os

import django

from example_project.paths import ACCESS_LOG, DATA_DIR, MAIL_DIR, redis_url

#: Fixed, because this site listens on loopback only and guards nothing.
SECRET_KEY = os.environ.get("DEMO_SECRET_KEY", "sellers-market-on-loopback-only")
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ROOT_URLCONF = "example_project.urls"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_redis_components",
    "example_project.market",
]

MIDDLEWARE = [
    "example_project.access_log.AccessLogMiddleware",
    "example_project.middleware.ContentSecurityPolicy",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "example_project.middleware.RedisUnavailableMiddleware",
    "django_redis_components.analytics.AnalyticsMiddleware",
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
                "example_project.market.context_processors.unread_messages",
            ],
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "market.sqlite3",
        # Site, worker and commands write at the same time: wait for each other instead of failing.
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "market.Member"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "market"
LOGOUT_REDIRECT_URL = "market"

#: Prefixes of paths that are no pages of the market. Analytics and the access log leave them out.
UNCOUNTED_PATHS = ["/static/", "/admin/", "/redis/", "/rush/state/", "/favicon.ico"]

REDIS_COMPONENTS = {
    "PREFIX": "market",
    "CONNECTIONS": {"default": {"URL": redis_url()}},
    "TASKQUEUE": {
        "QUEUES": ["high", "default", "low"],
        "GRACE": 10,
        "RECORD_ORIGIN": True,
        "RECORD_USER": True,
    },
    # Countries are those of the ranges that `manage.py load_ip_ranges` has loaded; "ZZ" without them.
    "ANALYTICS": {"EXCLUDE_PATHS": UNCOUNTED_PATHS, "COUNTRY": "django_redis_components.geoip.country_of"},
    "DASHBOARD": {"ENVIRONMENT": "Demo", "RESTARTED_WITHIN": 0},  # the demo starts its server itself
}

DEFAULT_FROM_EMAIL = "Sellers' Market <market@example.test>"
FILE_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": FILE_BACKEND, "OPTIONS": {"file_path": MAIL_DIR}}}
else:
    EMAIL_BACKEND = FILE_BACKEND
    EMAIL_FILE_PATH = MAIL_DIR

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"

#: Seconds that the label printer of this market takes for one sheet. Slow on purpose: three at once can be seen.
LABEL_PRINTER_S = float(os.environ.get("DEMO_LABEL_PRINTER_S", "1.5"))

#: How one of several buyers wins: see ``market.selling``.
SALES = os.environ.get("DEMO_SALES", "item")

# Without DEBUG Django would report errors only to ADMINS.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "%(levelname)s %(name)s: %(message)s"},
        "bare": {"format": "%(message)s"},
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "plain"},
        "requests": {"class": "logging.StreamHandler", "formatter": "bare"},
        # Opens the file again after a rotation. Opened at the first line: not every command has the directory.
        "access": {
            "class": "logging.handlers.WatchedFileHandler",
            "filename": ACCESS_LOG,
            "encoding": "ascii",
            "delay": True,
            "formatter": "bare",
        },
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.server": {"handlers": ["requests"], "level": "INFO", "propagate": False},
        "example_project.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
    },
}
