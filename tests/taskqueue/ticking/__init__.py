"""An app with a periodic task, for the commands in processes of their own."""
