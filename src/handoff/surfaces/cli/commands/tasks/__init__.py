"""Commands about the relay's tasks, batches and gates."""
