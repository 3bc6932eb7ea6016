"""The URLs of pages, objects and changes, within the admin site of a request."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

APP = "django_redis_components"
#: What the URLs of a page of a shard have between the page and what follows.
SHARD_PREFIX = "_in/"
#: Longest name of a task whose class has a page, in characters: that of a module and a function.
MAX_TASK_NAME = 500
#: Raised for texts that no URL can have: empty ones, and lone surrogates, which other programs may have stored.
_NO_URL = (NoReverseMatch, UnicodeEncodeError)


class Links:
    """URLs for one user; "" for what they may not open.

    Args:
        model_admin: that of the page which has the links.

    Attributes:
        shard: name of the shard that the page shows, which all links keep; "" if there is one, or the page shows all.
    """

    def __init__(self, http: HttpRequest, model_admin: ModelAdmin[Any]) -> None:
        self._http = http
        self._slug = str(model_admin.opts.model_name)
        self._site = model_admin.admin_site
        self._viewable: dict[str, bool] = {}
        self.shard = ""

    def in_shard(self, name: str) -> Links:
        """Return the links within a shard; "" for those that name none."""
        links = copy.copy(self)
        links.shard = name
        return links

    @property
    def here(self) -> str:
        """The page itself, without a query."""
        return self.reverse(self._slug)

    def without_shard(self) -> str:
        """The page itself, or that of all objects, without a shard."""
        return reverse(f"admin:{APP}_{self._slug}_changelist", current_app=self._site.name)

    def page(self, slug: str) -> str:
        """Return the URL of a page."""
        return self.reverse(slug) if self._may_view(slug) else ""

    def task(self, task_id: str, verb: str = "change") -> str:
        """Return the URL of a task's page, or of a verb; "" if no URL can have the id."""
        try:
            return self._object("task", task_id, verb)
        except _NO_URL:
            return ""

    def task_class(self, name: str) -> str:
        """Return the URL of the page of a task class; "" if it can have none."""
        try:
            return self._object("taskclass", name, "change") if 0 < len(name) <= MAX_TASK_NAME else ""
        except _NO_URL:
            return ""

    def queue(self, name: str, verb: str = "change", **query: str) -> str:
        """Return the URL of a queue's page, or of a verb."""
        return self._object("queues", name, verb, **query)

    def flow(self, flow_id: str, verb: str = "change") -> str:
        """Return the URL of a flow's page, or of a verb."""
        return self._object("taskflow", flow_id, verb)

    def error(self, fingerprint: str, queue: str = "") -> str:
        """Return the URL of the page of failures with an error in detail."""
        return self.reverse("failure", group=fingerprint, queue=queue) if self._may_view("failure") else ""

    def logged(self, slug: str, name: str) -> str:
        """Return the URL to which the admin's log links for an object."""
        return self.reverse(slug, "change", name) if name else ""

    def actions(self, slug: str, name: str) -> str:
        """Return the URL of the actions on an object."""
        return self.reverse("action", model=slug, object=name) if self.page("action") else ""

    def verb(self, name: str, slug: str = "", /, **query: str) -> str:
        """Return the URL of a verb of a page; by default of this one."""
        slug = slug or self._slug
        return self.reverse(slug, name, **query) if self._may(slug, name) else ""

    def verbs(self, object_id: str = "") -> dict[str, str]:
        """Return the URLs of all verbs of this page that the user may use, by name."""
        args = [object_id] if object_id else []
        names = self._admin(self._slug).page.verb_views
        return {name: self.reverse(self._slug, name, *args) for name in names if self._may(self._slug, name)}

    def reverse(self, slug: str, view: str = "changelist", *args: str, **query: str) -> str:
        """Return a URL, whether the user may open it or not. Empty parameters are left out."""
        name = f"admin:{APP}_{slug}_{view}"
        url = reverse(name, args=[quote(each) for each in args], current_app=self._site.name)
        if self.shard:
            start = reverse(f"admin:{APP}_{slug}_changelist", current_app=self._site.name)
            url = f"{start}{SHARD_PREFIX}{self.shard}/{url.removeprefix(start)}"
        text = urlencode({key: value for key, value in query.items() if value})
        return f"{url}?{text}" if text else url

    def _object(self, slug: str, object_id: str, verb: str, **query: str) -> str:
        may = self._may_view(slug) if verb == "change" else self._may(slug, verb)
        return self.reverse(slug, verb, object_id, **query) if may else ""

    def _may_view(self, slug: str) -> bool:
        if slug not in self._viewable:  # lists have hundreds of links
            page_admin = self._admin(slug)
            self._viewable[slug] = page_admin is not None and page_admin.has_view_permission(self._http)
        return self._viewable[slug]

    def _may(self, slug: str, verb: str) -> bool:
        page_admin = self._admin(slug)
        return page_admin is not None and page_admin.page.verb_views[verb][0].is_allowed(self._http)

    def _admin(self, slug: str) -> Any:
        """Return the `ModelAdmin` of a page; None if it is not in this site."""
        model = apps.get_model(APP, slug)
        return self._site.get_model_admin(model) if self._site.is_registered(model) else None
