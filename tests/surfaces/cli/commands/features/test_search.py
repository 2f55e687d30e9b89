"""`search`, over all that is written down and said."""

from __future__ import annotations

from scripts import handoff, write_script

SECRET = "ghp_" + "a1B2c3D4e5" * 4


def test_one_question_finds_documents_briefs_reports_notes_and_words_of_a_session(cli, repo, tmp_path):
    cli("init", "login")
    cli("decide", "The link is valid for an hour", "--because", "mail is slow")
    cli("task", "add", "send-mail", "Send the sign-in link.", "--check", "true")
    script = write_script(
        str(tmp_path / "script.toml"), {"run": "echo I looked at the sign-in link"}, {"run": handoff("task", "done")}
    )
    cli("session", "start", "send-mail", "--agent", "scripted", "--with", script, code=None)
    hits = cli("search", "link", "--json").json["hits"]
    kinds = {hit["kind"] for hit in hits}
    assert {"decision", "brief", "transcript"} <= kinds, hits
    (said,) = [hit for hit in hits if hit["kind"] == "transcript"]
    assert cli(*said["look"].split()[1:]).code == 0
    (brief,) = [hit for hit in hits if hit["kind"] == "brief"]
    assert (brief["task"], brief["look"]) == ("send-mail", "handoff show send-mail")
    shown = cli("search", "link", "--kind", "decision").out
    assert "valid for an hour" in shown
    assert "sign-in" not in shown


def test_other_projects_are_searched_on_request_and_older_ones_by_number(cli, repo):
    for number in range(3):
        cli("task", "add", f"part-{number}", "Paint the fence.")
    cli("task", "add", "elsewhere", "Paint the fence too.", "--project", "garden")
    first = cli("search", "fence", "--limit", "2")
    assert "elsewhere" not in first.out
    assert "part-0" not in first.out
    number = first.err.rpartition("--before ")[2].strip()
    assert "part-0" in cli("search", "fence", "--before", number).out
    assert "handoff show elsewhere --project garden" in cli("search", "fence", "--all-projects").out


def test_a_question_nobody_can_answer_has_no_traceback(cli, repo):
    for words in ('"', "***", ""):
        assert "For example: handoff search" in cli("search", words, code=1).err
    assert "transcript" in cli("search", "x", "--kind", "smell", code=1).err
    assert cli("search", 'fence" OR (').out == 'Nothing in project repo has fence" OR (.\n'


def test_what_looks_like_a_secret_is_shown_by_no_search(cli, repo):
    cli("init", "login")
    path = repo.path + "/.handoff/features/login/SPEC.md"
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"\nThe deploy uses {SECRET} today.\n")
    found = cli("search", "deploy", "uses")
    assert "The deploy uses" in found.out
    assert SECRET not in found.out
