"""Measurements of the product, each beside its budget. Run: python -m bench."""
