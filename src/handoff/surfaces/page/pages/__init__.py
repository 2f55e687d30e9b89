"""What each page shows, read from the rows; how it looks is in the templates."""
