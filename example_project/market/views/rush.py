"""The rush: start it, watch it, kill a worker."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from example_project.market import rush_state, rushing
from example_project.market.models import Rush


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rush(request: HttpRequest) -> HttpResponse:
    """Show the latest rush; start one with POST."""
    if request.method != "POST":
        return render(request, "market/rush.html", _context())
    way = request.POST.get("way", "")
    if way not in rush_state.WAYS:
        messages.error(request, _("Unknown strategy: %(way)s.") % {"way": repr(way[:40])})
        return redirect("rush")
    try:
        rushing.start(way)
    except rushing.RushIsRunning:
        messages.error(request, _("A rush is running. Start the next one when its buyers have been answered."))
    return redirect("rush")


@never_cache
@require_GET
def state(request: HttpRequest) -> HttpResponse:
    """The part of the page that changes."""
    return render(request, "market/_rush.html", _context())


@require_POST
def kill(request: HttpRequest, pk: int) -> HttpResponse:
    """Kill a worker that runs a task of the rush."""
    try:
        rushing.kill_worker(get_object_or_404(Rush, pk=pk), request.POST.get("worker", ""))
    except rushing.WorkerDoesNotExist:
        messages.error(request, _("This worker runs no task of the rush any more, or it is on another host."))
    return redirect("rush")


def _context() -> dict[str, object]:
    return {"state": rush_state.read(), "verdicts": rush_state.verdicts(), "ways": rush_state.WAYS.items()}
