"""Commands about agents, their sessions and their settings."""
