"""Countries of addresses, by the function of ``ANALYTICS["COUNTRY"]``. Its errors never lose a view."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.module_loading import import_string

from django_redis_components.core.exception_text import safe_repr
from django_redis_components.core.exceptions import must_raise
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf

logger = guarded_logger("django_redis_components.analytics")

#: The country of an address that is unknown.
UNKNOWN_COUNTRY = "ZZ"


class CountryLookup:
    """Looks countries up, and logs the first error of an outage."""

    def __init__(self) -> None:
        self._has_failed = False

    def countries_of(self, addresses: Iterable[str | None]) -> dict[str | None, str | None]:
        """Return the country of each address; None without an address or without the setting.

        An address whose look-up raises is unknown. The next batch tries again.
        """
        countries: dict[str | None, str | None] = {None: None}
        path = conf.settings().analytics.country
        error: BaseException | None = None
        for address in addresses:
            if address is None or address in countries:
                continue
            try:
                countries[address] = None if path is None else _checked(import_string(path)(address))
            except BaseException as exc:
                if must_raise(exc):
                    raise
                countries[address], error = UNKNOWN_COUNTRY, exc
        if error is not None and not self._has_failed:
            message = "The country of an address cannot be looked up and counts as unknown: %s raised %s"
            logger.warning(message, path, safe_repr(error))
        self._has_failed = error is not None
        return countries


def _checked(country: object) -> str:
    return country if isinstance(country, str) and len(country) == 2 and country.isalpha() else UNKNOWN_COUNTRY
