"""Forges: what is asked of GitHub and GitLab, through the person's own `gh` and `glab`; no token of ours."""
