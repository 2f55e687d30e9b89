"""A whole working tree kept as a commit, and brought back."""
