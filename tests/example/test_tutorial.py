"""The tutorial works: its files in an empty project, its commands, and the answers that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.example.tutorial import Project
from tests.support import Store

pytestmark = pytest.mark.integration


def test_the_tutorial_prints_the_documented_output(redis_server: Store, tmp_path: Path) -> None:
    Project(tmp_path, redis_server).assert_documented_output()
