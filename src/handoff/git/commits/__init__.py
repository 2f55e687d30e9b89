"""A commit of exactly the named paths, whoever else works in the checkout."""
