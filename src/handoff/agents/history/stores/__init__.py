"""The clients' own stores of sessions, one file a client: found by folder, read row by row, never changed."""
