"""Members and items."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Member(AbstractUser):
    """A member: sells and buys items, and sends messages. ``username`` is for signing in, ``name`` is displayed."""

    name = models.CharField(_("name"), max_length=80)

    class Meta(AbstractUser.Meta):
        verbose_name = _("member")
        verbose_name_plural = _("members")

    def __str__(self) -> str:
        return self.name or self.username

    def get_short_name(self) -> str:
        return str(self)

    @property
    def address(self) -> str:
        """Return the address for mails."""
        return self.email or f"{self.username}@example.test"


class Kind(models.TextChoices):
    """Kind of an item; each has a picture."""

    BLADE = "blade", _("Blades")
    SHIELD = "shield", _("Shields")
    POTION = "potion", _("Potions")
    SCROLL = "scroll", _("Maps and scrolls")
    LIGHT = "light", _("Lights")
    RING = "ring", _("Rings and charms")
    BOOTS = "boots", _("Boots and cloaks")
    MUSIC = "music", _("Instruments")


class ItemQuerySet(models.QuerySet["Item"]):
    def on_sale(self) -> ItemQuerySet:
        return self.filter(buyer=None, ended_at=None, sale_ends_at__gt=timezone.now())

    def sold(self) -> ItemQuerySet:
        return self.exclude(buyer=None)


class Item(models.Model):
    """An item for sale at a fixed price. Only ``deals`` and ``tasks`` change it after it was listed."""

    seller = models.ForeignKey(Member, verbose_name=_("seller"), on_delete=models.CASCADE, related_name="items")
    title = models.CharField(_("title"), max_length=80)
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices, default=Kind.BLADE)
    description = models.TextField(_("description"), max_length=600, blank=True)
    #: In gold, an integer.
    price = models.PositiveIntegerField(_("price"), validators=[MinValueValidator(1), MaxValueValidator(1_000_000)])
    listed_at = models.DateTimeField(_("listed"), default=timezone.now)
    sale_ends_at = models.DateTimeField(_("sale ends"))
    buyer = models.ForeignKey(
        Member, verbose_name=_("buyer"), on_delete=models.CASCADE, null=True, blank=True, related_name="bought"
    )
    sold_at = models.DateTimeField(_("sold"), null=True, blank=True)
    #: When the sale ended without a buyer.
    ended_at = models.DateTimeField(_("ended unsold"), null=True, blank=True)
    #: When the seller was notified of the sale or its end; None until the mail was sent.
    seller_notified_at = models.DateTimeField(_("seller notified"), null=True, blank=True, editable=False)

    objects = ItemQuerySet.as_manager()

    class Meta:
        verbose_name = _("item")
        verbose_name_plural = _("items")
        ordering = ["-listed_at", "-pk"]
        indexes = [models.Index(fields=["-listed_at", "-id"], name="item_newest")]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("item", args=[self.pk])

    @property
    def state(self) -> str:
        """``sold``, ``ended`` or ``open``."""
        if self.buyer_id is not None:
            return "sold"
        if self.ended_at is not None or self.sale_ends_at <= timezone.now():
            return "ended"
        return "open"

    @property
    def picture(self) -> str:
        """Return the path of its picture, relative to STATIC_URL."""
        return f"market/kinds/{self.kind}.svg"

    def may_be_bought_by(self, user: Any) -> bool:
        """Return whether the user can buy it: it is open and not the user's own."""
        return self.state == "open" and user.is_authenticated and user.pk != self.seller_id


class Rush(models.Model):
    """A hundred concurrent buyers of one item, as the page of the rush shows it."""

    #: A key of ``selling.RUSH_WAYS``.
    way = models.CharField(max_length=10)
    item = models.OneToOneField(Item, on_delete=models.CASCADE)
    started_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.item} ({self.way})"


class RushBuyer(models.Model):
    """A buyer of a rush, and the task that sends the answer."""

    class Outcome(models.TextChoices):
        WAITING = "waiting", _("waiting")
        BOUGHT = "bought", _("bought")
        SOLD_OUT = "sold_out", _("sold out")
        GAVE_UP = "gave_up", _("gave up")

    rush = models.ForeignKey(Rush, on_delete=models.CASCADE, related_name="buyers")
    number = models.PositiveSmallIntegerField()
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    #: Time from the start of the rush to the answer, in milliseconds.
    answered_ms = models.PositiveIntegerField(null=True)
    #: Runs of the task, host and process of the last one, and when the task finished.
    runs = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=200, blank=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rush", "number"], name="rush_buyer")]

    def __str__(self) -> str:
        return f"buyer {self.number}: {self.outcome}"


class RushEvent(models.Model):
    """An event of a rush that is worth a line."""

    class Kind(models.TextChoices):
        STARTED = "started", pgettext_lazy("a rush", "Started")
        SOLD = "sold", _("Sold")
        KILLED = "killed", _("Killed")
        REPEATED = "repeated", _("Repeated")
        FINISHED = "finished", _("Finished")

    rush = models.ForeignKey(Rush, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    text = models.CharField(max_length=200)

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"
