"""The units of deploy/systemd are valid, and restart a worker whose health file is old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from django_redis_components.management.base import ExitCode
from tests.architecture.sources import ROOT

FOLDER = ROOT / "deploy" / "systemd"


@pytest.fixture
def units(tmp_path: Path) -> dict[str, str]:
    """Return the units by name, for a site in a directory of the test."""
    found = {path.name: path.read_text() for path in FOLDER.iterdir()}
    for name, text in found.items():
        here = text.replace("/srv/shop/venv/bin/python", sys.executable).replace("/srv/shop", str(tmp_path))
        (tmp_path / name).write_text(here.replace("User=shop\n", ""))
    return found


def test_systemd_understands_the_units(units: dict[str, str], tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd here to ask")

    for name in units:
        done = subprocess.run([analyze, "verify", str(tmp_path / name)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["shop-worker.service", "shop-poller.service"])
def test_a_process_that_newer_data_refuse_is_not_started_again(name: str) -> None:
    text = (FOLDER / name).read_text()

    assert f"\nRestartPreventExitStatus={ExitCode.NEWER_DATA}\n" in text


@pytest.mark.parametrize(("age_s", "restarts"), [(None, False), (0, False), (600, True)])
def test_a_worker_is_started_anew_when_its_health_file_is_old(
    units: dict[str, str], tmp_path: Path, age_s: int | None, restarts: bool
) -> None:
    path = Path("/run/shop/worker")
    assert f"--health-file {path}\n" in units["shop-worker.service"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").symlink_to("/bin/echo")
    if age_s is not None:
        (tmp_path / path.name).touch()
        os.utime(tmp_path / path.name, (time.time() - age_s,) * 2)

    [command] = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", units["shop-worker-health.service"], re.MULTILINE)
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace(str(path.parent), str(tmp_path))],
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == ("try-restart shop-worker\n" if restarts else "", "")
