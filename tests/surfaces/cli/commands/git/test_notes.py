"""What a session leaves behind reaches the next one."""

from __future__ import annotations


def test_a_note_reaches_the_next_prompt_also_when_the_session_wrote_nothing_else(repo, cli):
    cli("init", "login")
    repo.write(".handoff/features/login/FEATURE.md", "# Goal\n\nSign in.\n")
    cli("step", "add", "Send the link")
    assert "Last session's notes" not in cli("continue", "--raw").out
    cli("note", "The mail server needs a pause between two mails.")
    prompt = cli("continue", "--raw").out
    assert "The mail server needs a pause between two mails." in prompt
    assert "None yet." not in prompt
