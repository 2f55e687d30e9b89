"""Reading what a test run wrote, and why a test failed."""
