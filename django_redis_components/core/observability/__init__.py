"""What a process tells the dashboard: live events and the names that it uses, which a thread sends once a second."""
