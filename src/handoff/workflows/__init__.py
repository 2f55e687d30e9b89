"""Workflows: named lists of phases, as data."""
