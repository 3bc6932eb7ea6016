"""The project that a reader has after the tutorial, and its commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support import Store
from tests.support.processes import UNMEASURED

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()

SEND = """
import django_redis_components
from shop.tasks import send_receipt
open("id", "w").write(send_receipt.enqueue(7).id)
print(django_redis_components.__file__)
"""
SHOW_RESULT = "from shop.tasks import send_receipt; print(send_receipt.get_result(open('id').read()).return_value)"

#: As many requests as a visitor may make in a minute, and one more.
BUY_SIX_TIMES = """
from django.test import Client
client = Client(HTTP_HOST="127.0.0.1")
print([client.get("/buy/42/").status_code for _ in range(6)])
"""

#: The commands of the steps about search and chats, as the tutorial has them.
ADD_BOOKS, FIND_BOOK, ASK, READ = (
    re.search(rf'shell -c "({start}.*)"$', TUTORIAL, re.M)[1]  # type: ignore[index]
    for start in (
        "from shop.models import Book",
        "from shop.indexes import books",
        "from shop.support import ask",
        "from shop.support import read",
    )
)

#: A visit of a browser, then the command of the step about visitors.
VISIT = """
from django.test import Client
from django_redis_components.analytics import flush
agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
print(Client(HTTP_HOST="127.0.0.1", headers={"User-Agent": agent}).get("/buy/43/", REMOTE_ADDR="192.0.2.7").status_code)
flush()
"""
TOP_PAGES = re.search(r'shell -c "(.*PageViews\(\).*)"$', TUTORIAL, re.M)[1]  # type: ignore[index]


class Project:
    """The project of the tutorial.

    Attributes:
        directory: where it is.
        package_parent: where its package `django_redis_components` is: the repository, or an unpacked wheel.
    """

    def __init__(self, directory: Path, store: Store, package_parent: Path = ROOT) -> None:
        """Do what the tutorial says, with the server of a test."""
        self.directory, self.package_parent = directory, package_parent
        self.run("-m", "django", "startproject", "bookshop", ".")
        self.run("manage.py", "startapp", "shop")
        for name, code in _code_blocks():
            path = directory / name.partition(" ")[0]
            appended = name.endswith("(at the end)")
            path.write_text(path.read_text() + "\n" + code if appended else code)
        settings = directory / "bookshop" / "settings.py"
        prefix = f'REDIS_COMPONENTS["PREFIX"] = "{store.prefix}"\n'
        settings.write_text(settings.read_text().replace("redis://127.0.0.1:6379/1", store.url) + prefix)
        self.run("manage.py", "makemigrations", "shop", "--verbosity", "0")
        self.run("manage.py", "migrate", "--verbosity", "0")

    def run(self, *args: str) -> str:
        """Run Python in the project and return what it printed."""
        environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
        done = subprocess.run(
            [sys.executable, *args],
            cwd=self.directory,
            env=environment | UNMEASURED | {"PYTHONPATH": str(self.package_parent)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def send_receipt(self) -> str:
        """Enqueue the task; return where the package is that did it."""
        return self.run("manage.py", "shell", "--verbosity", "0", "-c", SEND)

    def assert_documented_output(self) -> None:
        """Check what the tutorial promises of its commands."""
        assert "no issues" in self.run("manage.py", "check")
        self.send_receipt()
        self.run("manage.py", "runworker", "--burst", "--verbosity", "0")
        printed = self.run("manage.py", "shell", "-c", SHOW_RESULT + BUY_SIX_TIMES)
        assert "receipt 7 sent" in printed
        assert "[200, 200, 200, 200, 200, 429]" in printed
        self._shell(ADD_BOOKS)
        assert self._shell(FIND_BOOK).endswith("Redis in small steps\n")
        self._shell(ASK)
        assert self._shell(READ).endswith("['When does it arrive?'] []\n")
        assert self._shell(VISIT).endswith("200\n")
        assert "[('/buy/43/', 1)]" in self._shell(TOP_PAGES)

    def _shell(self, code: str) -> str:
        return self.run("manage.py", "shell", "--verbosity", "0", "-c", code)


def _code_blocks() -> list[tuple[str, str]]:
    """File name and text of each file that the tutorial shows."""
    return re.findall(r"```\{code-block\} python\n:caption: ([^\n]+)\n\n(.*?)```", TUTORIAL, re.S)
