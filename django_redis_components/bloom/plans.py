"""The size of a filter. Without Redis."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable

from django_redis_components.core.arguments import check_int, check_number, short_repr

#: Largest size of a layer: 64 MiB. Allocating it blocks the server for some 50 ms.
MAX_BITS = 2**29
#: Layers that a filter may get.
MAX_LAYERS = 16
#: Memory that a layer may take beyond the optimum, as a part of it, to have fewer hashes: 5 instead of 7 at 1 %.
EXTRA_MEMORY = 0.05
#: Bounds of the error rate.
MIN_ERROR, MAX_ERROR = 1e-9, 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class BloomPlan:
    """The size of a layer.

    Attributes:
        capacity: items at which the error rate is reached.
        bits: size of the layer.
        hashes: bits that are set for an item.
    """

    capacity: int
    bits: int
    hashes: int

    @property
    def bytes(self) -> int:
        """Size of the layer in bytes."""
        return self.bits // 8


def estimated_items(plan: BloomPlan, set_bits: int) -> float:
    """Return the number of items that set this number of bits: -m/k ln(1 - X/m) (Swamidass and Baldi, 2007)."""
    return -plan.bits / plan.hashes * math.log(1 - min(set_bits, plan.bits - 1) / plan.bits)


def is_exceeded(plan: BloomPlan, items: float) -> bool:
    """Return whether there are more items than the capacity, by more than an estimate from the bits may err.

    The standard error of the estimate is 0.2 to 0.7 times the square root of their number.
    """
    return items > plan.capacity + 2 * math.sqrt(plan.capacity)


def expected_error(plan: BloomPlan, items: float) -> float:
    """Return the expected error rate with this many items: (1 - e^(-kn/m))^k."""
    return (1 - math.exp(-plan.hashes * items / plan.bits)) ** plan.hashes


def plan(capacity: int, error_rate: float) -> BloomPlan:
    """Return the size of a layer, in multiples of 8 bytes.

    The least memory, m = -n ln(p) / ln(2)^2 bits, needs k = m/n ln(2) hashes. Time grows with k, and memory is flat
    near its least: k is the least number of hashes that needs at most 5 % more memory, m = -k n / ln(1 - p^(1/k)).

    Raises:
        TypeError, ValueError: an argument is not accepted, or the layer would be too large.
    """
    capacity = check(capacity, error_rate)
    if capacity > (most := _max_capacity(error_rate)):
        shown = f"{capacity:,}" if capacity < 2**64 else short_repr(capacity)
        raise ValueError(f"capacity={shown}: at most {most:,} with error_rate={error_rate}: 64 MiB.")
    return _plan(capacity, error_rate)


def part_capacity(capacity: int, parts: int) -> int:
    """Return for how many items a part of a filter is made: more than its share, since some get more items than others.

    Their number varies by the square root of the share: one part of 30,000 gets more than four times that in addition.
    """
    share = -(-capacity // parts)
    return capacity if parts == 1 else share + 4 * math.isqrt(share) + 4


def layers(capacity: int, error_rate: float, *, scaling: bool) -> list[BloomPlan]:
    """Return the layers that a filter may get.

    A filter that grows starts with half of the error rate; each further layer has twice the capacity of the one before
    and half of its error rate, so that their sum stays below it (Almeida et al., "Scalable Bloom Filters", 2007).
    """
    if not scaling:
        return [plan(capacity, error_rate)]
    found = [plan(capacity, error_rate / 2)]
    while len(found) < MAX_LAYERS:
        error = error_rate / 2 ** (len(found) + 1)
        found.append(_plan(min(found[-1].capacity * 2, _max_capacity(error)), error))
    return found


def layout(plans: Iterable[BloomPlan]) -> str:
    """Return layers as they are stored: ``m:k:n`` of each; see lua/shared/layers.lua."""
    return " ".join(f"{each.bits}:{each.hashes}:{each.capacity}" for each in plans)


def parse(stored: str) -> tuple[BloomPlan, ...]:
    """Return the layers that `layout` has written."""
    sizes = (map(int, each.split(":")) for each in stored.split())
    return tuple(BloomPlan(capacity, bits, hashes) for bits, hashes, capacity in sizes)


def check(capacity: object, error_rate: object) -> int:
    """Check the parameters of a filter, and return the capacity.

    Raises:
        TypeError, ValueError: one is not accepted.
    """
    number = check_int(capacity, "capacity", 1)
    check_number(error_rate, "error_rate", MIN_ERROR, MAX_ERROR)
    return number


def _plan(capacity: int, error_rate: float) -> BloomPlan:
    hashes = _hashes(error_rate)
    bits = math.ceil(capacity * _bits_per_item(error_rate, hashes) / 64) * 64
    return BloomPlan(capacity, bits, hashes)


def _max_capacity(error_rate: float) -> int:
    return int(MAX_BITS / _bits_per_item(error_rate, _hashes(error_rate)))


def _hashes(error_rate: float) -> int:
    most = -math.log(error_rate) / math.log(2) ** 2 * (1 + EXTRA_MEMORY)
    return next(hashes for hashes in itertools.count(1) if _bits_per_item(error_rate, hashes) <= most)


def _bits_per_item(error_rate: float, hashes: int) -> float:
    """Return m/n of the error rate p = (1 - e^(-kn/m))^k."""
    return -hashes / math.log(1 - error_rate ** (1 / hashes))
