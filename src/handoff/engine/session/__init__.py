"""A session's life: placed, sandboxed, started, watched, concluded."""
