"""Commands about git safety."""
