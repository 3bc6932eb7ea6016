"""docs/api.md is current."""

from __future__ import annotations

import subprocess
import sys

from tests.architecture.sources import ROOT

GENERATOR = ROOT / "docs" / "_extensions" / "public_api.py"


def test_the_page_of_the_public_api_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, f"docs/api.md is out of date; run `make docs`. {done.stderr}"
