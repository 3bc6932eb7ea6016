"""The state of a filter."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

from django_redis_components.bloom.plans import BloomPlan, estimated_items, is_exceeded


@dataclasses.dataclass(frozen=True, slots=True)
class BloomInfo:
    """The state of a filter.

    Attributes:
        name: of the filter.
        capacity, error_rate: as it was declared.
        is_scaling: whether it grows.
        items: items that were added, estimated from the bits that are set; the standard error is below 1 %.
        layers: strings of bits, those of all parts.
        bytes: their size.
        fill: share of the bits of the newest layer that are set; 0.37 to 0.5 when it is full, by the error rate.
        expected_error: probability that an item that was never added is found, from the bits that are set.
        is_over_capacity: whether a filter that does not grow has more items than its capacity.
        is_rebuilding: whether it is being rebuilt.
        parts: number of its parts.
    """

    name: str
    capacity: int
    error_rate: float
    is_scaling: bool
    items: int
    layers: int
    bytes: int
    fill: float
    expected_error: float
    is_over_capacity: bool
    is_rebuilding: bool
    parts: int = 1


class Declared(Protocol):
    """What is declared of a filter."""

    name: str
    capacity: int
    error_rate: float
    scaling: bool


def describe(
    declared: Declared, plans: Sequence[BloomPlan], set_bits: Sequence[int], *, is_rebuilding: bool
) -> BloomInfo:
    """Return the state of a filter.

    Args:
        plans: layers that it may get.
        set_bits: number of set bits of each existing layer.
    """
    used = list(zip(plans, set_bits, strict=False))
    last, newest = used[-1] if used else (plans[0], 0)
    return BloomInfo(
        name=declared.name,
        capacity=declared.capacity,
        error_rate=declared.error_rate,
        is_scaling=declared.scaling,
        items=round(sum(estimated_items(plan, bits) for plan, bits in used)),
        layers=len(used),
        bytes=sum(plan.bytes for plan, _ in used),
        fill=newest / last.bits,
        expected_error=1 - math.prod(1 - (bits / plan.bits) ** plan.hashes for plan, bits in used),
        is_over_capacity=len(used) == len(plans) and is_exceeded(last, estimated_items(last, newest)),
        is_rebuilding=is_rebuilding,
    )


def merge(declared: Declared, parts: Sequence[BloomInfo]) -> BloomInfo:
    """Return the state of a filter with several parts. An item is as likely to be in one as in another."""
    return BloomInfo(
        name=declared.name,
        capacity=declared.capacity,
        error_rate=declared.error_rate,
        is_scaling=declared.scaling,
        items=sum(part.items for part in parts),
        layers=sum(part.layers for part in parts),
        bytes=sum(part.bytes for part in parts),
        fill=sum(part.fill for part in parts) / len(parts),
        expected_error=sum(part.expected_error for part in parts) / len(parts),
        is_over_capacity=any(part.is_over_capacity for part in parts),
        is_rebuilding=any(part.is_rebuilding for part in parts),
        parts=len(parts),
    )
