"""Counting what a test asserts."""
