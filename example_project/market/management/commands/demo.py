"""``manage.py demo``: run all processes of the demo shop with one command."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import NoReverseMatch, reverse

from example_project.demo.run import Demo, DemoError
from example_project.market.content.opening import sign_in_hint
from tools.localserver import ServerError


def port(text: str) -> int:
    """A port that needs no privileges."""
    if text.isdecimal() and 1024 <= int(text) <= 65_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: expected a port from 1024 to 65000")


class Command(BaseCommand):
    help = (
        "Run the demo shop: an embedded Valkey server (or the server of REDIS_URL), a worker with four processes, "
        "a poller and the site. Data is kept in .data, or in the folder of DEMO_DATA_DIR. Ctrl-C stops everything."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--port",
            type=port,
            default=8000,
            help="Port of the site; the next free port is used if it is taken. Default: 8000.",
        )
        parser.add_argument(
            "--no-sample-data",
            dest="has_sample_data",
            action="store_false",
            help="Do not write invented visitors, tasks and failures of the past at the first start.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            Demo(
                port=options["port"],
                dashboard_path=_dashboard_path(),
                tour_path=reverse("tour"),
                sign_in_hint=sign_in_hint,
                has_sample_data=options["has_sample_data"],
            ).run()
        except (DemoError, ServerError) as exc:
            raise CommandError(str(exc)) from None


def _dashboard_path() -> str:
    try:
        return reverse("admin:django_redis_components_overview_changelist")
    except NoReverseMatch:
        return reverse("admin:index")
