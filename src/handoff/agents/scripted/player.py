"""An agent that follows a script: for demos, tests and scripts, where a model would cost money or vary.

A script is TOML. Each `[[act]]` does one thing: `write` a file (with `text`), `append`, `replace` (`old`, `new`),
`delete`, `run` a command (`may_fail`), `say`, `spend` money, `sleep`, `expect` a text in the prompt, `exit`, `crash`, `hang`.
"""

from __future__ import annotations

import os
import signal

from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.process import shell
from handoff.base.record import TYPE_CHECKING, Record

SCRIPTS = os.path.join(os.path.dirname(__file__), "scripts")
"""The packaged scripts of the demo."""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.base.clock import Clock

VERBS = ("write", "append", "replace", "delete", "run", "say", "spend", "sleep", "expect", "exit", "crash", "hang")
_EXTRAS = {"write": {"text"}, "append": {"text"}, "replace": {"old", "new"}, "run": {"may_fail"}}
SPENT = "spent "
_RUN_SECONDS = 600.0
_HANG_SECONDS = 3600.0


class Ended(Record):
    """How the script ended: its exit code and the last words."""

    code: int
    words: str


class Stage(Record):
    """Where the agent acts."""

    folder: str
    prompt: str
    environment: Mapping[str, str]
    clock: Clock


def read_script(path: str) -> list[dict[str, Any]]:
    """The acts of a script file; anything not understood is an error that names the act."""
    import tomllib

    text = files.read_text(path)
    try:
        script = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}.", "A script is a list of [[act]] tables.") from error
    acts = script.get("act", [])
    unknown = sorted(set(script) - {"act"})
    if unknown or not isinstance(acts, list):
        raise UserError(
            f"{path}: unknown key '{unknown[0] if unknown else 'act'}'.", "A script has [[act]] tables only."
        )
    for number, act in enumerate(acts, 1):
        verbs = [verb for verb in VERBS if verb in act]
        if len(verbs) != 1:
            raise UserError(
                f"{path}: act {number} must have exactly one of: {', '.join(VERBS)}.", f"It has: {sorted(act)}"
            )
        odd = sorted(set(act) - {verbs[0]} - _EXTRAS.get(verbs[0], set()))
        if odd:
            raise UserError(f"{path}: act {number}: '{odd[0]}' does not go with '{verbs[0]}'.")
    return acts


def perform(acts: list[dict[str, Any]], stage: Stage, tell: Callable[[str], None]) -> Ended:
    """Act after act, telling what happens; stops at the first thing that fails."""
    for act in acts:
        verb = next(verb for verb in VERBS if verb in act)
        ended = _STAGE[verb](act, stage, tell)
        if ended is not None:
            return ended
    return Ended(0, "")


def _place(stage: Stage, name: str) -> str:
    path = os.path.join(stage.folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _write(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    files.write_atomic(_place(stage, act["write"]), act.get("text", ""))
    tell(f"wrote {act['write']}")


def _append(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    path = _place(stage, act["append"])
    before = files.read_text(path) if os.path.exists(path) else ""
    files.write_atomic(path, before + act.get("text", ""))
    tell(f"added to {act['append']}")


def _replace(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> Ended | None:
    path = _place(stage, act["replace"])
    text = files.read_text(path)
    if act["old"] not in text:
        return Ended(1, f"{act['replace']} does not contain the text to replace")
    files.write_atomic(path, text.replace(act["old"], act["new"], 1))
    tell(f"edited {act['replace']}")
    return None


def _delete(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    os.unlink(_place(stage, act["delete"]))
    tell(f"deleted {act['delete']}")


def _run(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> Ended | None:
    tell(f"$ {act['run']}")
    done = shell(act["run"], environment=stage.environment, cwd=stage.folder, timeout=_RUN_SECONDS)
    for line in done.text.rstrip().splitlines():
        tell(f"  {line}")
    if done.code and not act.get("may_fail"):
        return Ended(1, f"'{act['run']}' ended with {done.code}")
    return None


def _say(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    del stage
    tell(str(act["say"]))


def _spend(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    del stage
    tell(f"{SPENT}{float(act['spend']):g} USD")


def _sleep(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    del tell
    stage.clock.sleep(float(act["sleep"]))


def _expect(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> Ended | None:
    if act["expect"] not in stage.prompt:
        return Ended(1, f"the prompt does not say: {act['expect']}")
    tell(f"read in the prompt: {act['expect']}")
    return None


def _exit(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> Ended:
    del stage, tell
    return Ended(int(act["exit"]), "")


def _crash(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    del act, stage
    tell("(the process dies here)")
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(act: dict[str, Any], stage: Stage, tell: Callable[[str], None]) -> None:
    del act
    tell("(no more signs of life)")
    stage.clock.sleep(_HANG_SECONDS)


_STAGE = {
    "spend": _spend, "write": _write, "append": _append, "replace": _replace, "delete": _delete, "run": _run, "say": _say,
    "sleep": _sleep, "expect": _expect, "exit": _exit, "crash": _crash, "hang": _hang,
}  # fmt: skip
