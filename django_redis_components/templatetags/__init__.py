"""Template tags: ``{% load redis_components %}``."""
