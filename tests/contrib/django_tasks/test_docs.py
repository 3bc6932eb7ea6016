"""The guide's examples run, on whichever Django this is."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.architecture.examples import Example, run
from tests.architecture.sources import ROOT
from tests.contrib.django_tasks.framework import NAME
from tests.contrib.django_tasks.shop.tasks import echo
from tests.support import Store
from tests.taskqueue.support import work_off

GUIDE = ROOT / "docs" / "components" / "django-tasks.md"


@pytest.mark.django_db(transaction=True)
def test_the_examples_of_the_guide_run(redis_server: Store, configure: Any) -> None:
    configure()
    text = GUIDE.read_text()
    blocks = [
        Example(str(GUIDE), text.count("\n", 0, found.start(1)) + 1, found[1].replace("django.tasks", NAME))
        for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
    ]

    run(blocks)

    assert len(blocks) == 7
    assert [(job.queue, job.attempts) for job in work_off()] == [("default", 0)] * 4


def test_the_error_that_the_guide_shows_is_the_real_one(redis_server: Store, configure: Any) -> None:
    configure()
    with pytest.raises(TypeError) as raised:
        echo.enqueue(when=datetime(2030, 1, 1, tzinfo=UTC))

    assert f"TypeError: {raised.value}\n" in GUIDE.read_text()
