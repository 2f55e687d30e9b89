"""A landing as a request to the team: the branch is pushed, and opened for review through the person's own `gh` or `glab`."""

from __future__ import annotations

import re

from handoff.base.errors import UserError
from handoff.base.ids import slug
from handoff.base.markdown import shell_line
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing.checkout import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.base.process import Completed
    from handoff.engine.app import App

_SECONDS = 60.0
_MANY_LINES = 400
_PAIR = 2
_URL = re.compile(r"https?://\S+")
_EXISTS = re.compile(r"already exists|already open", re.IGNORECASE)


class OpenedRequest(Record):
    """What came of it: the branch is pushed; the address of the request, or the line a person runs to open it."""

    branch: str
    base: str
    url: str
    updated: bool
    said: str
    line: str
    lines_changed: int

    @property
    def large(self) -> bool:
        return self.lines_changed > _MANY_LINES


def remote_of(app: App, top: str, base: str) -> str:
    """The remote of the branch that is asked to take the work in, else the only one, else `origin`."""
    asked = git(top, "config", "--get", f"branch.{base}.remote", environment=app.git_environment).text.strip()
    names = git(top, "remote", environment=app.git_environment).text.split()
    if asked in names:
        return asked
    if len(names) == 1:
        return names[0]
    if "origin" in names:
        return "origin"
    raise UserError(
        "There is no remote to push to." if not names else f"Which remote? There are {', '.join(names)}.",
        "Add one: git remote add origin URL" if not names else f"Say it once: git config branch.{base}.remote NAME",
    )


def open_request(app: App, *, top: str, branch: str, commit: str, base: str, title: str, body: str) -> OpenedRequest:
    """Push `commit` as `branch` and ask for it to be taken into `base`; a program that fails costs nothing but a line to run."""
    remote = remote_of(app, top, base)
    address = git(top, "remote", "get-url", remote, environment=app.git_environment).text.strip()
    push = ["git", "push", remote, f"{commit}:refs/heads/{branch}"]
    pushed = _run(app, top, push)
    if pushed.code and "cannot run" in pushed.error_text:
        # Our own guard's hook was taken out with the last batch, between git's two looks at it.
        pushed = _run(app, top, push)
    if pushed.code:
        raise UserError(
            f"{branch} could not be pushed to {remote}: {_last(pushed)}",
            f"Push it yourself: git push {remote} {commit[:12]}:refs/heads/{branch}",
        )
    found = OpenedRequest(
        branch=branch,
        base=base,
        url="",
        updated=False,
        said="",
        line="",
        lines_changed=_size(app, top, base, remote, commit),
    )
    program = _program(app, address)
    words, given = _words(program or "gh", branch=branch, base=base, title=title, body=body)
    shown = shell_line([word if word != body else "…" for word in words]) + (" < REPORT" if given else "")
    if not program:
        return found._replace(said="neither gh nor glab is installed", line=shown)
    answer = _run(app, top, [find(program, path=app.settings.path) or program, *words[1:]], given)
    text = f"{answer.text}\n{answer.error_text}"
    urls = _URL.findall(text)
    if answer.timed_out:
        return found._replace(said=f"{program} gave no answer within {_SECONDS:.0f} s", line=shown)
    if answer.code and _EXISTS.search(text):
        return found._replace(url=urls[-1] if urls else "", updated=True)
    if answer.code:
        return found._replace(said=f"{program}: {_last(answer)}", line=shown)
    if not urls:
        return found._replace(said=f"{program} ended well, but told no address: {_last(answer)}")
    return found._replace(url=urls[-1])


def _program(app: App, address: str) -> str:
    """`glab` where the address says GitLab, else `gh`; the other one where only that is installed."""
    order = ("glab", "gh") if "gitlab" in address else ("gh", "glab")
    return next((name for name in order if find(name, path=app.settings.path)), "")


def _words(program: str, *, branch: str, base: str, title: str, body: str) -> tuple[list[str], bytes | None]:
    """The words for a program that must not ask: `gh` reads the text from its input, `glab` takes it as a word."""
    if program == "glab":
        words = ["glab", "mr", "create", "--source-branch", branch, "--target-branch", base]
        return [*words, "--title", title, "--description", body, "--yes"], None
    words = ["gh", "pr", "create", "--head", branch, "--base", base, "--title", title, "--body-file", "-"]
    return words, body.encode("utf-8", "surrogateescape")


def _run(app: App, top: str, words: Sequence[str], given: bytes | None = None) -> Completed:
    environment = {**app.settings.environment, "GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1"}
    return run(words, environment=environment, cwd=top, timeout=_SECONDS, stdin=given)


def _last(answer: Completed) -> str:
    lines = [line.strip() for line in (answer.error_text or answer.text).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit {answer.code}"


def _size(app: App, top: str, base: str, remote: str, commit: str) -> int:
    """How many lines the request adds and removes, against the base as it was last fetched."""
    for against in (f"refs/remotes/{remote}/{base}", f"refs/heads/{base}"):
        answer = git(top, "diff", "--numstat", f"{against}...{commit}", environment=app.git_environment)
        if answer.code == 0:
            counts = [line.split("\t")[:2] for line in answer.text.splitlines()]
            return sum(int(number) for pair in counts for number in pair if number.isdecimal())
    return 0


# --- landing as a request ---------------------------------------------------------------------------------------------


def branch_for(app: App, top: str, name: str, base: str) -> str:
    """The branch a request is made of, there from now on: `pr/NAME`, begun at the base."""
    branch = f"pr/{slug(name)}"
    known = git(top, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", environment=app.git_environment)
    if known.code:
        made = git(top, "branch", "--no-track", branch, base, environment=app.git_environment)
        if made.code:
            raise UserError(f"The branch {branch} cannot be made: {made.error_text}", "Name another base with --into.")
    return branch


def base_of(app: App, top: str, into: str) -> str:
    """The branch that is asked to take the work in: the named one, else the one checked out."""
    base = into or git(top, "symbolic-ref", "-q", "--short", "HEAD", environment=app.git_environment).text.strip()
    if not base:
        raise UserError("HEAD is detached: there is no branch that could take it in.", "Name one with --into BRANCH")
    return base


def series(app: App, top: str, base: str, commit: str) -> tuple[str, str]:
    """A title and a body out of the commits themselves: forges that squash keep neither trailers nor notes, so they are repeated."""
    words = ("log", "--reverse", "--format=%s%x00%b%x01", f"{base}..{commit}", "--")
    commits = [
        one.strip("\n").split("\0") for one in git(top, *words, environment=app.git_environment).text.split("\x01")
    ]
    found = [(subject, body.strip()) for subject, body in (one for one in commits if len(one) == _PAIR)]
    if not found:
        raise UserError(f"{base} has all of it already.", "There is nothing to ask for.")
    title = found[0][0] if len(found) == 1 else f"{found[0][0]}, and {len(found) - 1} more"
    return title, "\n\n".join(f"### {subject}\n\n{body}".rstrip() for subject, body in found) + "\n"
