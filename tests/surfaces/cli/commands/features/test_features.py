"""`init`, `switch`, `list`, `archive`, `clean`, `export`, `ignore`: whole conversations, nothing lost."""

from __future__ import annotations

import os
import subprocess

import pytest

from workspaces import put, ready

FILES = ["DESIGN.md", "FEATURE.md", "SESSION.md", "SPEC.md", "STATE.md"]


def names(path: str) -> list[str]:
    return sorted(name for name in os.listdir(path) if not name.startswith("."))


def test_init_writes_the_five_documents_and_makes_the_feature_active(cli, repo):
    answer = cli("init", "login-form")
    assert "Initialized feature: login-form" in answer.out
    assert names(f"{repo.path}/.handoff/features/login-form") == FILES
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/login-form"
    assert repo.read(".handoff/config.toml") == '# handoff configuration\nlanguage = "English"\n'


def test_init_in_a_sub_folder_uses_the_repository_top(cli, repo):
    os.makedirs(f"{repo.path}/src/deep")
    cli("init", "one", cwd=f"{repo.path}/src/deep")
    assert os.path.isdir(f"{repo.path}/.handoff/features/one")
    assert cli("list", cwd=f"{repo.path}/src/deep").out == "* one\n"


@pytest.mark.parametrize("name", ["Login", "a--b", "-a", "a-", "a_b", "../x", "/tmp/x", "", "x" * 65, "ä"])
def test_a_bad_name_is_refused_before_anything_is_written(cli, repo, name):
    answer = cli("init", "--", name, code=1)
    assert answer.err.startswith(f"Error: Invalid feature name '{name}'.")
    assert not os.path.exists(f"{repo.path}/.handoff")


def test_a_second_feature_asks_before_it_becomes_active(cli, repo):
    cli("init", "one")
    no = cli("init", "two", stdin="")
    assert "switch two" in no.out
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/one"
    cli("init", "three", stdin="y\n")
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/three"
    cli("init", "four", "--force")
    assert cli("list").out == "* four\n  one\n  three\n  two\n"


def test_init_again_writes_only_what_is_missing(cli, repo):
    cli("init", "one")
    put(repo.path, ".handoff/features/one/FEATURE.md", "mine")
    os.unlink(f"{repo.path}/.handoff/features/one/DESIGN.md")
    answer = cli("init", "one")
    assert "DESIGN.md" in answer.out
    assert "Initialized" not in answer.out
    assert repo.read(".handoff/features/one/FEATURE.md") == "mine"
    assert "nothing was changed" in cli("init").out


def test_switch_changes_the_link_and_says_so(cli, repo):
    cli("init", "one")
    cli("init", "two", "--force")
    assert cli("switch", "one").out == "Active feature: one\n"
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/one"


@pytest.mark.parametrize("name", ["..", ".", "/etc", "../features/one", "nope"])
def test_switch_takes_names_not_paths(cli, repo, name):
    cli("init", "one")
    cli("switch", name, code=1)
    cli("archive", name, code=1)
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/one"


def test_a_real_folder_at_current_is_never_deleted(cli, repo):
    cli("init", "one")
    os.unlink(f"{repo.path}/.handoff/current")
    put(repo.path, ".handoff/current/FEATURE.md", "precious notes")
    answer = cli("switch", "one", code=3)
    assert "real folder" in answer.err
    cli("init", "two", "--force", code=3)
    assert repo.read(".handoff/current/FEATURE.md") == "precious notes"


def test_a_pointer_file_works_where_links_do_not(cli, repo):
    ready(cli, repo, "one")
    os.unlink(f"{repo.path}/.handoff/current")
    put(repo.path, ".handoff/current", "features/one")
    assert cli("status", "--json").json["feature"] == "one"


def test_two_terminals_can_work_on_two_features(cli, repo):
    ready(cli, repo, "one")
    cli("init", "two")
    assert cli("--feature", "two", "status", "--json").json["feature"] == "two"
    assert cli("status", "--feature", "two", "--json").json["feature"] == "two"
    cli.environment["HANDOFF_FEATURE"] = "two"
    assert cli("status", "--json").json["feature"] == "two"
    assert cli("--feature", "one", "status", "--json").json["feature"] == "one"
    assert os.readlink(f"{repo.path}/.handoff/current") == "features/one"


def test_a_linked_worktree_sees_the_workspace_of_the_main_checkout(cli, repo, tmp_path):
    ready(cli, repo, "one")
    repo.git("worktree", "add", "-q", str(tmp_path / "tree"))
    answer = cli("status", "--json", cwd=str(tmp_path / "tree"))
    assert answer.json["feature"] == "one"
    cli("ignore", cwd=str(tmp_path / "tree"))


