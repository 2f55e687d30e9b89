"""Keep secrets out of prompts: what looks like a key is replaced before a prompt leaves the machine."""

from __future__ import annotations

import re

_HINTS = "sk-|ghp_|gho_|ghs_|github_pat_|AKIA|ASIA|xox|AIza|glpat-|PRIVATE KEY|eyJ|://".split("|")
_SECRETS = (
    r"sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}|A[KS]IA[0-9A-Z]{16}"
    r"|xox[abposr]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}|glpat-[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
MASK = "[redacted]"


def redact(text: str) -> tuple[str, int]:
    """The text without what looks like a secret, and how many were taken out."""
    if not any(hint in text for hint in _HINTS):  # the pattern is only compiled when it may be needed
        return text, 0
    return re.subn(_SECRETS, MASK, text)
