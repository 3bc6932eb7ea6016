"""Problems: what is wrong with the site's Redis components now, each with its remedy.

One list of checks feeds the overview, `manage.py redis doctor`, ``healthz``, the metrics and the notifications. Most
checks read what the overview reads anyway. Those that need more (`watched`) are run by one process of the site, which
also stores when each problem started (`watcher`, `incidents`) and sends notifications (`notifications`).

A site adds a check in `AppConfig.ready()`::

    from django_redis_components.dashboard.problems import Problem, register_check

    @register_check
    def unpaid_orders(facts):
        count = Order.objects.filter(state="unpaid").count()
        if count > 100:
            yield Problem("unpaid_orders", f"{count} orders are unpaid.", "Ask the payment provider.")

Keys, in one Cluster slot:

===================================  ======  =======================================================  ========
key                                  type    content                                                  TTL
===================================  ======  =======================================================  ========
``<prefix>:problems:{<alias>}:…``
``…lease``                           string  id of the process that watches                           45 s
``…starting``                        string  when a process has started to watch                      10 min
``…held``                            string  JSON: what the server held when it was last watched      none
``…facts``                           string  JSON by check: when it was made, and what it has found   1 h
``…connections``                     string  JSON: the facts of further connections, by alias              1 h
``…incidents``                       string  JSON: the open incidents, and their notifications        90 days
``…resolved``                        list    JSON: the last 200 resolved incidents, newest first      90 days
``…commands``                        list    see `dashboard.actions.commands`                        90 days
===================================  ======  =======================================================  ========
"""

from __future__ import annotations

from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.registry import register_check

__all__ = ["Problem", "register_check"]
