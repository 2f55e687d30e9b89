"""A task's life as people and sessions steer it: written, claimed, reported, split, opened, cancelled."""
