"""One demo for all tests of the example; those that stop or kill it start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.demo import Demo, running_demo


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo"), {"DEMO_LABEL_PRINTER_S": "3"}) as running:
        yield running


@pytest.fixture
def list_item(demo: Demo):
    """Put something up for sale; returns its id."""

    def listed(title: str, seller: str = "zola") -> int:
        visitor = demo.visitor(seller)
        reply = visitor.post("/items/new/", title=title, price=7, kind="ring", description="", lasts_s=3600)
        assert reply.status == 302, reply.text
        return int(reply.headers["Location"].strip("/").rpartition("/")[2])

    return listed
