"""The indexes of the market's models, which django-redis-components imports when the apps are ready."""

from __future__ import annotations

from django_redis_components import autocomplete, search
from example_project.market.contacts import Contacts
from example_project.market.searching import Items

autocomplete.register(Contacts)
search.register(Items)
