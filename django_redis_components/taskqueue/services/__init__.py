"""What `runworker` and `runpoller` start: the supervisor of worker processes, and the poller."""
