"""`make release`: everything a release consists of, in `dist/`, and each of it installed and tried. Nothing is uploaded.

python release/build.py            wheel, source archive, handoff.pyz, checks, the text of the tag
python release/build.py pyz        handoff.pyz alone
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIST = os.path.join(TOP, "dist")
PYZ = "handoff.pyz"
PACKAGE = "package.zip"
_DAY = (2000, 1, 1, 0, 0, 0)  # an archive of the same files has the same bytes


def main(words: list[str]) -> int:
    """Build, check, and say what is left for a person."""
    if words == ["pyz"]:
        print(pyz())
        return 0
    version, section = _version()
    shutil.rmtree(DIST, ignore_errors=True)
    wheel, source = _build("--wheel"), _build("--sdist")
    archive = pyz()
    _run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    for path in (wheel, source):
        _in_a_bare_environment(path, version)
    _alone(archive, version)
    _by_every_installer(wheel)
    _formula(source, version)
    _run(_beside("hadolint"), os.path.join("release", "container", "Dockerfile"))
    _write("SHA256SUMS", "".join(f"{_digest(path)}  {os.path.basename(path)}\n" for path in (wheel, source, archive)))
    _write("tag.txt", f"handoff {version}\n\n{section}\n")
    print(f"\nBuilt and tried: {', '.join(sorted(os.listdir(DIST)))}")
    if _output("git", "status", "--porcelain").strip():
        print("Your checkout has changes that are in no commit. Commit them and build again before you release.")
        return 1
    if waiting := _section("Unreleased"):
        print(f"Not to be released as {version}: CHANGELOG.md has {len(waiting.splitlines())} lines under Unreleased.")
        print("Give them a number and a date, put that number into src/handoff/__init__.py, and build again.")
        return 0
    print(f"To release: git tag -s v{version} -F dist/tag.txt && git push origin v{version}")
    return 0


def _version() -> tuple[str, str]:
    """The version, and what CHANGELOG.md says of it."""
    with open(os.path.join(TOP, "src", "handoff", "__init__.py"), encoding="utf-8") as file:
        version = re.findall(r'__version__ = "(.+)"', file.read())[0]
    section = _section(version)
    if section is None:
        sys.exit(f"CHANGELOG.md has no section for {version}. Give 'Unreleased' that name and a date.")
    return version, section


def _section(name: str) -> str | None:
    with open(os.path.join(TOP, "CHANGELOG.md"), encoding="utf-8") as file:
        found = re.search(
            rf"^## \[{re.escape(name)}\][^\n]*\n(.*?)(?=^## \[|\Z)", file.read(), re.MULTILINE | re.DOTALL
        )
    return None if found is None else found.group(1).strip()


def _build(kind: str) -> str:
    _run(sys.executable, "-m", "build", kind, "--outdir", DIST, TOP)
    suffix = ".whl" if kind == "--wheel" else ".tar.gz"
    return next(os.path.join(DIST, name) for name in os.listdir(DIST) if name.endswith(suffix))


def pyz(folder: str = DIST) -> str:
    """One file with what a wheel holds. It runs with Python and git alone, as far as the standard library carries."""
    with open(os.path.join(TOP, "release", "one_file.py"), encoding="utf-8") as file:
        begin = file.read()
    held = dict(sorted(_held()))
    mark = hashlib.sha256(repr((begin, held)).encode()).hexdigest()[:16]
    held["__main__.py"] = begin.replace('_MARK = "BUILD"', f'_MARK = "{mark}"').encode()
    os.makedirs(folder, exist_ok=True)
    path, fresh = os.path.join(folder, PYZ), os.path.join(folder, f".{PYZ}")
    with open(fresh, "wb") as out:
        out.write(b"#!/usr/bin/env python3\n")
        _zip(out, {"__main__.py": held["__main__.py"], PACKAGE: _zipped(held)})
    os.chmod(fresh, 0o755)
    os.replace(fresh, path)
    return path


def _zipped(files: dict[str, bytes]) -> bytes:
    """The package as one file inside: at each start Python reads the list of what the outer archive holds."""
    inner = io.BytesIO()
    _zip(inner, files)
    return inner.getvalue()


def _zip(out: IO[bytes], files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            kind = zipfile.ZIP_STORED if name == PACKAGE else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, _DAY), data, kind)


def _held() -> Iterator[tuple[str, bytes]]:
    """Every file of the package, and the pages that pyproject.toml puts beside it, by their names inside."""
    with open(os.path.join(TOP, "pyproject.toml"), "rb") as file:
        target = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    for source, name in {"src/handoff": "handoff", **target["force-include"]}.items():
        path = os.path.join(TOP, source)
        if os.path.isfile(path):
            yield name, _read(path)
        for at, folders, names in os.walk(path):
            folders[:] = [one for one in folders if one != "__pycache__"]
            for one in names:
                below = os.path.join(at, one)
                yield os.path.join(name, os.path.relpath(below, path)), _read(below)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _in_a_bare_environment(path: str, version: str) -> None:
    """Install it as a person would, look at its version, and walk the demo."""
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", folder)
        python = os.path.join(folder, "bin", "python")
        _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", path)
        program = os.path.join(folder, "bin", "handoff")
        assert _output(program, "--version").split()[-1] == version
        page = "from importlib.metadata import metadata; print(metadata('handoff-relay').get_payload())"
        relative = re.findall(r'(?:\]\(|src=")(?!https?:|#)[^)"]*', _output(python, "-c", page))
        assert not relative, f"these lead nowhere on the package page: {relative}"
        # The registry of MCP servers starts a package by its own name: uvx handoff-relay mcp.
        assert _output(os.path.join(folder, "bin", "handoff-relay"), "--version").split()[-1] == version
        if path.endswith(".whl"):
            _run(
                program,
                "demo",
                environment={**os.environ, "HOME": folder, "HANDOFF_HOME": os.path.join(folder, "home")},
            )


def _alone(path: str, version: str) -> None:
    """The one file, with an interpreter that sees no package, in a repository that never saw handoff."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "GIT_CONFIG_GLOBAL": os.devnull}
        program = [sys.executable, "-S", "-I", path]
        assert _output(*program, "--version", environment=environment).split()[-1] == version
        repo = os.path.join(folder, "repo")
        _run("git", "init", "-q", repo, environment=environment)
        for words in (["init", "one"], ["task", "add", "first", "Do it."], ["status"], ["snapshot"]):
            _run(*program, *words, environment=environment, folder=repo)


