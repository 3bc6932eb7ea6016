"""The snapshot of locks and semaphores as JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard.figures import cost_figures, time_figure
from django_redis_components.dashboard.lock_reading import LockSnapshot, Thing
from django_redis_components.dashboard.scanning import text_of


def figures(snapshot: LockSnapshot) -> dict[str, Any]:
    """All figures of a snapshot; ``go_on`` is what ``?at=`` takes, "" at the end."""
    part = snapshot.part
    return {
        "at": time_figure(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "using": snapshot.question.using,
        "held": [_thing(thing) for thing in snapshot.things],
        "looked_through": part.looked if part else None,
        "keys": part.total if part else None,
        "not_shown": snapshot.more,
        "go_on": text_of(part.rest) if part else "",
        "declared": [dataclasses.asdict(each) for each in snapshot.declared],
        "problem": snapshot.problem,
        "cost": cost_figures(snapshot.cost),
    }


def _thing(thing: Thing) -> dict[str, Any]:
    return {
        **dataclasses.asdict(thing.place),
        "holders": [
            {
                **dataclasses.asdict(holder),
                "remaining_s": None if math.isinf(holder.remaining_s) else holder.remaining_s,
            }
            for holder in thing.holders
        ],
        "held": thing.held,
        "limit": thing.limit,
        "waiting": thing.waiting,
        "fencing_token": thing.fencing_token,
        "error": thing.error,
    }
