"""Work that comes from a forge and goes back to it: issues, requests until they are merged, words that are said there once."""
