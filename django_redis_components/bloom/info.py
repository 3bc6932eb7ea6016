"""The state of a filter."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from django_redis_components.bloom.plan import BloomPlan


@dataclasses.dataclass(frozen=True, slots=True)
class BloomInfo:
    """The state of a filter.

    Attributes:
        name: of the filter.
        capacity, error_rate: as it was declared.
        scaling: whether it grows.
        items: items that were new when they were added.
        layers: strings of bits.
        bytes: their size.
        fill: share of the set bits of the last layer, computed from its items.
        expected_error: probability that an item that was never added is found, computed from the items.
        is_over_capacity: whether a filter that does not grow has more items than its capacity.
        is_rebuilding: whether it is being rebuilt.
    """

    name: str
    capacity: int
    error_rate: float
    scaling: bool
    items: int
    layers: int
    bytes: int
    fill: float
    expected_error: float
    is_over_capacity: bool
    is_rebuilding: bool


def describe(
    name: str,
    capacity: int,
    error_rate: float,
    plans: Sequence[BloomPlan],
    counts: Sequence[int],
    *,
    is_rebuilding: bool,
) -> BloomInfo:
    """Return the state of a filter.

    Args:
        plans: layers that it may get.
        counts: items of each existing layer.
    """
    used = list(zip(plans, counts, strict=False))
    last, newest = used[-1] if used else (plans[0], 0)
    return BloomInfo(
        name=name,
        capacity=capacity,
        error_rate=error_rate,
        scaling=len(plans) > 1,
        items=sum(counts),
        layers=len(used),
        bytes=sum(plan.bytes for plan, _ in used),
        fill=1 - math.exp(-last.hashes * newest / last.bits),
        expected_error=1 - math.prod(1 - plan.error_at(count) for plan, count in used),
        is_over_capacity=len(used) == len(plans) and newest > last.capacity,
        is_rebuilding=is_rebuilding,
    )
