"""What a client's output means: lines, outcomes, until when to wait."""
