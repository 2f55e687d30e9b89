"""Which paths a session owns: the pattern language, and where two patterns meet."""
