"""`tools/structure_figures.py` measures everything that its table names."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.architecture.sources import ROOT

#: What its lines begin with, and their figures.
LINES = {
    "package, lines": r"[\d,]{6,} / [\d,]{5,}",
    "enqueue": r"\d+ / \d+",
    "acquire and release of a lock": r"\d+ / \d+",
    "acquire and release of a permit": r"\d+ / \d+",
    "hit of a rate limit": r"\d+ / \d+",
    "fetch, run, ack of a task": r"\d+ / \d+",
    "add a task option, files": r"\d+ / \d+",
    "add a component, files": r"\d+ / \d+",
}


def test_table_has_every_figure() -> None:
    done = subprocess.run(
        [sys.executable, "tools/structure_figures.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    for start, figures in LINES.items():
        assert re.search(rf"^{start}.*  {figures}$", done.stdout, re.M), done.stdout