def _by_every_installer(wheel: str) -> None:
    """Put it in as people do, from this checkout, and take it out again: no command of ours is left."""
    with tempfile.TemporaryDirectory() as folder:
        programs = os.path.join(folder, "bin")
        path = os.pathsep.join((programs, os.path.dirname(sys.executable), os.environ["PATH"]))
        environment = {**os.environ, "HOME": folder, "PATH": path, "PREFIX": folder, "FROM": wheel}
        environment |= {"UV_TOOL_DIR": os.path.join(folder, "uv"), "UV_TOOL_BIN_DIR": programs}
        environment |= {"PIPX_HOME": os.path.join(folder, "pipx"), "PIPX_BIN_DIR": programs, "PIPX_MAN_DIR": folder}
        share = os.path.join(folder, "share", "handoff")
        for by, put_in, take_out in (
            ("uv tool", ["uv", "tool", "install", "."], ["uv", "tool", "uninstall", "handoff-relay"]),
            ("pipx", ["pipx", "install", "."], ["pipx", "uninstall", "handoff-relay"]),
            (
                "devcontainer",
                ["sh", "release/devcontainer/handoff/install.sh"],
                ["rm", "-r", share, f"{programs}/handoff"],
            ),
        ):
            _run(*put_in, environment=environment)
            said = _output(os.path.join(programs, "handoff"), "upgrade", "--dry-run", environment=environment)
            assert said.startswith(f"Installed by: {by}."), said
            _run(*take_out, environment=environment)
            assert not [name for name in os.listdir(programs) if name.startswith("handoff")]


def _formula(source: str, version: str) -> None:
    """The Homebrew formula of this very source archive."""
    name = "handoff-relay.rb"
    text = _read(os.path.join(TOP, "release", "homebrew", name)).decode()
    _write(name, text.replace("VERSION", version).replace("DIGEST", _digest(source)))
    if shutil.which("ruby"):
        _run("ruby", "-c", os.path.join(DIST, name))


def _beside(program: str) -> str:
    return os.path.join(os.path.dirname(sys.executable), program)


def _write(name: str, text: str) -> None:
    with open(os.path.join(DIST, name), "w", encoding="utf-8") as file:
        file.write(text)


def _digest(path: str) -> str:
    return hashlib.sha256(_read(path)).hexdigest()


def _run(*argv: str, environment: dict[str, str] | None = None, folder: str = TOP) -> None:
    print(f"$ {' '.join(os.path.basename(word) for word in argv)}", flush=True)
    subprocess.run(argv, check=True, env=environment, cwd=folder)


def _output(*argv: str, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(argv, check=True, env=environment, cwd=TOP, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
