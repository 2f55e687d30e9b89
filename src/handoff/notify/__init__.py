"""Tell people and programs what happened: channels, the words, apprise and signed webhooks."""
