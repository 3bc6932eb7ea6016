"""Our side of the benchmark; `benchmarks` is an installed app there, so that workers find this module."""

from __future__ import annotations

from benchmarks import bodies
from django_redis_components.taskqueue import task

noop = task(bodies.noop)
anoop = task(bodies.anoop)
mark = task(bodies.mark)
late = task(bodies.late)
nap = task(bodies.nap)
