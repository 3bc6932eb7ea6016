"""The chats of sales: the list, one chat, its members. They work without JavaScript."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.generic import FormView, TemplateView, View

from django_redis_components.messaging import ChatDoesNotExist, ChatFull, NotMember
from django_redis_components.messaging.views import chat_messages
from example_project.market import sale_chats
from example_project.market.forms import ChatMemberForm, ChatMessageForm
from example_project.market.models import Item


class ChatsView(LoginRequiredMixin, TemplateView):
    """The chats of the user, with their last messages and unread counts."""

    template_name = "market/chats.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(chats=sale_chats.summaries(self.request.user), **kwargs)


class MembersOnlyMixin(LoginRequiredMixin):
    """Respond with 404 to users who are not members of the chat: chats of others are not disclosed."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().dispatch(request, *args, **kwargs)
        except (ChatDoesNotExist, NotMember):
            raise Http404(_("You are not a member of this chat.")) from None


class ChatView(MembersOnlyMixin, FormView):
    """The messages of a chat, which are read by showing them, and the form to write one."""

    template_name = "market/chat.html"
    form_class = ChatMessageForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        pk, user = self.kwargs["pk"], self.request.user
        lines, revision = sale_chats.read(pk, user)
        return super().get_context_data(
            item=get_object_or_404(Item.objects.select_related("seller", "buyer"), pk=pk),
            chat_id=sale_chats.chat_id(pk),
            lines=lines,
            cursor=lines[-1].id if lines else 0,
            revision=revision,
            members=sale_chats.member_names(pk, user).values(),
            member_form=ChatMemberForm(),
            events={name: str(text) for name, text in sale_chats.EVENTS.items()},
            **kwargs,
        )

    def form_valid(self, form: ChatMessageForm) -> HttpResponse:
        sale_chats.send(self.kwargs["pk"], self.request.user, form.cleaned_data["text"], form.cleaned_data["key"])
        return redirect("chat", self.kwargs["pk"])


def json_messages(request: HttpRequest, chat_id: str) -> HttpResponse:
    """Fetch messages as JSON, or send a text; see the package's view.

    Only the site sends events, such as that an item was sold: one that a member sends may be false.
    """
    if request.method == "POST" and not sale_chats.is_text(request.body):
        return JsonResponse({"error": _("Only texts can be sent.")}, status=400)
    return chat_messages(request, chat_id)


class ChatMembersView(MembersOnlyMixin, View):
    """GET: the names of the members by id, as JSON. POST: add a member."""

    def get(self, request: HttpRequest, pk: int) -> HttpResponse:
        return JsonResponse(sale_chats.member_names(pk, request.user))

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        form = ChatMemberForm(request.POST)
        if not form.is_valid():
            messages.error(request, form.errors["member"][0])
            return redirect("chat", pk)
        member = form.cleaned_data["member"]
        try:
            if not sale_chats.add_member(pk, request.user, member):
                messages.error(request, _("%(name)s is a member already.") % {"name": member})
        except ChatFull:
            messages.error(request, _("The chat is full."))
        return redirect("chat", pk)


class LeaveChatView(MembersOnlyMixin, View):
    """Leave a chat."""

    def post(self, request: HttpRequest, pk: int) -> HttpResponse:
        sale_chats.leave(pk, request.user)
        messages.success(request, _("You left the chat."))
        return redirect("chats")
