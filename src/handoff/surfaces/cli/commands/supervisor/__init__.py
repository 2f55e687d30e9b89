"""Commands about what runs by itself."""
