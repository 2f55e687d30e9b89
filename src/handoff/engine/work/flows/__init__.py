"""A workflow that runs: its state, its phases, who judges them and what follows."""
