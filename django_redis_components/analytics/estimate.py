"""An estimated number with its error."""

from __future__ import annotations

from typing import Self

#: Standard error of a HyperLogLog with Redis's 16,384 registers, as a fraction of the number: 1.04 / sqrt(16384).
STANDARD_ERROR = 0.0081


class Estimate(int):
    """An estimated number of visitors: an int with its standard error.

    Attributes:
        error: the standard error as a fraction of the number: 0.0081 is 0.81 %. Two of three estimates are within
            it; about one in a hundred is off by more than 2 %.
        is_unique: True if every visitor is counted once over the whole range. False if a visitor has
            another id each day (salted hash): the number is then the *sum of daily visitors*.
    """

    error: float
    is_unique: bool

    def __new__(cls, value: int, *, error: float = STANDARD_ERROR, is_unique: bool = True) -> Self:
        instance = super().__new__(cls, value)
        instance.error = error
        instance.is_unique = is_unique
        return instance

    def __repr__(self) -> str:
        return f"Estimate({int(self)}, error={self.error}, is_unique={self.is_unique})"

    def __str__(self) -> str:
        return int.__repr__(self)
