"""A run of a suite: started clean, sealed where its runner is known to us, read within limits."""