def test_a_submodule_sees_the_workspace_of_the_project_around_it(cli, repo, tmp_path):
    ready(cli, repo, "one")
    inner = type(repo).create(str(tmp_path / "inner"))
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path, "libs/inner")
    assert cli("status", "--json", cwd=f"{repo.path}/libs/inner").json["feature"] == "one"


def test_archive_renames_and_clears_the_active_feature(cli, repo):
    cli("init", "one")
    assert cli("archive", "one").out.startswith("Archived: .handoff/features/one.archived\n")
    assert not os.path.lexists(f"{repo.path}/.handoff/current")
    assert "No feature is active here." in cli("status").out
    assert "No active feature found. Run: handoff init" in cli("next", code=1).err
    cli("init", "one")
    assert "there is one of that name" in cli("archive", "one", code=1).err
    assert os.path.isdir(f"{repo.path}/.handoff/features/one")


def test_an_archived_feature_comes_back_and_every_hint_on_the_way_can_be_typed(cli, repo):
    cli("init", "one")
    put(repo.path, ".handoff/features/one/notes.md", "precious")
    assert "handoff unarchive one\n" in cli("archive", "one").out
    for words in (["switch", "one.archived"], ["switch", "one"], ["archive", "one"], ["--feature", "one", "status"]):
        assert "handoff unarchive one\n" in cli(*words, code=None).err, words
    assert cli("unarchive", "one").out == "Back: .handoff/features/one\nActive feature: one\n"
    assert repo.read(".handoff/current/notes.md") == "precious"
    assert "is not archived" in cli("unarchive", "one", code=1).err
    assert "not found" in cli("unarchive", "never", code=1).err
    cli("archive", "one")
    said = cli("init", "one").out
    assert "An archived feature of that name is here too" in said
    assert "handoff unarchive one --as one-2\n" in said
    assert "--as one-2" in cli("unarchive", "one", code=3).err
    assert "--as one-2" in cli("archive", "one", code=1).err
    assert "Another feature stays active" in cli("unarchive", "one.archived", "--as", "one-2").out
    assert repo.read(".handoff/features/one-2/notes.md") == "precious"
    assert cli("list").out == "* one\n  one-2\n"


def test_archive_clean_and_unarchive_are_taken_back_by_undo(cli, repo):
    for name in ("one", "two", "three"):
        cli("init", name, "--force")
    put(repo.path, ".handoff/features/two/notes.md", "precious")
    cli("archive", "three")
    assert not os.path.lexists(f"{repo.path}/.handoff/current")
    assert "archive of three" in cli("undo", "--list").out
    assert "Would move .handoff/features/three.archived to .handoff/features/three." in cli("undo", "--dry-run").out
    cli("undo")
    assert cli("list").out == "  one\n* three\n  two\n"
    cli("undo")  # the undo is an operation like any other
    assert cli("list").out == "  one\n  three.archived\n  two\n"
    cli("unarchive", "three")
    cli("undo")
    assert names(f"{repo.path}/.handoff/features") == ["one", "three.archived", "two"]

    cli("switch", "one")
    said = cli("clean", "--force", "--archived").out
    assert names(f"{repo.path}/.handoff/features") == []
    cli("init", "two")
    [hint] = [line for line in said.splitlines() if "handoff undo" in line]
    refused = cli("undo", hint.split()[-1], code=3).err
    assert ".handoff/features/two is there already. Nothing was changed." in refused
    os.rename(f"{repo.path}/.handoff/features/two", f"{repo.path}/.handoff/features/two-2")
    os.unlink(f"{repo.path}/.handoff/current")
    cli("undo", hint.split()[-1])
    assert cli("list").out == "* one\n  three.archived\n  two\n  two-2\n"
    assert repo.read(".handoff/features/two/notes.md") == "precious"
    assert "no longer there" in cli("undo", hint.split()[-1], code=3).err
    assert ".moves" not in repo.git("status", "--porcelain", "--untracked-files=all")


def test_clean_previews_asks_spares_archives_and_moves_to_the_trash(cli, repo):
    for name in ("one", "two", "old"):
        cli("init", name, "--force")
    cli("archive", "old")
    cli("switch", "one")
    put(repo.path, ".handoff/features/two/notes.md", "precious")
    declined = cli("clean", stdin="n\n")
    assert "to the trash: two" in declined.err
    assert "Nothing was moved." in declined.out
    answer = cli("clean", stdin="y\n")
    assert "Removed 1 feature(s)." in answer.out
    assert names(f"{repo.path}/.handoff/features") == ["old.archived", "one"]
    [moved] = names(f"{repo.path}/.handoff/trash")
    assert repo.read(f".handoff/trash/{moved}/notes.md") == "precious"


def test_clean_force_takes_the_active_feature_but_still_only_to_the_trash(cli, repo):
    cli("init", "one")
    cli("clean", "--force")
    assert not os.path.lexists(f"{repo.path}/.handoff/current")
    assert len(names(f"{repo.path}/.handoff/trash")) == 1


