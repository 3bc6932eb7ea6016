"""Signing in, and the suggestions of the address book: both are limited."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from django_redis_components.autocomplete.views import autocomplete
from django_redis_components.ratelimits import Decision, rate_limit
from example_project.market import limiting
from example_project.market.views.notices import too_many_attempts


class SignInView(LoginView):
    """The sign-in form. Repeated wrong passwords get a page with the time of the next try."""

    template_name = "market/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        decision = limiting.attempt(request, request.POST.get("username", ""))
        if not decision:
            return too_many_attempts(request, decision)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        limiting.succeeded(self.request, form.cleaned_data["username"])
        return super().form_valid(form)


def _not_yet(request: HttpRequest, decision: Decision) -> JsonResponse:
    return JsonResponse({"error": _("Too many questions. Go on in a moment.")}, status=429)


suggestions = rate_limit(*limiting.SUGGESTIONS, key="user_or_ip", name="suggestions", response=_not_yet)(autocomplete)
