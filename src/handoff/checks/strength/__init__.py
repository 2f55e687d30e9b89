"""How much a suite notices: mutants."""
