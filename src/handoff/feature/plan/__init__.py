"""The plan inside STATE.md: its grammar, its lines, careful edits."""
