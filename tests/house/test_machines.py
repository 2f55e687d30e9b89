"""Image, compose file, formula and dev container feature speak of files, commands and settings that are there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

import handoff
from handoff.base import settings
from handoff.base.errors import UsageError
from handoff.surfaces.cli.dispatch import load
from sandbox import absent
from source import ROOT, read

DOCKERFILE = "release/container/Dockerfile"
COMPOSE = "release/container/compose.yaml"


def _runs(words: list[str]) -> None:
    _, parser = load(words[0], "handoff")
    parser.parse_args([re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in words[1:]])


def test_the_image_holds_what_the_package_is_built_from_and_begins_with_a_command_of_ours():
    text = read(DOCKERFILE)
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()]
    assert all(os.path.exists(os.path.join(ROOT, name)) for name in copied)
    hatch = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]
    packed, hook = hatch["build"]["targets"]["wheel"], hatch["metadata"]["hooks"]["custom"]["path"]
    for name in ("README.md", "LICENSE", hook, *packed["packages"], *packed["force-include"]):
        assert any(name == one or name.startswith(f"{one}/") for one in copied), name
    allowed = {line[1:] for line in read(f"{DOCKERFILE}.dockerignore").splitlines() if line.startswith("!")}
    assert allowed == set(copied)
    _runs(json.loads(re.findall(r"^CMD (.+)$", text, re.MULTILINE)[0]))
    with pytest.raises(UsageError):
        _runs(["work", "--no-such-word"])


def test_the_compose_file_starts_the_image_with_settings_and_a_command_of_ours():
    supervisor = yaml.safe_load(read(COMPOSE))["services"]["supervisor"]
    folder = os.path.join(os.path.dirname(COMPOSE), supervisor["build"]["context"])
    assert os.path.samefile(
        os.path.join(ROOT, folder, supervisor["build"]["dockerfile"]), os.path.join(ROOT, DOCKERFILE)
    )
    assert set(supervisor["environment"]) <= set(settings.VARIABLES)
    _runs(supervisor["command"])
    script = supervisor["entrypoint"][2].replace("$$", "$")
    subprocess.run(["sh", "-n", "-c", script], check=True)


def test_the_dev_container_feature_has_our_version_and_a_script_that_a_shell_reads():
    feature = json.loads(read("release/devcontainer/handoff/devcontainer-feature.json"))
    assert feature["version"] == handoff.__version__
    script = read("release/devcontainer/handoff/install.sh")
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert {name.upper() for name in feature["options"]} == {"FROM"} <= set(re.findall(r"\$\{(\w+):-", script))


def test_ruby_reads_the_formula():
    if shutil.which("ruby") is None:
        absent("ruby")
    subprocess.run(
        ["ruby", "-c"],
        input=read("release/homebrew/handoff-relay.rb"),
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
