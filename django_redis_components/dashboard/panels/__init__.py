"""Registered panels: reading and showing them, the pages that consist of them, and the panels of the package."""
