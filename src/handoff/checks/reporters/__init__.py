"""Small programs that run inside a project's own test runner; they import nothing of ours."""
