"""The code of today reads what each release has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from django_redis_components.core.stored_formats import WRITTEN
from tests.stored_data.cases import CASES, WITHOUT_DATA
from tests.stored_data.dump import dump, load
from tests.support import Store

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("format_*/*.json"))


@pytest.mark.django_db
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_stored_data_are_read(redis_server: Store, tmp_path: Path, path: Path) -> None:
    load(redis_server, json.loads(path.read_text())["keys"])

    CASES[path.stem].read(tmp_path)


@pytest.mark.django_db
@pytest.mark.parametrize("component", CASES)
def test_data_of_today_are_read(redis_server: Store, tmp_path: Path, component: str) -> None:
    CASES[component].write(tmp_path)
    keys = dump(redis_server)
    redis_server.delete_keys()

    load(redis_server, keys)

    CASES[component].read(tmp_path)


def test_each_component_has_data_in_each_of_its_formats() -> None:
    found = {path.stem: {each.parent.name for each in FILES if each.stem == path.stem} for path in FILES}

    assert set(CASES) | WITHOUT_DATA == set(WRITTEN)
    assert found == {
        component: {f"format_{number}" for number in range(1, WRITTEN[component] + 1)} for component in CASES
    }
