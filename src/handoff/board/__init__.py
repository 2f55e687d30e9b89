"""Who works on what: tasks, sessions, leases, batches, gates, the journal."""
