"""A feature from its first words to its archive: documents, status, prompts, steps of the plan."""
