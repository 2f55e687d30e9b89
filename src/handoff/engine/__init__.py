"""Journeys: the only floor where two rooms meet."""
