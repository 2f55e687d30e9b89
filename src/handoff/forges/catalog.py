"""Which forge a remote belongs to, and its program on this machine. A second one is a file of this room and a line here."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING
from handoff.forges.contract import MARK
from handoff.forges.github import GitHub
from handoff.forges.gitlab import GitLab

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handoff.base.process import Completed
    from handoff.forges.contract import Forge

OURS: dict[str, type[Forge]] = {"github": GitHub, "gitlab": GitLab}
"""By the word that stands in the host of their remotes; the first one is taken for hosts that say nothing."""
SECONDS = 60.0
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1", "GLAB_NO_PROMPT": "1", "NO_COLOR": "1"}
_LOGGED_OUT = ("auth login", "not logged in", "401")
_MISSING = ("404", "not found")


def kind_for(address: str, *, path: str) -> type[Forge] | None:
    """The forge of a remote's address whose program is installed; where only another's is, that one."""
    first = [kind for word, kind in OURS.items() if word in address]
    order = [*first, *(kind for kind in OURS.values() if kind not in first)]
    return next((kind for kind in order if find(kind.program, path=path)), None)


def connect(address: str, *, folder: str, environment: Mapping[str, str]) -> Forge:
    """The forge of a checkout. Raises what a person should do where its program is absent or logged out."""
    kind = kind_for(address, path=environment.get("PATH", ""))
    if kind is None:
        wanted = next((kind for word, kind in OURS.items() if word in address), GitHub).program
        raise UserError(
            f"{wanted} is not installed, and your forge is reached only through it.",
            f"Install it, then: {wanted} auth login",
        )
    program = kind.program

    def ask(*words: str, given: str | None = None, missing: str | None = None) -> str:
        data = given.encode("utf-8", "surrogateescape") if given is not None else None
        answer = call([program, *words], folder=folder, environment=environment, given=data)
        if not answer.code:
            return answer.text
        said = last_line(answer)
        if missing is not None and any(word in said.lower() for word in _MISSING):
            return missing
        if answer.timed_out:
            raise UserError(f"{program} gave no answer within {SECONDS:.0f} s.", f"Try it: {program} auth status")
        out = any(word in f"{answer.error_text} {answer.text}".lower() for word in _LOGGED_OUT)
        what = f"{program} is logged out: {said}" if out else f"{program} {' '.join(words[:2])}: {said}"
        raise UserError(
            what, f"Log in: {program} auth login" if out else f"See what it says of your account: {program} auth status"
        )

    return kind(ask)


def call(words: list[str], *, folder: str, environment: Mapping[str, str], given: bytes | None = None) -> Completed:
    """Run a forge's program, or git, so that it asks nobody."""
    program = find(words[0], path=environment.get("PATH", "")) or words[0]
    return run([program, *words[1:]], environment={**environment, **_QUIET}, cwd=folder, timeout=SECONDS, stdin=given)


def last_line(answer: Completed) -> str:
    """What a program that failed said last."""
    lines = [line.strip() for line in (answer.error_text or answer.text).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit {answer.code}"


def with_mark(text: str, marker: str) -> str:
    """A comment with the mark by which it is found again."""
    return f"{text.rstrip()}\n\n{MARK}{marker} -->"
