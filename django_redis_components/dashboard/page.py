"""What a page of the dashboard is declared by, and a request for one.

A page is a package with a subclass of `Page`, which is listed in `pages.PAGES`. Its model, permissions, URLs, tab and
entry in the admin follow from that. Django reads the declaration when it starts: what the page does is named by `Hook`,
and imported with the components when the page is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.verb import Verb

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin


class Hook:
    """An attribute of a page: a name in a module of the page's package, which is imported when it is used."""

    def __init__(self, path: str) -> None:
        self.module, _, self.name = path.rpartition(".")

    def __get__(self, page: Page | None, owner: type[Page]) -> Any:
        """Return the object."""
        return getattr(import_module(f"{owner.__module__}.{self.module}"), self.name)


def hook(path: str) -> Any:
    """Return a `Hook`; for type checkers it is what the page makes of it."""
    return Hook(path)


class PageRequest:
    """A request for a page or a change, within an admin site.

    Attributes:
        http: Django's request.
        page, model_admin: the page and its `ModelAdmin`.
        links: the URLs that the user may open.
        object_id: of the object that the URL names, or "".
        shard_name: name of the shard that the URL names, or "".
        query: what `Page.parse` returned.
    """

    def __init__(
        self, http: HttpRequest, model_admin: ModelAdmin[Any], object_id: str = "", shard_name: str = ""
    ) -> None:
        self.http = http
        self.model_admin = model_admin
        self.page: Page = model_admin.page  # type: ignore[attr-defined]
        self.links = Links(http, model_admin)
        self.object_id = object_id
        self.shard_name = shard_name
        self.query: Any = None

    @property
    def is_post(self) -> bool:
        """Whether the user has sent a form."""
        return self.http.method == "POST"

    @property
    def form(self) -> Any:
        """The form that the user has sent, or the query string."""
        return self.http.POST if self.is_post else self.http.GET

    @property
    def author(self) -> str:
        """The name of the user."""
        return self.http.user.get_username()

    @property
    def is_fragment(self) -> bool:
        """Whether an open page refreshes itself."""
        return self.http.GET.get("format") == "fragment"

    @property
    def wants_html(self) -> bool:
        """Whether the response is a full page."""
        return self.http.GET.get("format") not in ("fragment", "json", "csv")


class Page:
    """A page of the dashboard.

    Attributes:
        slug: name of its model: in URLs, names of URLs, and its permission.
        title: its heading, and the entry in the admin's index.
        name: one of its objects.
        tab: the label of its tab; by default the title.
        permission: codename that a user needs to view it; by default its own, ``view_<slug>``.
        permissions: codenames and names of the permissions of its verbs.
        templates: the folder with ``page.html`` and ``fragment.html``.
        is_object: whether it shows one object, ``<slug>/<id>/``. Such a page has a tab only if it has a `listing`.
        listing: the page of all objects, ``<slug>/``; without one that URL redirects to the overview.
        section: slug of the page whose tab is marked on this one; by default its own.
        shows_panels: whether `Panel.page` may name it.
        shows_all_shards: whether it shows the tasks of all shards of the task queue, unless its URL names one.
        refresh_s: seconds between two refreshes of an open page.
        verbs: pairs of a `Verb` and its view, which gets a `PageRequest`.
    """

    slug: ClassVar[str]
    title: ClassVar[Any]
    name: ClassVar[Any]
    tab: ClassVar[Any] = ""
    permission: ClassVar[str] = ""
    permissions: ClassVar[Sequence[tuple[str, str]]] = ()
    templates: ClassVar[str]
    is_object: ClassVar[bool] = False
    listing: ClassVar[Page | None] = None
    section: ClassVar[str] = ""
    shows_panels: ClassVar[bool] = False
    shows_all_shards: ClassVar[bool] = False
    refresh_s: ClassVar[int] = 5
    verbs: ClassVar[Any] = ()

    #: Reads Redis: `read(request)` returns a `snapshot.Snapshot`, or raises `SnapshotFailed`, or Http404.
    read: ClassVar[Any]
    #: Returns the content of the JSON for a snapshot: `data(snapshot)`.
    data: ClassVar[Any]
    #: Returns the context of the templates: `context(request, snapshot)`.
    context: ClassVar[Any]
    #: Returns the columns and the rows of ``?format=csv``: `csv(snapshot)`. None: the page has no CSV.
    csv: ClassVar[Any] = None

    def heading(self, request: PageRequest) -> Any:
        """Return the heading."""
        return self.title

    def parse(self, request: PageRequest) -> Any:
        """Return the query of a request.

        Raises:
            ValueError: a parameter is not valid; the page responds with 400.
        """
        return None

    def parse_id(self, object_id: str) -> str:
        """Return the id of an object, if it is valid.

        Raises:
            ValueError: it is not; the page responds with 404.
        """
        return object_id

    def missing(self, request: PageRequest) -> HttpResponse | None:
        """Return the response if there is no such object; None for the page “Not found”."""
        return None

    def redirect(self, request: PageRequest, snapshot: Any) -> HttpResponse | None:
        """Return the response in place of the full page of a snapshot; None for the page."""
        return None

    def index(self, request: PageRequest) -> HttpResponse | None:
        """Return the response to ``<slug>/`` of a page of objects: a redirect to the overview; None for `listing`."""
        return None if self.listing is not None else HttpResponseRedirect(request.links.reverse("overview"))

    def url_of(self, request: PageRequest) -> str:
        """Return the URL to which the admin's links to an object redirect, such as those of "Recent actions"."""
        return request.links.reverse("overview" if self.is_object and self.listing is None else self.slug)

    @property
    def has_tab(self) -> bool:
        """Whether it has a tab."""
        return not self.is_object or self.listing is not None

    @property
    def view_permission(self) -> str:
        """The codename of the permission to view it."""
        return self.permission or f"view_{self.slug}"

    @functools.cached_property
    def verb_views(self) -> dict[str, tuple[Verb, Callable[..., HttpResponse]]]:
        """The verbs and their views, by name."""
        return {verb.name: (verb, view) for verb, view in self.verbs}
