"""What goes on in a worker process: fetching, running and settling tasks."""
