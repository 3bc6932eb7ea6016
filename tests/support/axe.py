"""Install axe-core, the accessibility checks, from npm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "browser"

#: The script that browser tests add to a page. ``install_axe`` installs it; git ignores it.
AXE_SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"


def install_axe() -> str:
    """Install the version of tests/browser/package.json, if missing. Returns the problem, or an empty string."""
    if AXE_SCRIPT.is_file():
        return ""
    if shutil.which("npm") is None:
        return "npm is not installed, so axe-core is missing"
    command = [
        "npm",
        "install",
        "--prefix",
        str(FOLDER),
        "--no-package-lock",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if AXE_SCRIPT.is_file():
        return ""
    return f"npm install of axe-core failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}"
