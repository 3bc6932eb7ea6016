"""What operators see and do: queues, failures, figures, and `manage.py queues`."""
