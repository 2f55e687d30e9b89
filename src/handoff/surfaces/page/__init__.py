"""The page: what needs you, what runs, what landed and what is next, in a browser, also on the phone."""
