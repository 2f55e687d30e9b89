"""Which claim a command means, when a person names the task in the short way or has the same name elsewhere."""

from __future__ import annotations

from sandbox import Cli, Repo

MANIFEST = """schema_version = 2
batch_id = "login"
fan_in_task = "login-join"
[[sub_tasks]]
id = "form"
brief = "Build the form."
file_ownership = [{ type = "exact", path = "form.py" }]
[[sub_tasks]]
id = "mail"
brief = "Send the mail."
file_ownership = [{ type = "exact", path = "mail.py" }]
"""


def test_a_part_may_be_reported_by_the_name_it_was_claimed_by(tmp_path):
    for name in ("left", "right"):  # two projects with a batch of the same name
        repo = Repo.create(str(tmp_path / name))
        repo.write("split.toml", MANIFEST)
        repo.commit("split")
        cli = Cli(repo.path)
        cli("dump", "--open-batch", "split.toml")
        cli("task", "claim", "form")
    assert "login/form is done" in cli("task", "done", "form").out
    cli("task", "claim", "mail")
    assert "login/mail is done" in cli("task", "done", "login/mail").out
