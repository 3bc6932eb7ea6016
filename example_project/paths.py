"""Paths of the demo's files and the URL of its Redis server. Used by the settings, so it must not import Django."""

from __future__ import annotations

import os
from pathlib import Path

#: Directory of ``manage.py``.
ROOT = Path(__file__).resolve().parents[1]

#: Directory of all files that the demo writes. Delete it to reset the demo.
DATA_DIR = Path(os.environ.get("DEMO_DATA_DIR") or ROOT / ".data").absolute()

#: Files of the embedded server.
REDIS_DIR = DATA_DIR / "redis"

#: File to which the running demo writes its server's URL, for other commands.
URL_FILE = REDIS_DIR / "url"

#: Directory of sent mails, one file each.
MAIL_DIR = DATA_DIR / "mails"

#: Access log of the site, in the combined format. Rotated files have a number after the name.
ACCESS_LOG = DATA_DIR / "access.log"

#: Used when neither REDIS_URL is set nor a demo is running.
FALLBACK_URL = "redis://127.0.0.1:6379/0"


def redis_url() -> str:
    """Return REDIS_URL, else the URL of the running demo, else the default port on this host."""
    if given := os.environ.get("REDIS_URL"):
        return given
    try:
        return URL_FILE.read_text().strip() or FALLBACK_URL
    except OSError:
        return FALLBACK_URL
