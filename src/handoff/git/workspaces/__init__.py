"""Folders in which sessions work apart: worktrees, clones, scratch trees."""
