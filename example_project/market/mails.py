"""Mails. Each function sends one and returns its subject."""

from __future__ import annotations

from django.core.mail import EmailMessage
from django.utils.translation import gettext as _

from example_project.market.models import Item, Member

#: Who looks at new links.
MODERATORS = '"Moderators" <moderators@example.test>'


def notify_sold(item: Item) -> str:
    """Notify the seller of a sale, with buyer and price."""
    subject = _("Sold: %(title)s") % {"title": item.title}
    body = _(
        "Hello %(seller)s,\n\n"
        "%(buyer)s bought your %(title)s for %(price)s gold.\n"
        "Please hand it over at the market gate.\n\n"
        "The Sellers' Market"
    ) % {"seller": item.seller, "buyer": item.buyer, "title": item.title, "price": item.price}
    return _send(item.seller, subject, body)


def notify_unsold(item: Item) -> str:
    """Notify the seller that the sale ended without a buyer."""
    subject = _("Not sold: %(title)s") % {"title": item.title}
    body = _(
        "Hello %(seller)s,\n\n"
        "the sale of your %(title)s has ended. It was not bought for %(price)s gold.\n"
        "You may list it again, perhaps for a little less.\n\n"
        "The Sellers' Market"
    ) % {"seller": item.seller, "title": item.title, "price": item.price}
    return _send(item.seller, subject, body)


def forward_message(sender: Member, recipient: Member, text: str) -> str:
    """Send a member's message to another member."""
    subject = _("A letter from %(sender)s") % {"sender": sender}
    return _send(recipient, subject, text, reply_to=sender)


def report_links(sender: Member, links: list[str]) -> str:
    """Tell the moderators about links that were never sent before."""
    subject = _("New links in a letter from %(sender)s") % {"sender": sender}
    EmailMessage(subject, "\n".join(links), to=[MODERATORS]).send()
    return subject


def _send(to: Member, subject: str, body: str, reply_to: Member | None = None) -> str:
    mail = EmailMessage(subject, body, to=[_mailbox(to)], reply_to=[_mailbox(reply_to)] if reply_to else None)
    mail.send()
    return subject


def _mailbox(member: Member) -> str:
    name = str(member).replace("\\", "").replace('"', "").replace("\n", " ").replace("\r", " ")
    return f'"{name}" <{member.address}>'