def test_export_stamps_the_version_keeps_earlier_edits_and_shows_differences(cli, repo):
    cli("init", "one")
    assert "Exported 12 templates" in cli("export").out
    path = ".handoff/templates/default_continue_prompt.md"
    text = repo.read(path)
    assert text.startswith("<!-- handoff template default_continue_prompt.md ")
    put(repo.path, path, text.replace("An earlier session", "My old words"))
    assert "+An earlier session" in cli("export", "--diff").out
    assert cli("export", stdin="").out == "Export cancelled.\n"
    kept = cli("export", "--force", "--json").json["kept"]
    assert "My old words" in repo.read(f"{kept}/default_continue_prompt.md")
    assert "My old words" not in repo.read(path)


def test_ignore_toggles_one_line_and_keeps_every_other_byte(cli, repo):
    path = f"{repo.path}/.git/info/exclude"
    before = b"# mine\r\n*.o"
    with open(path, "wb") as file:
        file.write(before)
    cli("init", "one")
    cli("ignore")
    assert repo.git("status", "--porcelain") == ""
    cli("ignore")
    with open(path, "rb") as file:
        assert file.read().startswith(before)
    assert ".handoff/" in repo.git("status", "--porcelain")
    assert os.listdir(os.path.dirname(path)) == ["exclude"]


def test_handoff_alone_tells_what_to_do_next(cli, repo):
    assert "handoff init my-feature" in cli().out
    cli("init", "one")
    assert "edit .handoff/features/one/FEATURE.md" in cli().out
    assert cli("--json").json["next"]["command"].startswith("edit ")


def test_unknown_commands_options_and_values_are_usage_errors(cli):
    assert "Did you mean: status" in cli("statsu", code=2).err
    cli("status", "--nope", code=2)
    cli("completion", "tcsh", code=2)
    cli("--nope", code=2)
    cli("-C", "/nowhere/at/all", "status", code=2)


def test_a_closed_pipe_is_quiet(cli, repo):
    for number in range(30):
        cli("init", f"feature-{number}", "--force")
    done = subprocess.run(
        f"{' '.join(cli.command('--help'))} | head -1", shell=True, cwd=repo.path, env=cli.full_environment(),
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == b""
    assert done.stdout.startswith(b"handoff: the relay")


def test_a_broken_config_names_file_line_and_key(cli, repo):
    ready(cli, repo)
    put(repo.path, ".handoff/config.toml", 'language = "English"\n\nbugdet = 5\n')
    error = cli("status", code=1).err
    assert "config.toml:3: unknown key 'bugdet'" in error
    assert "Did you mean 'budget'?" in error
    put(repo.path, ".handoff/config.toml", "language = English\n")
    assert "config.toml:1: not valid TOML" in cli("status", code=1).err
    put(repo.path, ".handoff/config.toml", 'budget = "many"\n')
    assert "'budget' must be a whole number" in cli("status", code=1).err


def test_a_file_that_is_not_utf8_is_named_with_its_line(cli, repo):
    base = ready(cli, repo)
    with open(f"{repo.path}/{base}/SESSION.md", "wb") as file:
        file.write(b"# Session\nf\xfcr\n")
    assert "SESSION.md: line 2 is not UTF-8 (byte 0xfc)" in cli("status", code=1).err


def test_an_optional_document_may_be_missing_and_a_required_one_is_told_how_to_get_back(cli, repo):
    base = ready(cli, repo)
    os.unlink(f"{repo.path}/{base}/DESIGN.md")
    os.unlink(f"{repo.path}/{base}/SPEC.md")
    cli("status")
    cli("continue", "--raw")
    os.unlink(f"{repo.path}/{base}/SESSION.md")
    error = cli("status", code=1).err
    assert "Missing required file: SESSION.md" in error
    assert "handoff init login" in error


def test_something_in_the_way_gives_a_reason_and_no_half_state(cli, repo):
    put(repo.path, ".handoff", "in the way")
    assert "Cannot create the folder" in cli("init", "one", code=1).err
    assert repo.read(".handoff") == "in the way"


def test_advice_can_be_typed_from_where_the_person_stands(cli, repo):
    cli("init", "one")
    cli("init", "two")
    os.makedirs(f"{repo.path}/src/deep")
    said = cli("next", "--json", cwd=f"{repo.path}/src/deep").json["command"]
    assert said == "edit ../../.handoff/features/one/FEATURE.md"
    ready(cli, repo, "two")
    assert cli("--feature", "two", "next", "--json").json["command"] == "handoff --feature two run --copy"


def test_handoffs_own_home_cannot_hold_features(cli, tmp_path):
    home = tmp_path / "person"
    home.mkdir()
    cli.environment.update(HOME=str(home), HANDOFF_HOME=str(home / ".handoff"))
    assert "own home" in cli("init", "one", code=1, cwd=str(home)).err
    assert not (home / ".handoff").exists()
