"""The maps of modules in docstrings of packages are complete."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.architecture.sources import PACKAGE, PACKAGE_DIR

#: Packages with a map in the docstring of this package.
MAPS = {
    "core": ("core", "core/client", "core/leasing", "core/observability", "core/settings"),
    "taskqueue": ("taskqueue",),
}


@pytest.mark.parametrize("package", MAPS)
def test_map_of_a_package_lists_every_module(package: str) -> None:
    actual = {name for folder in MAPS[package] for name in names_in(folder)}

    assert listed_in(importlib.import_module(f"{PACKAGE}.{package}").__doc__ or "") == actual, (
        f"Update the map in the docstring of {package}/__init__.py."
    )


def names_in(folder: str) -> set[str]:
    """Return the names of the modules and packages of a folder."""
    paths = (PACKAGE_DIR / folder).iterdir()
    return {path.stem for path in paths if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}


def listed_in(docstring: str) -> set[str]:
    """Return the names in the first column of the tables before the keys."""
    rows = re.findall(r"^([a-z_]\w*/?(?:, [a-z_]\w*/?)*)  +\S", docstring.partition("\nKeys")[0], re.M)
    return {name.strip("/") for row in rows for name in row.split(", ")} - {"lua"}
