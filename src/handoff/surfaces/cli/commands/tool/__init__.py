"""Commands about the tool itself."""
