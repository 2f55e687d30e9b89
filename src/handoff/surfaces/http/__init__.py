"""What every HTTP port of ours has in common: where it listens, and how it treats connections."""
