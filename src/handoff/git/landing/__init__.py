"""Merging branches in memory, and moving the target when all is well."""
