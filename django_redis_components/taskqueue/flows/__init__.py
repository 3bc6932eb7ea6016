"""Chains and groups: tasks that wait for others and get what these return."""
