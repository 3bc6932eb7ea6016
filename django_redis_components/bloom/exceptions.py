"""The exceptions of Bloom filters, count-min sketches and top lists."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class BloomError(RedisComponentsError):
    """Base class of the exceptions of this component."""


class FilterMismatch(BloomError):
    """Raised when a filter was created with other parameters; its bits would be read wrongly.

    Attributes:
        name: of the filter.
        stored, declared: capacity, error rate, and whether it grows, as text.
    """

    def __init__(self, name: str, stored: str, declared: str) -> None:
        has_parts = "parts=" in stored + declared
        of_one = [f"{text}, parts=1" if has_parts and "parts=" not in text else text for text in (stored, declared)]
        super().__init__(
            f"Bloom filter {name!r} was created with {of_one[0]}, not {of_one[1]}. Use the same parameters, or rebuild"
            " or delete it."
        )
        self.name = name
        self.stored = stored
        self.declared = declared


class SketchMismatch(BloomError):
    """Raised when a count-min sketch or a top list was created with other parameters.

    Attributes:
        name: of the sketch.
        stored, declared: its parameters, as text.
    """

    def __init__(self, kind: str, name: str, stored: str, declared: str) -> None:
        super().__init__(
            f"{kind} {name!r} was created with {stored}, not {declared}. Use the same parameters, or delete it."
        )
        self.name = name
        self.stored = stored
        self.declared = declared
