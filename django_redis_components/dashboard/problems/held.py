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
        loss: the last loss, or None: at (seconds since the epoch), queues, tasks, keys, is_restart.
        keys: keys of each other component with data, as the check of the memory has counted them.
    """

    run_id: str
    queues: int
    tasks: int
    loss: dict[str, Any] | None = None
    keys: dict[str, int] = dataclasses.field(default_factory=dict)

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, stored: bytes | None) -> HeldData | None:
        """Return it from JSON. What another version or program has written counts as nothing."""
        try:
            held = None if stored is None else cls(**json.loads(stored))
        except (TypeError, ValueError, RecursionError):
            return None
        return held if held is not None and held.is_valid else None

    @property
    def is_valid(self) -> bool:
        """Whether each field has a value of its type."""
        loss = {} if self.loss is None else self.loss
        if type(self.run_id) is not str or type(loss) is not dict:
            return False
        lost = [loss.get(name) for name in ("at", "queues", "tasks")] if loss else []
        keys = [self.keys, loss.get("keys", {})]
        if any(type(each) is not dict for each in keys):
            return False
        counts = [count for each in keys for count in each.values()]
        return all(type(each) in (int, float) for each in (self.queues, self.tasks, *lost, *counts))
