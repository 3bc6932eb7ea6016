"""An estimate is an int with something to say."""

from __future__ import annotations

import copy
import json

from django.template import Context, Engine

from django_redis_components.analytics import Estimate


def test_estimate_is_an_int() -> None:
    estimate = Estimate(1234)

    assert estimate == 1234
    assert estimate + 1 == 1235
    assert json.dumps({"visitors": estimate}) == '{"visitors": 1234}'


def test_estimate_has_its_error() -> None:
    estimate = Estimate(1234)

    assert estimate.error == 0.0081
    assert estimate.is_unique is True
    assert Estimate(5, is_unique=False).is_unique is False


def test_str_of_an_estimate_is_the_number_and_repr_has_the_error() -> None:
    estimate = Estimate(1234, is_unique=False)

    assert f"{estimate} {estimate:,}" == "1234 1,234"
    assert Engine().from_string("{{ n }}").render(Context({"n": estimate}, use_l10n=False)) == "1234"
    assert repr(estimate) == "Estimate(1234, error=0.0081, is_unique=False)"


def test_copy_of_an_estimate_keeps_its_attributes() -> None:
    twin = copy.copy(Estimate(7, error=0.5, is_unique=False))

    assert (twin, twin.error, twin.is_unique) == (7, 0.5, False)
