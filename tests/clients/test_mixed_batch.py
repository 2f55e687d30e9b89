"""One batch of a real package: a part by Claude Code, a part by Codex, and the package's own suite as the judge of the whole."""

from __future__ import annotations

import json
import os
import sys

import pytest

from real_clients import package, program, unpack
from sandbox import absent

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude",)
PACKAGE = ("inflection", "0.5.1")
DONE = ("shell", f"{sys.executable} -m handoff.surfaces.cli.main task done --summary made")
PARTS = {
    "claude": ("counted", "'1 post'", "counted(1, 'posts')"),
    "codex": ("initials", "'AR'", "initials('active_record')"),
}
CODE = {
    "counted": "from inflection import pluralize, singularize\n\n\ndef counted(number, noun):\n"
    '    return f"{number} {singularize(noun) if number == 1 else pluralize(noun)}"\n',
    "initials": "from inflection import camelize\n\n\ndef initials(word):\n"
    '    return "".join(sign for sign in camelize(word) if sign.isupper())\n',
}


def _make(name: str, wanted: str, call: str) -> tuple[str, str]:
    """One line of shell that writes a module of the package and its test."""
    test = f"from inflection.{name} import {name}\n\n\ndef test_{name}():\n    assert {call} == {wanted}\n"
    files = {f"inflection/{name}.py": CODE[name], f"test_{name}.py": test}
    return "shell", "; ".join(f"printf '%b' {_quoted(text)} > {path}" for path, text in files.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("\n", "\\n").replace("'", "'\\''") + "'"


@pytest.fixture
def shop(stage):
    """The package in a repository, and both clients speaking to a model of their own."""
    stage.need()
    if program("codex") is None:
        absent("codex (make test-clients installs it)")
    stage.cli("cancel", "demo")
    unpack(package(*PACKAGE), stage.repo.path)
    stage.repo.git("add", "-A")
    stage.repo.git("commit", "-qm", "inflection")
    stage.environment["PATH"] = f"{stage.root}/bin:{os.path.dirname(sys.executable)}:/usr/bin:/bin"
    stage.serve(_make(*PARTS["claude"]), DONE, ("say", "made"), DONE, ("say", "joined"))
    stage.become("codex")
    stage.serve(_make(*PARTS["codex"]), DONE, ("say", "made"))
    stage.set(agents=f"{{ codex = {{ arguments = {json.dumps(stage.words())} }} }}")
    return stage


def test_claude_and_codex_each_do_a_part_and_the_packages_own_suite_judges_the_whole(shop):
    parts = [
        {
            "id": name,
            "agent": agent,
            "brief": f"Write {name}() and its test.",
            "estimated_minutes": 1,
            "file_ownership": [
                {"type": "exact", "path": f"inflection/{name}.py"},
                {"type": "exact", "path": f"test_{name}.py"},
            ],
            "check": f"test -s test_{name}.py",
        }
        for agent, (name, _, _) in PARTS.items()
    ]
    manifest = {
        "schema_version": 2,
        "batch_id": "more",
        "fan_in_task": "more-join",
        "agent": "claude",
        "sub_tasks": parts,
    }
    path = os.path.join(shop.root, "split.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    answer = shop.cli("batch", "run", path, "--agents", "claude,codex", "--json", code=None)
    logs = "\n".join(shop.log({"session": name}) for name in shop.sessions())
    assert answer.json["verdict"] == "landed", f"{answer.err}\n{logs}"
    assert sorted(answer.json["landed"]) == ["counted", "initials"]
    report = shop.cli("batch", "report", "more", "--json").json
    assert "checked with the project's own suite" in report["judged_by"]
    agents = shop.repo.git("log", "--format=%(trailers:key=Handoff-Agent,valueonly)", "-2").split()
    assert sorted(agents) == ["claude", "codex"]
    assert "def test_counted" in shop.repo.read("test_counted.py")
    assert shop.cli("check", "--json").json["green"]
    shop.note("does a part of a batch beside another client")
