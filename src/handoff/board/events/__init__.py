"""Rows that tell what happened: the journal, its long texts, incidents, who was told."""
