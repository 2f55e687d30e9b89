"""What a person, a script or another session does with work: written, split, run as a flow, taken, stopped, undone."""
