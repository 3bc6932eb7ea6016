"""An app with a periodic task, for commands in child processes."""
