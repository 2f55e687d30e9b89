"""A conflict that neither git nor a rule can settle, handed to a third session: what it is given, and what is believed of it."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from handoff.base.errors import Refused
from handoff.base.files import make_folder, remove, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.markdown import bullets, end_sentence, fenced, number_of, one_line
from handoff.base.record import TYPE_CHECKING
from handoff.engine.place.landing.resolvers import memory_folder
from handoff.git.landing.conflicts import BEFORE, ConflictFile, LaidOut, faults_of, remember, settled_way
from handoff.git.landing.doubts import Doubt
from handoff.git.landing.rules import is_lock
from handoff.git.ownership.patterns import EXACT, written
from handoff.git.plumbing import read_text
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.objects import FILE, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.merge import Conflicted, Member
    from handoff.git.landing.three_way import Way
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.workspaces import Workspace

FOLDER = ".handoff/conflict"
ATTEMPTS = 2
"""So many sessions try; then a person is asked."""
MOST_LINES, MOST_FILES = 400, 10
_SHOWN = 20
_MOST_WORDS, _MOST_SHOWN = 10_000, 40


def too_large(laid: LaidOut) -> bool:
    """Whether it is more than a session can settle with care: the later part is better made again on what joined."""
    return len(laid.files) > MOST_FILES or sum(one.lines for one in laid.files) > MOST_LINES


def only_locks(conflicts: Sequence[Conflicted]) -> bool:
    """Whether locks alone are in the way: no session can edit them, they are made by their programs."""
    return bool(conflicts) and all(is_lock(one.path) for one in conflicts)


def locks_in_words(conflicts: Sequence[Conflicted]) -> list[str]:
    """What keeps each lock from being made again, and who changed it; the first line says it of the first one."""
    why = dict.fromkeys(f"{on_one_line(one.path)}: {on_one_line(one.why or 'git cannot join it')}" for one in conflicts)
    return [*why, *(f"{on_one_line(one.path)} was changed by {one.first} and by {one.second}" for one in conflicts)]


class LocksLeft(Refused):
    """A fan-in cannot begin: locks that parts changed could not be made again, and a person is asked."""

    def __init__(self, task: Task, conflicts: Sequence[Conflicted], by_hand: str, program: str) -> None:
        first, *more = locks_in_words(conflicts)
        super().__init__(
            "\n".join([f"'{task.label}' cannot begin. {first}", *more]),
            f"Mend that, then: {program} answer {task.label} yes, which tries again. Or join the parts yourself, run the program"
            f" that makes the lock before you commit, and say yes. {by_hand}",
        )

    @property
    def question(self) -> str:
        return f"{self.message}\n{self.hint}"


def _place(project: str, name: str) -> str:
    return os.path.join(project, "settled", f"{name}.json")


def write(snapshot_store: SnapshotStore, name: str, laid: LaidOut | None) -> None:
    """Remember what the workspace of this name must settle, before it is made; None forgets an older one."""
    path = _place(snapshot_store.place.project, name)
    if laid is None:
        remove(path)
        return
    make_folder(os.path.dirname(path), mode=0o700)
    facts = {**laid._asdict(), "files": [one._asdict() for one in laid.files]}
    write_atomic(path, json.dumps(facts, indent=2) + "\n")


def read(project: str, name: str) -> LaidOut | None:
    """What the workspace of this name must settle, if anything."""
    text = read_text(_place(project, name))
    if not text:
        return None
    facts = json.loads(text)
    files = tuple(ConflictFile(**one) for one in facts["files"])
    return LaidOut(facts["commit"], files, tuple(facts["waiting"]), tuple(facts.get("parts", ())))


def write_doubts(snapshot_store: SnapshotStore, name: str, doubts: Sequence[Doubt]) -> None:
    """Remember what to look at in what joined cleanly, for the baton of whoever brings the parts together."""
    path = _place(snapshot_store.place.project, f"{name}.doubts")
    if not doubts:
        remove(path)
        return
    make_folder(os.path.dirname(path), mode=0o700)
    write_atomic(path, json.dumps([one._asdict() for one in doubts]) + "\n", sync=False)


def doubts_of_workspace(workspace: Workspace) -> list[Doubt]:
    """What to look at in what the workspace began with."""
    text = read_text(_place(workspace.project, f"{workspace.name}.doubts"))
    return [Doubt(**one) for one in json.loads(text)] if text else []


def of_workspace(workspace: Workspace) -> LaidOut | None:
    """The same for a workspace that is there; only if it began from that."""
    laid = read(workspace.project, workspace.name)
    return laid if laid is not None and laid.commit == workspace.base else None


def patterns(laid: LaidOut) -> tuple[str, ...]:
    """The ownership of whoever settles it: these files and no other."""
    return tuple(written(EXACT, one.path) for one in laid.files)


def put_sides(store: SnapshotRepo, workspace: Workspace, laid: LaidOut, members: Sequence[Member]) -> None:
    """Both sides beside the work: each part's diff, and each file whole, before both and on either side.

    A session before may have put links there; they are followed nowhere, and what cannot be written is left out.
    """
    names = {name for one in laid.files for name in (one.first, one.second)}
    known = {member.name: member for member in members if member.name in names}
    found = {f"{name}.diff": _diff(store, one.base, one.commit) for name, one in known.items()}
    for one in laid.files:
        if one.base and one.first not in known:
            found[f"{_plain(one.first)}/{one.path}.diff"] = _diff(store, one.base, one.ours)
        for name, sha in (("base", one.base), (one.first, one.ours), (one.second, one.theirs)):
            if sha:
                found[f"{_plain(name)}/{one.path}"] = store.read(sha)
    with suppress(OSError), Beneath(workspace.tree) as inside:
        for name, data in found.items():
            put(inside, f"{FOLDER}/{name}", data)


def _diff(store: SnapshotRepo, old: str, new: str) -> bytes:
    return store.ask_bytes("diff", "--no-color", "--no-ext-diff", old, new)


def _plain(name: str) -> str:
    return name.replace(" ", "-")


def put(inside: Beneath, name: str, data: bytes) -> None:
    """Write a file beneath a clone, with the folders above it."""
    for at in (at for at, sign in enumerate(name) if sign == "/"):
        if not inside.is_folder(name[:at]):
            inside.make_folder(name[:at])
    inside.write(name, data)


def decisions(workspace: Workspace) -> str:
    """What the session wrote down about how it settled it."""
    with suppress(OSError), Beneath(workspace.tree) as inside:
        return inside.read(f"{FOLDER}/decisions.md", most=_MOST_WORDS).decode("utf-8", "replace")
    return ""


# --- what is believed ----------------------------------------------------------------------------------------


def refuse_unsettled(task: Task, store: SnapshotRepo, laid: LaidOut, commit: str) -> None:
    """Say why what a session made of the conflict is not believed."""
    faults = faults_of(store, laid.files, _made(store, laid, commit))
    if faults:
        raise Refused(
            f"'{task.label}' is not done: the conflict is not settled, {'; '.join(faults)}.",
            "Make each file do what both briefs ask, without marks, and report again; or block the task.",
        )


def _made(store: SnapshotRepo, laid: LaidOut, commit: str) -> dict[str, bytes | None]:
    """What a commit has in place of each file with marks; None where it is gone or no plain file."""
    paths = {one.path: os.fsencode(one.path) for one in laid.files}
    tree = store.load(commit, paths.values())
    entries = {path: store.look_up(tree, name) for path, name in paths.items()}
    return {
        path: store.read(entry.sha) if entry is not None and entry.mode in (FILE, PROGRAM) else None
        for path, entry in entries.items()
    }


def way_of(store: SnapshotRepo, laid: LaidOut, commit: str) -> Way:
    """What a session made of the conflict, as a way to join: to see whose red it is when the files are settled so."""
    return settled_way(store, laid.files, _made(store, laid, commit))


def remember_settled(snapshot_store: SnapshotStore, laid: LaidOut, commit: str) -> None:
    """Keep how each file was settled: the parts then join by themselves, also when they are joined again later."""
    store = snapshot_store.store
    made = _made(store, laid, commit)
    for one in laid.files:
        data = made[one.path]
        if data is not None:
            remember(memory_folder(snapshot_store), one.memory_key(store), data)


# --- the baton --------------------------------------------------------------------------------------------------


def brief(
    laid: LaidOut,
    parts: Mapping[str, Task],
    *,
    store: SnapshotRepo,
    batch: str,
    program: str,
    doubts: Sequence[Doubt] = (),
) -> str:
    """What a session is told that must settle it: exactly the conflict, both sides and both wishes."""
    paths = ", ".join(f"`{one.path}`" for one in laid.files)
    names = list(dict.fromkeys(name for one in laid.files for name in (one.first, one.second)))
    joined = ", ".join(name for name in parts if name not in laid.waiting)
    first = laid.files[0]
    lines = [
        f"**Settle one conflict: {paths}** (batch `{batch}`)",
        "",
        "Two changed the same lines. Make ONE file of each that does what both briefs ask. Improve nothing else.",
        f"You wrote neither side; favour neither. Your clone is the target with {joined} joined; in these files stand marks:",
        f"`<<<<<<< {first.first}`, `||||||| {BEFORE}`, `=======`, `>>>>>>> {first.second}`.",
        "",
        bullets([f"`{one.path}`: {one.first} and {one.second}, {_lines(one)}" for one in laid.files]),
        "",
        *_between_marks(laid, store),
        "The two sides:",
        "",
        bullets([_side(name, parts.get(name), laid, store, parts.values()) for name in names], limit=_SHOWN),
        "",
        f"Diffs: `{FOLDER}/NAME.diff`. Whole files: `{FOLDER}/base/`, `{FOLDER}/NAME/`.",
        "",
    ]
    if doubts:
        lines += [doubts_in_words(doubts), ""]
    if laid.waiting:
        lines += [f"{', '.join(laid.waiting)} comes in after you: it touches the same files.", ""]
    lines += [
        f"Write one line for each into `{FOLDER}/decisions.md`:",
        "",
        "- both: independent wishes, combined",
        "- one: the same question with two answers; which one, and why by the briefs",
        f'- ask: the briefs contradict each other. Then: `{program} task block "what a person must decide"`',
    ]
    return "\n".join(lines)


def _between_marks(laid: LaidOut, store: SnapshotRepo) -> list[str]:
    """The lines that are in question, as long as they are few."""
    if sum(one.lines for one in laid.files) > _MOST_SHOWN:
        return []
    found: list[str] = []
    for one in laid.files:
        inside = False
        for line in store.ask_bytes("show", f"{laid.commit}:{one.path}").decode("utf-8", "replace").split("\n"):
            inside = inside or line.startswith("<<<<<<< ")
            if inside:
                found.append(line)
            inside = inside and not line.startswith(">>>>>>> ")
    return [fenced("\n".join(found)), ""] if found else []


def doubts_in_words(doubts: Sequence[Doubt]) -> str:
    """What joined cleanly and may be wrong all the same, in words."""
    lines = [f"`{one.path}`: {one.what} ({one.first}, {one.second})" for one in doubts]
    return f"Noticed in what joined, perhaps nothing:\n\n{bullets(lines)}"


def _side(name: str, part: Task | None, laid: LaidOut, store: SnapshotRepo, known: Collection[Task]) -> str:
    if part is None:
        paths = [one.path for one in laid.files if name in (one.first, one.second)]
        began = next((str(head) for one in known if (head := one.baseline_facts.get("head"))), "")
        span = f"{began}..{laid.commit}~1" if began else f"{laid.commit}~1"
        log = store.git("log", "--max-count=3", "--format=%h %s (%an)", span, "--", *paths)
        came = "".join(f"\n  - commit {line}" for line in log.text.splitlines()) if log.code == 0 else ""
        return f"`{name}`: what came on the branch meanwhile (`{FOLDER}/{_plain(name)}/`, with its diff){came}"
    agent = f" ({part.agent})" if part.agent else ""
    said = f"\n  - its report: {one_line(part.result)}" if part.result else ""
    check = f"\n  - green alone: `{part.check_command}`" if part.check_command else ""
    return f"`{name}`{agent}\n  - asked: {one_line(part.brief)}{said}{check}"


def _lines(one: ConflictFile) -> str:
    if not one.lines:
        return "no marks, because its lines join; but a program makes it, and both changed it: let that program make it again"
    return f"{number_of(one.lines, 'line')} between marks"


def question(task: Task, why: str, *, by_hand: str, program: str) -> str:
    """What a person is asked when sessions have tried and failed."""
    return (
        f"{number_of(ATTEMPTS, 'session')} could not settle the conflict of '{task.label}': {end_sentence(why)} Try once more?\n"
        f"Yes lets another session try: {program} answer {task.label} yes\n"
        f"Or join the parts yourself first, and then say yes. {by_hand}"
    )
