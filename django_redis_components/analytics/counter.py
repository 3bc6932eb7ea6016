"""What the counters of a site share: its name, and the TTLs of periods."""

from __future__ import annotations

from django_redis_components.core.component import Component
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms

#: TTL of hours in milliseconds: 8 days, so that the last seven are complete.
SHORT_TTL_MS = 8 * 86_400 * 1_000


class SiteCounter(Component):
    """Counts something of a site. Its keys share the Cluster slot of the site."""

    component = "analytics"
    name_label = "site"

    def __init__(self, site: str = "default", *, using: str = "default") -> None:
        super().__init__(site, using=using)

    @property
    def site(self) -> str:
        """The name of the site."""
        return self.name


def ttl_ms() -> int:
    """Return the TTL of a day's counters in milliseconds, counted from each write."""
    return to_ms(conf.settings().analytics.ttl_s, "ttl_s")
