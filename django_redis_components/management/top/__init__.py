"""The live view of `manage.py top`."""
