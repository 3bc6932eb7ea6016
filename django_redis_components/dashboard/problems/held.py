"""What a server held when it was last watched."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class HeldData:
    """What a server held.

    Attributes:
        run_id: of the server; another one after a restart.
        queues, tasks: how many.
        loss: the last loss, or None: at (seconds since the epoch), queues, tasks, is_restart.
    """

    run_id: str
    queues: int
    tasks: int
    loss: dict[str, Any] | None = None

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, stored: bytes | None) -> HeldData | None:
        """Return it from JSON; None if there is none."""
        try:
            return None if stored is None else cls(**json.loads(stored))
        except (TypeError, ValueError, RecursionError):
            return None
