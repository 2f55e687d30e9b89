"""How a person starts a client with a first prompt, and how they go on with one of its sessions."""

from __future__ import annotations

from handoff.base.record import Record

PROMPT, WORDS, SESSION = "{prompt}", "{words}", "{session}"


class HandWords(Record):
    """The words of one client; `{words}` is where a person's own go, as several."""

    title: str
    first: tuple[str, ...]
    """In a terminal, with a first prompt."""
    alone: tuple[str, ...]
    """For one prompt, without anybody there."""
    again: tuple[str, ...]
    """In a terminal, with a session of its own."""


BY_HAND = {
    "claude": HandWords(
        "Claude Code",
        ("claude", PROMPT, WORDS),
        ("claude", "-p", PROMPT, WORDS),
        ("claude", "--resume", SESSION, WORDS),
    ),
    "codex": HandWords(
        "Codex",
        ("codex", WORDS, PROMPT),
        ("codex", "exec", "--skip-git-repo-check", WORDS, PROMPT),
        ("codex", "resume", WORDS, SESSION),
    ),
    "gemini": HandWords(
        "Gemini CLI",
        ("gemini", WORDS, "--prompt-interactive", PROMPT),
        ("gemini", WORDS, "-p", PROMPT),
        ("gemini", "--resume", SESSION, WORDS),
    ),
    "opencode": HandWords(
        "opencode",
        ("opencode", WORDS, "--prompt", PROMPT),
        ("opencode", "run", WORDS, PROMPT),
        ("opencode", "-s", SESSION, WORDS),
    ),
    "copilot": HandWords(
        "Copilot CLI",
        ("copilot", WORDS, "-i", PROMPT),
        ("copilot", WORDS, "-p", PROMPT),
        ("copilot", "--resume={session}", WORDS),
    ),
    "qwen": HandWords(
        "Qwen Code",
        ("qwen", WORDS, "--prompt-interactive", PROMPT),
        ("qwen", WORDS, "-p", PROMPT),
        ("qwen", "--resume", SESSION, WORDS),
    ),
    "aider": HandWords(
        "aider",
        ("aider", WORDS, "--message", PROMPT),
        ("aider", WORDS, "--message", PROMPT),
        ("aider", "--restore-chat-history", WORDS),
    ),
    "cursor": HandWords(
        "Cursor",
        ("cursor-agent", WORDS, PROMPT),
        ("cursor-agent", "-p", WORDS, PROMPT),
        ("cursor-agent", "--resume", SESSION, WORDS),
    ),
}


def start_words(
    words: tuple[str, ...], *, prompt: str = "", session: str = "", more: tuple[str, ...] = ()
) -> list[str]:
    """The words of a start, ready to run."""
    argv: list[str] = []
    for word in words:
        argv += more if word == WORDS else [prompt if word == PROMPT else word.replace(SESSION, session)]
    return argv
