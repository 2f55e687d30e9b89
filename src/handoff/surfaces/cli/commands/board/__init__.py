"""The board: what needs you, what runs, what landed and what is next, live in the terminal, with keys."""
