"""The modules of installed apps that are imported when the apps are ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_redis_components.autocomplete import UnknownIndex, get_index, unregister


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> str:
    name = f"shop_{request.node.name.rsplit('_', 1)[-1]}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_indexes_of_an_installed_app_are_imported_when_it_is_ready(app: str, tmp_path: Path) -> None:
    module = tmp_path / app / "indexes.py"
    module.write_text('from django_redis_components import autocomplete\nautocomplete.register("from indexes")\n')
    with pytest.raises(UnknownIndex, match=r"call autocomplete\.register\(\) in the module indexes|Registered indexes"):
        get_index("from indexes")

    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, app]):
        assert get_index("from indexes").name == "from indexes"
    unregister("from indexes")


def test_error_of_the_module_is_raised(app: str, tmp_path: Path) -> None:
    (tmp_path / app / "indexes.py").write_text("import no_such_module\n")

    with (
        pytest.raises(ModuleNotFoundError, match="no_such_module"),
        override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, app]),
    ):
        pass
