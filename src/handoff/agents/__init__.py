"""Coding agents, one file each."""
