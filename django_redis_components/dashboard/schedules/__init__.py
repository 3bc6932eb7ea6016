"""The page of schedules: periodic tasks with their outcomes, and what is due in the next 24 hours."""
