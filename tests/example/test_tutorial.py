"""The tutorial works: its files in an empty project, its commands, and the answers that it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Store
from tests.support.processes import UNMEASURED

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()

SHOW_RESULT = "from shop.tasks import send_receipt; print(send_receipt.get_result(open('id').read()).return_value)"

#: As many requests as a visitor may make in a minute, and one more.
BUY_SIX_TIMES = """
from django.test import Client
client = Client(HTTP_HOST="127.0.0.1")
print([client.get("/buy/42/").status_code for _ in range(6)])
"""


@pytest.fixture
def project(tmp_path: Path, redis_server: Store) -> Path:
    """The project that a reader has after the tutorial, on the server of the test."""
    run(tmp_path, "-m", "django", "startproject", "bookshop", ".")
    run(tmp_path, "manage.py", "startapp", "shop")
    for name, code in code_blocks():
        path = tmp_path / name.partition(" ")[0]
        appended = name.endswith("(at the end)")
        path.write_text(path.read_text() + "\n" + code if appended else code)
    settings = tmp_path / "bookshop" / "settings.py"
    prefix = f'REDIS_COMPONENTS["PREFIX"] = "{redis_server.prefix}"\n'
    settings.write_text(settings.read_text().replace("redis://127.0.0.1:6379/1", redis_server.url) + prefix)
    run(tmp_path, "manage.py", "migrate", "--verbosity", "0")
    return tmp_path


def test_the_tutorial_prints_the_documented_output(project: Path) -> None:
    assert "no issues" in run(project, "manage.py", "check")

    sent = "from shop.tasks import send_receipt; open('id', 'w').write(send_receipt.enqueue(7).id)"
    run(project, "manage.py", "shell", "-c", sent)
    run(project, "manage.py", "runworker", "--burst", "--verbosity", "0")
    printed = run(project, "manage.py", "shell", "-c", SHOW_RESULT + BUY_SIX_TIMES)
    assert "receipt 7 sent" in printed
    assert "[200, 200, 200, 200, 200, 429]" in printed


def code_blocks() -> list[tuple[str, str]]:
    """File name and text of each file that the tutorial shows."""
    return re.findall(r"```\{code-block\} python\n:caption: ([^\n]+)\n\n(.*?)```", TUTORIAL, re.S)


def run(directory: Path, *args: str) -> str:
    """Run Python in the project and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, *args],
        cwd=directory,
        env=environment | UNMEASURED | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
