"""A trace file, and a server with a short lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import components_settings
from tests.support.stores import Store

#: Seconds that a lease lives in these tests.
LEASE_S = 2.0
#: The same where processes are killed: one that a busy machine stops for almost as long is killed by its supervisor.
LONGER_S = 4.0


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trace file of this test, named in the environment of it and of its children."""
    path = tmp_path / "trace"
    monkeypatch.setenv("TRACE", str(path))
    return path


@pytest.fixture
def short_lease(redis_server: Store, settings: Any) -> Store:
    """The embedded server, with a lease so short that tests need not wait long for a recovery."""
    settings.REDIS_COMPONENTS = components_settings(redis_server) | {"TASKQUEUE": {"LEASE": LONGER_S}}
    return redis_server
