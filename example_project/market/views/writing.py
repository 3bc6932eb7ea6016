"""Writing to a member, and the mails that the market sent."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.generic import FormView

from example_project.market import contacts, links, outbox, tasks
from example_project.market.forms import LetterForm
from example_project.paths import MAIL_DIR

#: Mails on one page.
PAGE_SIZE = 20

#: Last page that is shown; the files stay.
LAST_PAGE = 50


class WriteView(LoginRequiredMixin, FormView):
    """A letter to a member. ``?to=<id>`` fills in the recipient."""

    template_name = "market/write.html"
    form_class = LetterForm

    def get_initial(self) -> dict[str, Any]:
        to = self.request.GET.get("to", "")
        return {"to": int(to)} if to.isdecimal() and len(to) < 10 else {}

    def form_valid(self, form: LetterForm) -> HttpResponse:
        to, sender = form.cleaned_data["to"], self.request.user
        recipients = dict.fromkeys([to, *form.cleaned_data["copy_to"]])
        tasks.deliver_letter.enqueue_many(
            [((sender.pk, member.pk, form.cleaned_data["text"]), {}) for member in recipients]
        )
        if new_links := links.unseen(form.cleaned_data["text"]):
            tasks.report_links.enqueue(sender.pk, new_links)
        for member in reversed(recipients):
            contacts.remember(sender, member)
        messages.success(self.request, _("Your letter to %(name)s is on its way.") % {"name": to})
        return redirect("write")


@require_safe
def mails(request: HttpRequest) -> HttpResponse:
    """The newest mails. In this demo everybody may read them: none leaves this machine."""
    asked = request.GET.get("page", "1")
    page = min(int(asked), LAST_PAGE) if asked.isdecimal() and len(asked) < 10 and int(asked) else 1
    found = outbox.newest(MAIL_DIR, PAGE_SIZE + 1, (page - 1) * PAGE_SIZE)
    context = {
        "mails": found[:PAGE_SIZE],
        "newer": page - 1,
        "older": page + 1 if len(found) > PAGE_SIZE and page < LAST_PAGE else None,
    }
    return render(request, "market/mails.html", context)
