"""A feature's documents: its folder, its plan, the prompt for the next session."""
