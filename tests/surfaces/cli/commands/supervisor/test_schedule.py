"""`handoff schedule`: what recurs, as a person sees and steers it."""

from __future__ import annotations


def test_a_person_says_what_recurs_sees_it_has_it_made_now_and_takes_it_back(cli, repo):
    said = cli("schedule", "add", "updates", "0 3 * * 1-5", "--task", "Update it all.", "--timezone", "Europe/Berlin")
    assert "03:00 CE" in said.out
    assert "none works now" in said.err
    listed = cli("schedule", "list")
    assert listed.out.startswith("updates              0 3 * * 1-5    in ")
    assert "updates" in cli().out.partition("Next")[2]
    made = cli("schedule", "run", "updates", "--json").json
    assert (made["kind"], made["state"]) == ("task", "ready")
    assert cli("show", made["id"], "--json").json["brief"] == "Update it all."
    assert cli("schedule", "list", "--json").json[0]["made"][0]["id"] == made["id"]
    assert cli("schedule", "pause", "updates").out == "updates is paused.\n"
    assert "paused" in cli("schedule").out
    assert "is made next at" in cli("schedule", "resume", "updates").out
    assert "what it made stays" in cli("schedule", "remove", "updates").out
    assert "Nothing recurs" in cli("schedule", "list").out
    assert "There is no schedule 'updates'" in cli("schedule", "run", "updates", code=1).err
    names = ["schedule added", "made on time", "schedule paused", "schedule goes on", "schedule removed"]
    told = cli("log").out
    assert [name for name in names if name not in told] == []


def test_what_would_fail_each_time_is_refused_at_once(cli, repo):
    for words, text in (
        (["61 * * * *", "--task", "Work."], "'61' is no minute"),
        (["@daily", "--task", "Work.", "--timezone", "Europe/Atlantis"], "There is no time zone"),
        (["@daily", "--flow", "nothing", "--request", "x"], "nothing"),
        (["@daily", "--batch", "none.json"], "none.json"),
        (["@daily", "--task", "Work.", "--agent", "nobody"], "nobody"),
        (["@daily", "--task", "Work.", "--keep", "0"], "--keep"),
    ):
        assert text in cli("schedule", "add", "tidy", *words, code=1).err, words
    assert (
        "--request is for --flow" in cli("schedule", "add", "tidy", "@daily", "--do", "x", "--request", "y", code=2).err
    )
    cli("schedule", "add", "tidy", "@daily", "--task", "Work.")
    assert "already" in cli("schedule", "add", "tidy", "@daily", "--task", "Work.", code=4).err
