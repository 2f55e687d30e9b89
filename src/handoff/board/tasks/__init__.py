"""Rows of work: tasks, batches, flows, what they need and how they end."""
