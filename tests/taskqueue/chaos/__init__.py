"""Crashes and outages under load. The processes are real and so are their deaths."""
