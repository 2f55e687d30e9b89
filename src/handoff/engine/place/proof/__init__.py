"""Done is derived: baselines, checks on exact trees, records on commits, and the sandbox that checks run in."""
