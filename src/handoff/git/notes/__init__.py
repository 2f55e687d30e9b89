"""What was verified, written on the commit itself."""
