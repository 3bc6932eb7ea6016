"""Crashes and outages under load, with real processes and servers."""
