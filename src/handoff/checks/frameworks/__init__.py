"""Test frameworks: how one is recognised and run."""
