"""One demo for all tests of the example; those that stop or kill it start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.demo import Demo, running_demo


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo"), {"DEMO_LABEL_PRINTER_S": "3"}) as running:
        yield running
