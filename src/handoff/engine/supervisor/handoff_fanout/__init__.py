"""Move over from handoff-fanout: read its home, open here what is live there, and change nothing of it."""
