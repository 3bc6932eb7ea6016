"""Adapters between our rooms and what others have made.

================  =====================================================================================
``django_tasks``  backend for Django's own Tasks framework (6.0, 6.1) and for its backport on 5.2
``drf``           throttle for Django REST framework
================  =====================================================================================

Nothing here is imported unless the site asks for it.
"""
