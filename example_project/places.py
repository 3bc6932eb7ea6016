"""Where the demo keeps its files, and where its server is found. Needs no Django: settings read it."""

from __future__ import annotations

import os
from pathlib import Path

#: Everything that the demo writes. Remove the folder and the next run starts afresh.
DATA_DIR = Path(os.environ.get("DEMO_DATA_DIR") or Path(__file__).resolve().parents[1] / ".data").absolute()

#: Files of the embedded server.
REDIS_DIR = DATA_DIR / "redis"

#: The running demo writes the address of its server here, so that other commands find it.
URL_FILE = REDIS_DIR / "url"

#: Each mail that the market sends is a file in here.
MAIL_DIR = DATA_DIR / "mails"

#: Used when neither REDIS_URL is set nor a demo is running.
FALLBACK_URL = "redis://127.0.0.1:6379/0"


def redis_url() -> str:
    """The server to use: REDIS_URL, else that of the running demo, else the usual port on this machine."""
    if given := os.environ.get("REDIS_URL"):
        return given
    try:
        return URL_FILE.read_text().strip() or FALLBACK_URL
    except OSError:
        return FALLBACK_URL
