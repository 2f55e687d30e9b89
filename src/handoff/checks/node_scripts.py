"""Test scripts of package.json as people write them: the runner in them is found, called with its own words, and told to report to us."""

from __future__ import annotations

import json
import os
import re
import shlex
from functools import lru_cache

from handoff.base.record import TYPE_CHECKING
from handoff.checks.suite import Folder, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OTHERS_SCRIPTS = re.compile(r"\b(turbo|lerna|nx)\b|--workspaces|\s-ws\b|\s-r\b")
_RUN = re.compile(r"\b(?:npm|pnpm|yarn)\s+(?:run|run-script)\s+(?:-s\s+|--silent\s+)?([\w:.-]+)(?:\s+--(?=\s))?")
_DEPTH = 3
_PARTS = re.compile(r"(\s*(?:&&|\|\||;|\|)\s*)")
_VARIABLE = re.compile(r"^\w+=")
_LINTERS = re.compile(
    r"\s*(?:npx\s+)?(?:eslint|prettier|biome|oxlint|xo|standard|stylelint|(?:vue-)?tsc\s.*--noEmit)\b"
)
# What stands before the runner and is no part of the question: who measures coverage starts processes of its own in between.
_COVERAGE = ("c8", "nyc")
_STARTERS = ("npx", "cross-env", "yarn", "pnpm", "bunx", "dotenv", "exec", "--no-install", "--")
# Words of a runner that would keep it from ending, from reporting to us, or that measure something else.
_DROPPED = {
    "vitest": re.compile(
        r"^(?:run|watch|dev|--run|--watch|-w|--ui|--coverage.*|--reporter=.*|--outputFile.*|--silent.*)$"
    ),
    "jest": re.compile(
        r"^(?:--watch(?:All)?|--coverage\S*|--collectCoverage\S*|--json|--outputFile=.*|--reporters=.*|--silent|--ci|-i|--runInBand|-b|--bail\S*)$"
    ),
    "mocha": re.compile(r"^(?:--watch|-w|--reporter=.*|-R=?.+|--parallel|-p|--bail|-b)$"),
}
_DROPPED_WITH_VALUE = (
    "--reporter",
    "--reporters",
    "-R",
    "--outputFile",
    "--reporter-option",
    "--reporter-options",
    "-O",
)

# Vitest loads a reporter outside the project only by an address: this one leads to ours.
_VITEST = "data:text/javascript,export%7Bdefault%7Dfrom%22file://{ours}/vitest_witness.mjs%22"
# How each is told to report to us; and how to write a file, where a loader of its own stands between it and our pipe.
_OURS = {
    "vitest": (
        "run",
        f"--bail=0 --coverage.enabled=false --reporter={_VITEST}",
        "--reporter=json --outputFile={results}",
    ),
    "jest": (
        "",
        "--ci --bail=0 --coverage=false --reporters={ours}/jest_witness.cjs",
        "--ci --json --outputFile={results}",
    ),
    "mocha": (
        "",
        "--no-bail --reporter {ours}/mocha_witness.cjs",
        "--reporter json --reporter-option output={results}",
    ),
}
_SEALING = ("{ours}/node_results.mjs", *(f"{{ours}}/{name}_witness." for name in _OURS))
_WORKER = " --workerIdleMemoryLimit=2GB"
_WORKERS = (30, 0)  # from then on jest can be told to run each test outside its own process


@lru_cache(maxsize=1)  # the rows of one family ask for the same folder in turn
def package(folder: Folder) -> tuple[str, set[str]]:
    """The line package.json has for `test`, scripts it calls put in their places, and the packages it asks for."""
    try:
        read = json.loads(folder.read("package.json"))
    except ValueError:
        return "", set()
    if not isinstance(read, dict):
        return "", set()
    needed = {**(read.get("devDependencies") or {}), **(read.get("dependencies") or {})}
    scripts = {str(name): str(line) for name, line in (read.get("scripts") or {}).items()}
    line = scripts.get("test", "")
    for _ in range(_DEPTH):
        line = _RUN.sub(lambda found: scripts.get(found[1], found[0]), line)
    return line, set(needed)


def node_line(folder: Folder) -> str:
    """`node --test` as the script has it, with our reporter; coverage tools around it are left out."""
    plain = re.compile(r"(?:^|\s)node\s(?:.*\s)?--test(?=\s|$)")
    parts = _PARTS.split(package(folder)[0])
    found = next((at for at, part in enumerate(parts) if plain.search(part)), None)
    if found is None:
        return ""
    ours = "--test --test-reporter={ours}/node_results.mjs --test-reporter-destination={results}"
    words = re.sub(r"\s--test-reporter(?:-destination)?(?:=|\s+)\S+", "", _plain(parts[found], "node"))
    parts[found] = re.sub(r"(?<=\s)--test\b(?!-)", ours, words, count=1)
    return _with_programs(folder, parts[: found + 1])


