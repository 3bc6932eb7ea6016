"""Each component has right and wrong uses in ``tests/typing``, which the step ``types`` checks."""

from __future__ import annotations

import configparser
import re

import pytest

from tests.architecture.sources import ENTRY_POINTS, LAYERS, ROOT

FOLDER = ROOT / "tests" / "typing"

#: Components whose names sites import.
PUBLIC = [name for name, layer in LAYERS.items() if 0 < layer < ENTRY_POINTS and name != "contrib"]


@pytest.mark.parametrize("component", PUBLIC)
def test_component_has_right_and_wrong_uses(component: str) -> None:
    text = (FOLDER / f"{component}.py").read_text()

    assert f"from django_redis_components.{component} import" in text
    assert "assert_type(" in text
    assert re.search(r"# type: ignore\[[a-z-]+(, [a-z-]+)*\]$", text, re.M)


def test_mypy_checks_them_and_reports_what_is_not_wrong() -> None:
    configuration = configparser.ConfigParser()
    configuration.read(ROOT / "setup.cfg")

    assert "tests/typing" in configuration["mypy"]["files"]
    assert configuration["mypy"].getboolean("strict")  # it includes warn_unused_ignores
    assert "warn_unused_ignores" not in configuration["mypy"]
