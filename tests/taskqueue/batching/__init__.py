"""Batches: one run gets several calls of a task."""
