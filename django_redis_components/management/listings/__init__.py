"""Tables and JSON that several groups of `manage.py redis` print."""
