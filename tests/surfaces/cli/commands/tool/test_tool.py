"""`completion`, `upgrade`, `version`, `rehearse`, `demo`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv

import pytest

import handoff
from sandbox import absent
from workspaces import ready

SHELLS = ("bash", "zsh", "fish", "powershell", "power-shell", "elvish")


def test_the_version_is_told_in_three_ways(cli):
    assert cli("--version").out == f"handoff {handoff.__version__}\n"
    assert cli("-V").out == f"handoff {handoff.__version__}\n"
    assert cli("version").out == f"{handoff.__version__}\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_knows_the_commands(cli, shell):
    script = cli("completion", shell).out
    for word in ("continue", "safe-commit", "--values features"):
        assert word in script


def in_shell(name, repo, tmp_path, cli, script):
    """Run a script in a real shell, with `handoff` on its PATH."""
    program = shutil.which(name) or absent(name)
    launcher = tmp_path / "bin" / "handoff"
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m handoff.surfaces.cli.main "$@"\n')
    launcher.chmod(0o755)
    environment = {**cli.full_environment(), "PATH": f"{launcher.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [program, "-c", script], cwd=repo.path, env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_bash_completes_commands_options_and_feature_names(cli, repo, tmp_path):
    ready(cli, repo, "login-form")
    ask = 'source <(handoff completion bash); COMP_WORDS=(handoff {0}); COMP_CWORD={1}; _handoff; echo "${{COMPREPLY[@]}}"'
    assert "status" in in_shell("bash", repo, tmp_path, cli, ask.format("sta", 1)).split()
    assert "login-form" in in_shell("bash", repo, tmp_path, cli, ask.format("switch ''", 2)).split()
    assert in_shell("bash", repo, tmp_path, cli, ask.format("--feature log", 2)).split() == ["login-form"]
    assert "--budget" in in_shell("bash", repo, tmp_path, cli, ask.format("continue --b", 2)).split()


def test_fish_completes_commands_and_feature_names(cli, repo, tmp_path):
    ready(cli, repo, "login-form")
    ask = "handoff completion fish | source; complete -C '{}'"
    assert "status" in in_shell("fish", repo, tmp_path, cli, ask.format("handoff stat"))
    assert "login-form" in in_shell("fish", repo, tmp_path, cli, ask.format("handoff switch "))


def test_zsh_takes_the_script(cli, repo, tmp_path):
    assert (
        in_shell(
            "zsh",
            repo,
            tmp_path,
            cli,
            "autoload -Uz compinit; compinit -u -D; source <(handoff completion zsh); print $_comps[handoff]",
        )
        == "_handoff\n"
    )


def test_elvish_takes_the_script(cli, repo, tmp_path):
    ready(cli, repo, "login-form")
    script = cli("completion", "elvish").out.replace("set edit:completion:arg-completer[handoff] =", "var complete~ =")
    assert "login-form" in in_shell("elvish", repo, tmp_path, cli, script + "\ncomplete handoff switch ''\n")
    assert "status" in in_shell("elvish", repo, tmp_path, cli, script + "\ncomplete handoff ''\n")


def installed(tmp_path, marks: dict[str, str], installer: str = "pip") -> tuple[str, dict[str, str]]:
    """A real virtual environment in which handoff looks as if another tool had installed it."""
    root = tmp_path / "env"
    venv.create(root, with_pip=False, symlinks=True)
    site = root / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (site / "handoff.pth").write_text(os.path.dirname(os.path.dirname(handoff.__file__)) + "\n")
    info = site / f"handoff_relay-{handoff.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: handoff-relay\nVersion: {handoff.__version__}\n")
    (info / "INSTALLER").write_text(installer)
    for name, text in marks.items():
        (root / name).write_text(text)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("uv", "pipx"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" > {tmp_path}/ran\n')
        (tools / name).chmod(0o755)
    return str(root / "bin" / "python"), {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("marks", "installer", "said"),
    [
        ({"uv-receipt.toml": ""}, "uv", "uv tool upgrade handoff-relay"),
        ({"pipx_metadata.json": "{}"}, "pip", "pipx upgrade handoff-relay"),
    ],
)
def test_upgrade_runs_the_tool_that_installed_it_and_what_is_missing_comes_by_it(tmp_path, marks, installer, said):
    python, environment = installed(tmp_path, marks, installer)
    lacking = subprocess.run(
        [python, "-m", "handoff.surfaces.cli.main", "task", "list"],
        env={**environment, "HANDOFF_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        f"Hint: Run: {said.replace('upgrade', 'install --force').replace('relay', 'relay[postgres]')}"
        in lacking.stderr.replace("'", "")
    )
    command = [python, "-m", "handoff.surfaces.cli.main", "upgrade"]
    dry = subprocess.run([*command, "--dry-run"], env=environment, capture_output=True, text=True, check=True)
    assert said in dry.stdout
    assert not (tmp_path / "ran").exists()
    subprocess.run(command, env=environment, capture_output=True, check=True)
    assert (tmp_path / "ran").read_text() == said + "\n"


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("container", "docker compose -f release/container/compose.yaml up --build --detach"),
        ("devcontainer", "devcontainer up --workspace-folder . --remove-existing-container"),
    ],
)
def test_upgrade_says_how_an_image_is_built_again_and_runs_nothing(tmp_path, by, said):
    python, environment = installed(tmp_path, {"handoff-installed-by": f"{by}\n"})
    command = [python, "-m", "handoff.surfaces.cli.main", "upgrade"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(f"Installed by: {by}. ")
    assert said in ran.stdout
    ran = subprocess.run([*command[:-1], "doctor"], env=environment, capture_output=True, text=True, check=False)
    assert f", by {by}. " in ran.stdout
    assert said in ran.stdout


def test_upgrade_of_a_formula_is_homebrews(tmp_path):
    folder = tmp_path / "Cellar" / "handoff-relay"
    folder.mkdir(parents=True)
    python, environment = installed(folder, {})
    command = [python, "-m", "handoff.surfaces.cli.main", "upgrade", "--dry-run"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "brew upgrade handoff-relay" in ran.stdout


def test_upgrade_of_a_plain_pip_installation_names_pip(tmp_path):
    python, environment = installed(tmp_path, {})
    command = [python, "-m", "handoff.surfaces.cli.main", "upgrade", "--json"]
    assert "-m" in subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("marks", "installer", "more", "update"),
    [
        ({"uv-receipt.toml": ""}, "uv", "uv tool install --force '{}[postgres]'", "uv tool upgrade handoff-relay"),
        ({"pipx_metadata.json": "{}"}, "pip", "pipx install --force '{}[postgres]'", "pipx upgrade handoff-relay"),
        ({}, "uv", "handoff-relay[postgres]", "--upgrade {}"),
        ({}, "pip", "handoff-relay[postgres]", "-m pip install --upgrade {}"),
    ],
)
def test_what_came_from_a_clone_is_updated_and_completed_from_that_clone(tmp_path, marks, installer, more, update):
    python, environment = installed(tmp_path, marks, installer)
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").write_text("")
    (note,) = (tmp_path / "env" / "lib").glob("*/site-packages/*.dist-info")
    (note / "direct_url.json").write_text(json.dumps({"url": clone.as_uri(), "dir_info": {}}))

    def run(*words: str, **more: str) -> str:
        ran = subprocess.run(
            [python, "-m", "handoff.surfaces.cli.main", *words], env={**environment, **more}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return ran.stdout + ran.stderr

    assert more.format(clone) in run("task", "list", HANDOFF_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert update.format(clone) in run("upgrade", "--dry-run")
    shutil.rmtree(clone)
    assert update.format("handoff-relay") in run("upgrade", "--dry-run"), "a clone that is gone updates nothing"


def test_a_script_with_a_fault_is_refused_before_it_acts(cli, repo):
    path = repo.write("script.toml", '[[act]]\nwrite = "a"\n[[act]]\nwriet = "b"\n')
    assert "act 2 must have exactly one of" in cli("scripted", path, code=1).err
    assert not os.path.exists(f"{repo.path}/a")
    cli("scripted", "nowhere.toml", code=1)


def test_a_script_writes_edits_runs_and_fails_as_told(cli, repo):
    path = repo.write(
        "script.toml",
        '[[act]]\nwrite = "d/a"\ntext = "one"\n[[act]]\nreplace = "d/a"\nold = "one"\nnew = "two"\n'
        '[[act]]\nappend = "d/a"\ntext = "!"\n[[act]]\nrun = "false"\nmay_fail = true\n[[act]]\ndelete = "README.md"\n'
        '[[act]]\nsay = "hello"\n[[act]]\nexit = 5\n',
    )
    answer = cli("scripted", path, code=5)
    assert repo.read("d/a") == "two!"
    assert "hello" in answer.out
    assert not os.path.exists(f"{repo.path}/README.md")
    crash = repo.write("crash.toml", "[[act]]\ncrash = true\n")
    cli("scripted", crash, code=-9)


@pytest.mark.slow
def test_the_demo_carries_a_feature_over_three_sessions(cli, tmp_path):
    cli.seconds = 360
    answer = cli("demo", "--keep", str(tmp_path / "scratch"))
    assert "agent | killed" in answer.out
    assert "changed, not staged: words.py" in answer.out
    assert "Execution plan: complete" in answer.out
    assert "Batch greeter has landed: 3 of 3 parts landed on main" in answer.out
    assert "- greeter/words.py (the target branch, words)" in answer.out, "a fourth session has settled a conflict"
    greetings = tmp_path / "scratch" / "greetings" / "greeter" / "words.py"
    assert 'return f"Hello, {name}!"' in greetings.read_text("utf-8")
    log = subprocess.run(
        ["git", "log", "--oneline"], cwd=tmp_path / "scratch" / "words", capture_output=True, text=True, check=True
    )
    assert len(log.stdout.splitlines()) == 4
