"""An agent that follows a script, for demos, tests and scripts, where a model would cost money or vary; and its adapter.

A script is TOML. Each `[[act]]` does one thing: `write` a file (with `text`), `append`, `replace` (`old`, `new`),
`delete`, `run` a command (`may_fail`), `say`, `spend` money, `sleep`, `expect` a text in the prompt, `exit`, `crash`, `hang`.
"""

from __future__ import annotations

import os
import signal
import sys

from handoff.agents.adapters.pieces import answer_event, call_event, event, file_event, no_abilities
from handoff.agents.contract import OUTPUT, SAID, TROUBLE, USAGE, Adapter, AgentEvent, Launch, LaunchRequest, Usage
from handoff.base import files
from handoff.base.errors import UserError
from handoff.base.process import own_argv, shell
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.base.clock import Clock

SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "scripts")
"""The packaged scripts of the demo."""
VERBS = ("write", "append", "replace", "delete", "run", "say", "spend", "sleep", "expect", "exit", "crash", "hang")
_EXTRAS = {"write": {"text"}, "append": {"text"}, "replace": {"old", "new"}, "run": {"may_fail"}}
SPENT, EXITED = "spent ", "exit "
_RUN_SECONDS = 600.0
_RUN = "run"  # it does one thing after the other
_EDITS = {"wrote ": "update", "added to ": "update", "edited ": "update", "deleted ": "delete"}
"""What it says of its own edits, and what they are."""
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
    player = Player(stage, tell)
    for act in acts:
        verb = next(verb for verb in VERBS if verb in act)
        ended: Ended | None = getattr(player, f"do_{verb}")(act[verb], act)
        if ended is not None:
            return ended
    return Ended(0, "")


class Player:
    """The agent on its stage: one method for each verb, given what stands behind the verb and the whole act."""

    def __init__(self, stage: Stage, tell: Callable[[str], None]) -> None:
        self.stage, self.tell = stage, tell

    def _place(self, name: str) -> str:
        path = os.path.join(self.stage.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def do_write(self, name: str, act: dict[str, Any]) -> None:
        files.write_atomic(self._place(name), act.get("text", ""))
        self.tell(f"wrote {name}")

    def do_append(self, name: str, act: dict[str, Any]) -> None:
        path = self._place(name)
        before = files.read_text(path) if os.path.exists(path) else ""
        files.write_atomic(path, before + act.get("text", ""))
        self.tell(f"added to {name}")

    def do_replace(self, name: str, act: dict[str, Any]) -> Ended | None:
        path = self._place(name)
        text = files.read_text(path)
        if act["old"] not in text:
            return Ended(1, f"{name} does not contain the text to replace")
        files.write_atomic(path, text.replace(act["old"], act["new"], 1))
        self.tell(f"edited {name}")
        return None

    def do_delete(self, name: str, _: object) -> None:
        os.unlink(self._place(name))
        self.tell(f"deleted {name}")

    def do_run(self, line: str, act: dict[str, Any]) -> Ended | None:
        self.tell(f"$ {line}")
        done = shell(line, environment=self.stage.environment, cwd=self.stage.folder, timeout=_RUN_SECONDS)
        for shown in done.text.rstrip().splitlines():
            self.tell(f"  {shown}")
        self.tell(f"{EXITED}{done.code}")
        if done.code and not act.get("may_fail"):
            return Ended(1, f"'{line}' ended with {done.code}")
        return None

    def do_say(self, words: str, _: object) -> None:
        self.tell(str(words))

    def do_spend(self, money: float, _: object) -> None:
        self.tell(f"{SPENT}{float(money):g} USD")

    def do_sleep(self, seconds: float, _: object) -> None:
        self.stage.clock.sleep(float(seconds))

    def do_expect(self, words: str, _: object) -> Ended | None:
        if words not in self.stage.prompt:
            return Ended(1, f"the prompt does not say: {words}")
        self.tell(f"read in the prompt: {words}")
        return None

    def do_exit(self, code: int, _: object) -> Ended:
        return Ended(int(code), "")

    def do_crash(self, *_: object) -> None:
        self.tell("(the process dies here)")
        os.kill(os.getpid(), signal.SIGKILL)

    def do_hang(self, *_: object) -> None:
        self.tell("(no more signs of life)")
        self.stage.clock.sleep(_HANG_SECONDS)


def launch(order: LaunchRequest) -> Launch:
    """The first word is the script to follow."""
    if not order.words:
        raise UserError(
            "The scripted agent needs a script.",
            "Name it: handoff session start TASK --agent scripted --with SCRIPT.toml",
        )
    prompt, script = os.path.join(order.folder, "prompt.md"), order.words[0]
    carried = {prompt: order.prompt}
    if os.path.isfile(script):  # inside a sandbox only what is in the session's folder is sure to be seen
        copy = os.path.join(order.folder, "script.toml")
        carried[copy] = files.read_text(script)
        script = copy
    argv = (*own_argv(), "scripted", script, "--prompt", prompt)
    return Launch(argv, {}, carried)


def read(line: str) -> tuple[AgentEvent, ...]:
    """What it told; its complaints begin with Error."""
    text = line.strip()
    if text.startswith("Error: "):
        return event(TROUBLE, text.removeprefix("Error: "))
    if text.startswith(SPENT) and text.endswith(" USD"):
        return event(USAGE, text, use=Usage(money=_amount(text)))
    if line.startswith("$ "):
        return call_event("shell", {"command": text[2:]}, _RUN)
    if text.startswith(EXITED) and text[len(EXITED) :].lstrip("-").isdigit():
        return answer_event(_RUN, "", code=int(text[len(EXITED) :]))
    if line.startswith(("  ", "(")):
        return event(OUTPUT, line[2:] if line[0] == " " else line, call=_RUN)
    for words, how in _EDITS.items():
        if text.startswith(words):
            return file_event([{"path": text.removeprefix(words), "kind": how}], ok=True)
    return event(SAID, text) if text else ()


def _amount(text: str) -> float:
    try:
        return float(text.removeprefix(SPENT).removesuffix(" USD"))
    except ValueError:
        return 0.0  # somebody's own words


ADAPTER = Adapter(
    name="scripted",
    title="the scripted agent",
    programs=(sys.executable,),
    abilities=no_abilities,
    launch=launch,
    read=read,
    interactive=launch,
    version_words=(),
)
