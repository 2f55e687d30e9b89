"""The manifest of a batch: read, checked, verified against the repository before anything starts, and an example of one."""
