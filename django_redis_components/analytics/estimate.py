"""An estimated number that knows how far to trust it."""

from __future__ import annotations

from typing import Self

#: Standard error of a HyperLogLog with Redis's 16,384 registers, as a share of the number: 1.04 / sqrt(16384).
STANDARD_ERROR = 0.0081


class Estimate(int):
    """A number of visitors: an int that says how exact it is.

    Attributes:
        error: the standard error as a share of the number: 0.0081 is 0.81 %. Two numbers of three are
            within it; about one of a hundred is off by more than 2 %.
        exact_range: True if every visitor is counted once over the whole range. False if a visitor has
            another id each day (salted hash), so that the number is the *sum of daily visitors*.
    """

    error: float
    exact_range: bool

    def __new__(cls, value: int, *, error: float = STANDARD_ERROR, exact_range: bool = True) -> Self:
        made = super().__new__(cls, value)
        made.error = error
        made.exact_range = exact_range
        return made

    def __repr__(self) -> str:
        return f"Estimate({int(self)}, error={self.error}, exact_range={self.exact_range})"

    def __str__(self) -> str:
        return int.__repr__(self)
