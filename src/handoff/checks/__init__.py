"""Commands the orchestrator runs itself, and their verdicts."""
