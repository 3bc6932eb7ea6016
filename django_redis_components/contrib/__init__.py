"""Adapters between the components and other packages, and what a site installs in addition.

================  =====================================================================================
``django_tasks``  backend for Django's own Tasks framework (6.0, 6.1) and for its backport on 5.2
``drf``           throttle for Django REST framework
``opentelemetry`` spans that continue from the code that enqueues a task to its runs
``outbox``        an app with a table: tasks enqueued on commit are stored until they are sent
``prometheus``    collector, metrics view and Grafana dashboard for Prometheus
================  =====================================================================================

None of them is imported by default.
"""