def runner(name: str) -> Callable[[Folder], str]:
    """A runner that package.json names, with the words it has there; npm, pnpm and yarn only decide where it is found."""
    program = re.compile(rf"(?:^|[\s/]){name}(?:\.m?js)?(?=\s|$)")

    def line(folder: Folder) -> str:
        said, needed = package(folder)
        parts = _PARTS.split(said)
        at = next((number for number, part in enumerate(parts) if program.search(part)), None)
        if at is None and (said or name not in needed):
            return ""
        at, parts = (at, parts) if at is not None else (0, [name])
        before, given = _split(_plain(parts[at], name), name)
        first, ours, written = _OURS[name]
        place = _found(folder, name)
        ours = (
            written if place.startswith("yarn") else ours + (_WORKER if name == "jest" and _has_workers(folder) else "")
        )
        parts[at] = before + " ".join(one for one in (place, first, shlex.join(given), ours) if one)
        return _with_programs(folder, parts[: at + 1])

    return line


def script(lock: str, words: str) -> Callable[[Folder], str]:
    """Any other script for `test`, unless it only calls the scripts of packages below; the lock file names the manager."""

    def line(folder: Folder) -> str:
        said = package(folder)[0]
        own = said and "no test specified" not in said and not _OTHERS_SCRIPTS.search(said)
        return words if own and (not lock or lock in folder.names) else ""

    return line


def seals(command: str) -> bool:
    """Whether a line calls a reporter of ours that seals what it says."""
    return any(mark in command for mark in _SEALING)


def _plain(part: str, name: str) -> str:
    """One command without the coverage tool that stands before the runner."""
    words = part.strip().split()
    for at, word in enumerate(words):
        if word in _COVERAGE:
            after = next((n for n, one in enumerate(words) if n > at and _is_runner(one, name)), None)
            return " ".join([*words[:at], *words[after:]]) if after is not None else part
        if _is_runner(word, name):
            break
    return part


def _is_runner(word: str, name: str) -> bool:
    return re.sub(r"\.m?js$", "", word.rpartition("/")[2]) == name or (name != "node" and word == "node")


def _split(part: str, name: str) -> tuple[str, list[str]]:
    """What stands before the runner (variables, `node` with its flags), and its own words without those we must not have."""
    try:
        words = shlex.split(part)
    except ValueError:
        words = part.split()
    at = next(
        (n for n, word in enumerate(words) if re.sub(r"\.m?js$", "", word.rpartition("/")[2]) == name), len(words)
    )
    kept = [word for word in words[:at] if word not in _STARTERS]
    variables = [word for word in kept if _VARIABLE.match(word)]
    flags = _node_flags([word for word in kept if not _VARIABLE.match(word)])
    before = "".join(f"{name}={shlex.quote(value)} " for name, _, value in (one.partition("=") for one in variables))
    if flags:
        before += f"NODE_OPTIONS={shlex.quote(' '.join(flags))} "
    return before, _without_ours(words[at + 1 :], name)


def _node_flags(words: Sequence[str]) -> list[str]:
    return [word for word in words[1:] if word.startswith("-")] if words[:1] == ["node"] else []


def _without_ours(words: Sequence[str], name: str) -> list[str]:
    kept: list[str] = []
    left = iter(words)
    for word in left:
        if word in _DROPPED_WITH_VALUE:
            next(left, None)
        elif not _DROPPED[name].match(word):
            kept.append(word)
    return kept


def _with_programs(folder: Folder, parts: list[str]) -> str:
    """What comes before the runner and builds, then the runner; programs of node_modules are found as npm lets them be found."""
    before = [parts[at : at + 2] for at in range(0, len(parts) - 1, 2)]
    line = "".join("".join(pair) for pair in before if not _LINTERS.match(pair[0])) + parts[-1]
    if line == parts[-1] or "node_modules" not in folder.names:
        return line
    return f'export PATH="$PWD/node_modules/.bin:$PATH"; {line}'


def _has_workers(folder: Folder) -> bool:
    try:
        version = json.loads(text_of(os.path.join(folder.path, "node_modules", "jest", "package.json")))["version"]
        return tuple(int(part) for part in version.split(".")[:2]) >= _WORKERS
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _found(folder: Folder, program: str) -> str:
    """The runner where the package manager put it: here, in a folder above, or behind yarn's own loader."""
    at, steps = folder.path, ""
    while True:
        if os.path.exists(os.path.join(at, ".pnp.cjs")):
            return f"yarn {program}"
        if os.path.exists(os.path.join(at, "node_modules", ".bin", program)):
            return f"{steps}node_modules/.bin/{program}"
        if at in (folder.top, os.path.dirname(at)):
            return f"npx --no-install {program}"
        at, steps = os.path.dirname(at), f"../{steps}"
