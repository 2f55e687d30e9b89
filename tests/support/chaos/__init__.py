"""Chaos: random batches over the real verbs, judged against a model of their own."""
