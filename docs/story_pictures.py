"""Two more pictures: cheats that test-driven work refused, and a batch brought together. Real sessions of the scripted agent, recorded."""

from __future__ import annotations

import json
import os
import re
import tempfile
from hashlib import sha256
from typing import TYPE_CHECKING

from picture import PROMPT, as_svg, quiet, record, scratch_environment, write

from handoff.agents.adapters.scripted import SCRIPTS
from handoff.surfaces.cli.commands.tool.demo import CALCULATOR, write_files

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = "A calculator that adds, subtracts and divides two numbers."
PARTS = {"cart": "Fill the cart.", "mail": "Send the mail.", "page": "Draw the page."}
_TIMES = re.compile(r"\b\d\d:\d\d:\d\d\b")
_AGO = re.compile(r"\b\d+ (s|min) ago")
_IDS = re.compile(r"\b[0-9a-f]{7,10}\b(?= )|\b[0-9a-f]{10}$", re.MULTILINE)


def cheats() -> str:
    """What the judge said to sessions that cheated; which questions it drew is another each time."""
    return _story(_cheated, (("handoff log calculator | sed -n '/ 2-red /,$p' | grep -v 'questions, '", 0),))


def fan_in() -> str:
    """Three parts side by side, and the one result."""
    return _story(
        _split,
        (("handoff show shop", 0), ("git log --format='%h %s'", 0), ("git show --stat --format=%s | head -4", 0)),
    )


def _story(prepare: Callable[[str, dict[str, str]], None], lines: tuple[tuple[str, int], ...]) -> str:
    with tempfile.TemporaryDirectory(prefix="handoff-picture-") as home:
        environment = scratch_environment(home)
        folder = os.path.join(home, "shop")
        os.makedirs(folder)
        prepare(folder, environment)
        shown = "\n".join(f"{PROMPT}{line}\n{record(line, code, folder, environment)}" for line, code in lines)
        shown = shown.replace(folder, "~/shop").replace(home, "~")
    return as_svg(_fixed(shown), "docs/story_pictures.py")


def _fixed(shown: str) -> str:
    """What differs from run to run as fixed facts: times that count up, ids that only tell themselves apart."""
    count = iter(range(10_000))
    shown = _TIMES.sub(lambda _match: f"14:{(at := next(count)) // 60:02}:{at % 60:02}", shown)
    known: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        word = match.group()
        fixed = sha256(str(len(known)).encode()).hexdigest()
        return known.setdefault(word, fixed[: len(word)])

    return _IDS.sub(named, _AGO.sub("1 min ago", shown))


def _cheated(folder: str, environment: dict[str, str]) -> None:
    write_files(folder, CALCULATOR)
    quiet("git init -q -b main && git add . && git commit -q -m 'an empty calculator'", folder, environment)
    quiet(f"handoff flow start tdd --id calculator --agent scripted --request '{REQUEST}'", folder, environment)
    word = os.path.join(SCRIPTS, "tdd", "{task}-{attempt}.toml")
    quiet(f"handoff flow step calculator --all --with {word!r}", folder, environment)


def _split(folder: str, environment: dict[str, str]) -> None:
    write(os.path.join(folder, "README.md"), "# A shop\n")
    quiet("git init -q -b main && git add . && git commit -q -m 'A shop'", folder, environment)
    parts = [
        {"id": name, "brief": brief, "check": f"test -s {name}.py", "file_ownership": [{"type": "exact", "path": f"{name}.py"}]}
        for name, brief in PARTS.items()
    ]  # fmt: skip
    above = os.path.dirname(folder)
    manifest = {
        "schema_version": 2,
        "batch_id": "shop",
        "fan_in_task": "shop-join",
        "check": "sh check.sh",
        "sub_tasks": parts,
    }
    write(os.path.join(above, "split.json"), json.dumps(manifest))
    quiet("handoff dump --open-batch ../split.json", folder, environment)
    for name in (*(f"shop/{name}" for name in PARTS), "shop-join"):
        made = "check.sh" if name == "shop-join" else f"{name.partition('/')[2]}.py"
        text = "test -s cart.py && test -s mail.py && test -s page.py" if name == "shop-join" else "READY = True"
        write(os.path.join(above, "script.toml"), f'[[act]]\nwrite = "{made}"\ntext = "{text}\\n"\n')
        quiet(f"handoff session start {name} --agent scripted --with ../script.toml", folder, environment)
