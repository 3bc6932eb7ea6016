"""A site of a few answers, for the middleware to look at."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from django.contrib.auth import alogin, login
from django.contrib.auth.models import User
from django.http import (
    FileResponse,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p>page")


async def async_page(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    return HttpResponse("<p>page")


def streamed(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter([b"<p>", b"page"]))


def data(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"page": True})


def moved(request: HttpRequest) -> HttpResponseRedirect:
    return HttpResponseRedirect("/page/")


def missing(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p>no such page", status=404)


def broken(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p>broken", status=500)


def bare(request: HttpRequest) -> HttpResponse:
    response = HttpResponse("bytes")
    del response["Content-Type"]
    return response


def download(request: HttpRequest) -> FileResponse:
    return FileResponse(io.BytesIO(b"<p>report"), as_attachment=True, filename="report.html")


def enter(request: HttpRequest) -> HttpResponse:
    login(request, User.objects.get(username=request.GET["name"]))
    return HttpResponse("<p>welcome")


async def async_enter(request: HttpRequest) -> HttpResponse:
    await alogin(request, await User.objects.aget(username=request.GET["name"]))
    return HttpResponse("<p>welcome")


VIEWS: dict[str, Any] = {
    "page": page,
    "async": async_page,
    "streamed": streamed,
    "data": data,
    "moved": moved,
    "missing": missing,
    "broken": broken,
    "bare": bare,
    "download": download,
    "enter": enter,
    "async-enter": async_enter,
}
urlpatterns = [path(f"{name}/", view) for name, view in VIEWS.items()]
urlpatterns += [path(f"internal/{name}/", view) for name, view in VIEWS.items()]
