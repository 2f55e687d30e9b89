"""Commands about features and their plans."""
