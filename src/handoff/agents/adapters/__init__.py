"""One file for each agent: how it is found, started and read."""
