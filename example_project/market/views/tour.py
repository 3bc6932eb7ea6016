"""The guided tour: five minutes through the market and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from example_project.market.content.opening import ADMIN, PASSWORD


@dataclass(frozen=True)
class Step:
    """A step of the tour.

    Attributes:
        page: name of the URL of its page.
        look: what the page shows.
        action: what to do there, and what happens then.
    """

    page: str
    title: Promise
    look: Promise
    action: Promise

    @property
    def url(self) -> str:
        return reverse(self.page)

    @property
    def is_of_dashboard(self) -> bool:
        """Whether only the administrator sees its page."""
        return self.page.startswith("admin:")


def _dashboard(slug: str) -> str:
    return f"admin:django_redis_components_{slug}_changelist"


STEPS = (
    Step(
        _dashboard("overview"),
        _("What is wrong?"),
        _("The overview lists problems first, then queues, workers and the Redis server."),
        _("Look at the charts: the mail provider was away, and later more tasks came than the workers could run."),
    ),
    Step(
        _dashboard("failure"),
        _("Why did tasks fail?"),
        _("Identical failures are one group, with a real message and traceback."),
        _(
            "Open the group ConnectionRefusedError and retry it: the mail provider is back. "
            "The letters are on the page Mails."
        ),
    ),
    Step(
        _dashboard("incident"),
        _("Since when, and who works on it?"),
        _("A worker process watches for problems and remembers when each began and ended."),
        _("Acknowledge the open problem with a reason: it is not announced again meanwhile. The page Actions logs it."),
    ),
    Step(
        "rush",
        _("Does it hold under load?"),
        _("A hundred buyers want one item, at the same time."),
        _("Press Rush, then kill a worker process. Its tasks run again, and the item is sold once."),
    ),
    Step(
        _dashboard("liveevent"),
        _("What happens right now?"),
        _("Tasks as they start, succeed and fail, and callers that wait for locks, a second or two later."),
        _("Open it in a second window, and start another rush with the lock."),
    ),
    Step(
        _dashboard("lock"),
        _("Who holds this lock?"),
        _("Held locks and semaphores with their waiters and fencing tokens."),
        _("Release one that was reserved. A holder that still ran would be notified that its lock is lost."),
    ),
    Step(
        "search",
        _("Full-text search while you type"),
        _("Ranked results with facets; the dashboard lists the slowest queries, and those without a result."),
        _("Search for lantern, then for crystal ball, which has no result."),
    ),
    Step(
        "chats",
        _("Messages that wait"),
        _("Each sale has a chat, with unread counts for each member."),
        _("Sign in as a member in another browser, buy an item, and write to its seller."),
    ),
    Step(
        _dashboard("analytics"),
        _("Who visits the site?"),
        _("Page views, unique visitors, sign-ins and retention, without a script on the pages."),
        _("Visit the market in a private window, and reload: the numbers of today grow."),
    ),
)


@require_safe
def tour(request: HttpRequest) -> HttpResponse:
    """Show the steps."""
    return render(request, "market/tour.html", {"steps": STEPS, "admin": ADMIN, "password": PASSWORD})
