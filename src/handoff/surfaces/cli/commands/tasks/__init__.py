"""Commands about the relay's tasks, batches, flows and gates."""
