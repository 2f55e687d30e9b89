"""What happened in a session, whoever ran it: the clients' own records as neutral entries, and the facts a successor needs."""
