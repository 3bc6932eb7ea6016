"""Forms: list an item, write to a member, write in a chat, add a member to a chat."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_redis_components.autocomplete import AutocompleteModelField, AutocompleteMultipleChoiceField
from example_project.market import contacts
from example_project.market.models import Item
from example_project.market.sale_chats import MAX_TEXT

#: Durations of a sale in seconds. The short ones let a visitor watch a sale end.
DURATIONS = [
    (10, _("10 seconds")),
    (60, _("1 minute")),
    (3_600, _("1 hour")),
    (86_400, _("1 day")),
    (7 * 86_400, _("1 week")),
    (30 * 86_400, _("30 days")),
]


class ItemForm(forms.ModelForm):
    """List an item for sale."""

    lasts_s = forms.TypedChoiceField(label=_("The sale lasts"), choices=DURATIONS, coerce=int, initial=86_400)

    class Meta:
        model = Item
        fields = ["title", "kind", "price", "description"]
        widgets = {"description": forms.Textarea(attrs={"rows": 4})}
        help_texts = {"price": _("In gold.")}

    def sale(self) -> dict[str, Any]:
        """Return the arguments of ``deals.list_item``."""
        given = dict(self.cleaned_data)
        return {"sale_ends_at": timezone.now() + timedelta(seconds=given.pop("lasts_s")), **given}


class LetterForm(forms.Form):
    """Write a message to a member, selected by name."""

    to = AutocompleteModelField(contacts.INDEX, label=_("To"))
    copy_to = AutocompleteMultipleChoiceField(contacts.INDEX, label=_("Copy to"), required=False)
    text = forms.CharField(label=_("Letter"), widget=forms.Textarea(attrs={"rows": 7}), max_length=4000)


class ChatMessageForm(forms.Form):
    """Write a message in a chat. The key makes a form that is sent twice one message."""

    text = forms.CharField(
        label=_("Message"), max_length=MAX_TEXT, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    key = forms.CharField(max_length=36, initial=uuid.uuid4, widget=forms.HiddenInput)


class ChatMemberForm(forms.Form):
    """Add a member to a chat, selected by name."""

    member = AutocompleteModelField(contacts.INDEX, label=_("Add a member"))
