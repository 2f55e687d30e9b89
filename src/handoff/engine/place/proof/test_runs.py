"""The project's tests, run by us on an exact tree: in a clean folder, inside the sandbox, with the person's dependencies. A first suite
is made here where a project has none."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory

from handoff.agents.sandbox.policy import inside_environment
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, NOTHING, Wrapped
from handoff.base.bounds import bounds_of, carrying, end
from handoff.base.errors import UserError
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, project_config
from handoff.checks.commands import check_environment
from handoff.checks.findings import FileChange
from handoff.checks.frameworks import STARTERS, find_suites, need_suites, read_proposal, starter_files, starter_suites
from handoff.checks.run import RunFolders, run_suite
from handoff.checks.sealed import random_word
from handoff.checks.support import files_below, owned_names
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.sandboxes import checkouts_of, sandbox_of_workspace
from handoff.engine.safety.snapshots import keep, open_snapshot_store
from handoff.git.ownership import Ownership
from handoff.git.plumbing import find_top
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.snapshot_repo import Location, find_place
from handoff.git.plumbing.untrusted import distrusting, make_git_folder
from handoff.git.workspaces import CLONE, Workspace
from handoff.git.workspaces.dependencies import copy_included, link_dependency
from handoff.git.workspaces.scratch import Changed, Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from handoff.checks.results import Report
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

CHECKS = "checks"
_NOT_A_PERSONS = ("HANDOFF_", "GIT_", "PYTHONDONTWRITE", "PYTHONPATH", "TMPDIR", "PWD", "OLDPWD", "CI")
_AT_HOME = (
    ".bash_history",
    ".bashrc",
    ".profile",
    ".cache/motd",
    ".config/user-dirs",
    ".local/share/recent",
    "notes.txt",
)
_CACHES = ("__pycache__", ".pytest_cache")
_READ = (".py", ".toml", ".ini", ".cfg", ".json", ".pth")  # files in which code or settings of a runner can stand


def suites_of(app: App, *, folder: str, required: bool = True) -> tuple[Suite, ...]:
    """The suites of the checkout at `folder`: what its config.toml names, else what is found; none is an error if required.

    Take them once and keep them: whoever is judged by them must not be able to choose others.
    """
    del app
    config = project_config(folder)
    search = need_suites if required else find_suites
    return search(folder, configured=config.values["checks"], path=os.path.join(PROJECT_FOLDER, "config.toml"))


def suites_here(app: App, *, folder: str = ".") -> tuple[Suite, ...]:
    """The suites of the checkout that holds `folder`."""
    top = find_top(folder)
    if top is None:
        raise UserError("This is not a git repository.", "Go to your project, or use: handoff -C DIR check")
    return suites_of(app, folder=top)


def verdict(
    app: App,
    *,
    repository: str,
    tree: str,
    suites: Sequence[Suite],
    timeout: float = 0.0,
    sandboxed: bool = True,
    dependencies: str = "",
    before: str = "",
) -> tuple[Report, ...]:
    """Run the suites on exactly this tree (or commit) of the repository or of its snapshots. No checkout is touched.

    `dependencies` is the checkout whose node_modules, .venv and the like are borrowed: the person's, unless told
    otherwise, because what a session can write must not decide about its own work. `before` is the tree the work began
    from: a name that is new since then may not stand in for a library.
    """
    place = find_place(repository, home=app.settings.home, project=app.settings.get("HANDOFF_PROJECT"))
    lender = dependencies or _lender(place)
    seconds = timeout or project_config(lender).number("check_timeout")
    slots = os.path.join(place.project, CHECKS)
    with Scratch(slots, repository, app.settings.environment, store=place.store) as scratch:
        scratch.lay_out(tree, keep=[path for suite in suites for path in suite.keep])
        drop_bytecode(scratch.tree)
        borrowed = _borrow(suites, lender, scratch.tree)
        _include(app, lender, scratch.tree)
        wrap = _wrapper(app, place, scratch, borrowed) if sandboxed else None
        folders = RunFolders(
            top=scratch.tree,
            scratch=scratch.temp,
            dependencies=lender,
            environment=_environment(app, scratch.tree),
            timeout=seconds,
            is_test=lambda _path: False,
            wrap=wrap,
            bounds=bounds_of(home_config(app)),
        )
        owned = {} if not before else Changed(repository, app.settings.environment).listing(before)
        reports = []
        for number, suite in enumerate(suites):
            app.tell(f"Running the tests of {suite.name}", number, len(suites))
            names = owned_names(owned or files_below(scratch.tree), suite)
            reports.append(
                run_suite(suite, folders=folders._replace(is_test=is_test(suite), owned=names), clock=app.clock)
            )
        return tuple(reports)


@contextmanager
def elsewhere(
    app: App, *, repository: str, tree: str, suites: Sequence[Suite], without: Sequence[str] = (), later: float = 0.0
) -> Iterator[tuple[RunFolders, dict[str, str]]]:
    """The tree as a person has it: in a folder whose name nobody knows, with a `.git`, files as old as `later` says; and the environment
    of a person. It is held by a layer that does not show. What it started and left running is ended."""
    place = find_place(repository, home=app.settings.home, project=app.settings.get("HANDOFF_PROJECT"))
    lender = _lender(place)
    with ExitStack() as ending:
        above = ending.enter_context(TemporaryDirectory(prefix=f"{random_word()}-", ignore_cleanup_errors=True))
        top = os.path.join(os.path.realpath(above), random_word())
        with Scratch(
            os.path.join(place.project, CHECKS), repository, app.settings.environment, store=place.store
        ) as scratch:
            scratch.lay_out(tree)
            shutil.copytree(scratch.tree, top, symlinks=True, ignore=shutil.ignore_patterns(*_CACHES))
        make_git_folder(os.path.join(top, ".git"), "sha1", "\tbare = false\n", head="ref: refs/heads/main", sync=False)
        for path in without:
            with suppress(OSError):  # gone already, or others lie beside it
                os.unlink(os.path.join(top, path))
                os.removedirs(os.path.dirname(os.path.join(top, path)))
        _commit(top, app.git_environment)
        if later:
            for at, _, names in os.walk(top):
                for name in names:
                    os.utime(os.path.join(at, name), (later, later), follow_symlinks=False)
        borrowed = _borrow(suites, lender, top)
        _include(app, lender, top)
        workspace = Workspace(name=os.path.basename(above), kind=CLONE, project=place.project, tree=top)
        sandbox = sandbox_of_workspace(app, workspace=workspace, terminal=True)
        policy = sandbox.policy._replace(visible=(*sandbox.policy.visible, *borrowed), unseen=True)
        given = _environment(app, top)
        home = os.path.join(policy.temp, random_word())
        for name in _AT_HOME:
            os.makedirs(os.path.join(home, os.path.dirname(name)), exist_ok=True)
            with open(os.path.join(home, name), "w", encoding="utf-8"):
                pass
        inside = home if sandbox.layer != BUBBLEWRAP else os.path.join("/tmp", os.path.basename(home))  # noqa: S108 - where it is bound to
        ending.callback(lambda: end(carrying(f"HOME={inside}")))
        folders = RunFolders(
            top=top,
            scratch=policy.temp,
            dependencies=lender,
            environment=given,
            timeout=project_config(lender).number("check_timeout"),
            is_test=lambda _path: False,
            wrap=None if sandbox.layer == NOTHING else sandbox._replace(policy=policy).wrap,
            bounds=bounds_of(home_config(app)),
        )
        yield folders, _of_a_person(inside_environment(given, policy.variables), inside)


def _commit(top: str, environment: Mapping[str, str]) -> None:
    """A person's repository has a commit and knows its files."""
    name, git = random_word(), distrusting(os.path.join(top, ".git"), environment, top)
    git.git("add", "--all")
    git.git("-c", f"user.name={name}", "-c", f"user.email={name}@localhost", "commit", "--quiet", f"--message={name}")


def most_questions(app: App, repository: str) -> int:
    """How many altered answers changed tests are asked about, as the person's settings say."""
    place = find_place(repository, home=app.settings.home, project=app.settings.get("HANDOFF_PROJECT"))
    return int(project_config(_lender(place)).number("questions"))


def _of_a_person(given: Mapping[str, str], home: str) -> dict[str, str]:
    """The variables of somebody at a terminal: their toolchains', and none of ours."""
    kept = {key: value for key, value in given.items() if not key.startswith(_NOT_A_PERSONS)}
    name = random_word()
    base = os.path.join(given.get("HOME", ""), ".local")
    if os.path.isdir(base):
        kept.setdefault("PYTHONUSERBASE", base)
    return {**kept, "HOME": home, "USER": name, "LOGNAME": name, "SHELL": "/bin/bash", "TERM": "xterm-256color"}


def check(
    app: App,
    *,
    folder: str = ".",
    names: Sequence[str] = (),
    tree: str = "",
    timeout: float = 0.0,
    sandboxed: bool = True,
) -> tuple[str, tuple[Report, ...]]:
    """Run the suites of this checkout, some or all, on a commit or on the files as they are now; the tree, the reports."""
    snapshot_store = open_snapshot_store(app, folder=folder)
    top = snapshot_store.place.source.top
    suites = chosen(suites_of(app, folder=top), names)
    name = tree or keep(app, snapshot_store, "before a check").sha
    reports = verdict(
        app, repository=top, tree=name, suites=suites, timeout=timeout, sandboxed=sandboxed, dependencies=top
    )
    return name, reports


def chosen(suites: Sequence[Suite], names: Sequence[str]) -> tuple[Suite, ...]:
    """The suites of these names; all of them when none is named."""
    known = {suite.name: suite for suite in suites}
    for name in names:
        if name not in known:
            raise UserError(f"There is no suite '{name}'.", f"There are: {', '.join(known)}.")
    return tuple(known[name] for name in names) if names else tuple(suites)


def changes(app: App, *, repository: str, old: str, new: str, suites: Sequence[Suite]) -> tuple[FileChange, ...]:
    """What differs between two trees or commits, with the texts of the tests among it: what the judge wants to see."""
    differing = Changed(repository, app.settings.environment)
    found = differing.paths(old, new)
    owned = tests_of(suites)
    tests = {path for path in found if owned.covers(path)}
    read = (path for path in found if path in tests or path.endswith(_READ))
    texts = differing.texts([sha for path in read for sha in found[path]])
    return tuple(
        FileChange(path, path in tests, texts.get(before), texts.get(after)) for path, (before, after) in found.items()
    )


def tests_of(suites: Sequence[Suite]) -> Ownership:
    """Everything that is a test."""
    return Ownership.parse([pattern for suite in suites for pattern in suite.tests])


def is_test(suite: Suite) -> Callable[[str], bool]:
    """Whether a path from the top is one of the suite's tests."""
    owned = tests_of([suite])

    def covers(path: str) -> bool:
        return not path.startswith(("/", "../")) and owned.covers(path)

    return covers


def _lender(place: Location) -> str:
    """The person's checkout: the repository itself, or for a workspace of ours the one it was made from."""
    if not place.source.top.startswith(os.path.join(place.project, "")):
        return place.source.top
    first = next(iter(checkouts_of(place.project)), place.source.top)
    return first if os.path.lexists(os.path.join(first, ".git")) else place.source.top


def drop_bytecode(tree: str) -> None:
    """Caches that a commit brought along: bytecode stands in for the text that was read, and no project needs it."""
    for at, folders, _ in os.walk(tree):
        for name in [name for name in folders if name in _CACHES and not os.path.islink(os.path.join(at, name))]:
            shutil.rmtree(os.path.join(at, name), ignore_errors=True)
            folders.remove(name)


def _borrow(suites: Sequence[Suite], lender: str, tree: str) -> list[str]:
    """Link folders of dependencies into the tree where it has none of its own; what must be readable inside the sandbox."""
    visible = []
    for link in dict.fromkeys(link for suite in suites for link in suite.links):
        source = os.path.join(lender, link)
        if not os.path.isdir(source):
            continue
        visible.append(source)
        with Beneath(tree) as files:  # inside, only where it really is can be seen
            link_dependency(files, os.path.realpath(source), os.path.normpath(link))
    return visible


def _include(app: App, lender: str, tree: str) -> None:
    """Files git does not carry but tests need, by the person's own list."""
    if not os.path.isfile(os.path.join(lender, ".worktreeinclude")):
        return
    snapshot_store = open_snapshot_store(app, folder=lender)
    copy_included(snapshot_store.place, snapshot_store.store, tree)


def _environment(app: App, tree: str) -> dict[str, str]:
    """The person's environment without what would lead a test to the relay or to another repository."""
    kept = {
        key: value
        for key, value in check_environment(app.settings.environment).items()
        if key.startswith("GIT_CONFIG_") or not key.startswith(("HANDOFF_", "GIT_"))
    }
    return {**kept, "HANDOFF_WORKSPACE": tree, "PYTHONDONTWRITEBYTECODE": "1"}


def _wrapper(
    app: App, place: Location, scratch: Scratch, borrowed: Sequence[str]
) -> Callable[[Sequence[str], Mapping[str, str]], Wrapped] | None:
    """What puts a command inside the sandbox, where this machine has one: running tests runs the agent's code."""
    workspace = Workspace(name=os.path.basename(scratch.folder), kind=CLONE, project=place.project, tree=scratch.tree)
    sandbox = sandbox_of_workspace(app, workspace=workspace)
    if sandbox.layer == NOTHING:
        return None
    policy = sandbox.policy._replace(visible=(*sandbox.policy.visible, *borrowed))
    return sandbox._replace(policy=policy).wrap


NO_SUITE = "no-suite"


class FirstSuite(Record):
    """The tree with the files of the new suite, and the suite itself; or why there is none."""

    tree: str
    suites: tuple[Suite, ...] = ()
    refused: str = ""


def make_suite(
    app: App, *, checkout: FlowCheckout, tree: str, text: str, repository: str, list_name: str
) -> FirstSuite:
    """The suite the list of tests asks for, in the tree; where it names none that can be made here, that."""
    name, known = read_proposal(text), possible_suites(app)
    if name not in known:
        said = f"'{name}' cannot be made here" if name else "The project has no test suite yet, and none is proposed"
        words = f"{said}. Add a line `suite: NAME` to {list_name}; NAME is one of {', '.join(known)}."
        return FirstSuite(tree, refused=words)
    files = starter_files(name, project=os.path.basename(repository), read=lambda path: checkout.read(tree, path))
    return FirstSuite(checkout.tree_with(tree, dict(files)), starter_suites(name, files))


def possible_suites(app: App) -> list[str]:
    """The suites whose program is on this machine."""
    return [name for name, one in STARTERS.items() if find(one.program, path=app.settings.path) is not None]


def ask_for_suite(app: App, list_name: str) -> str:
    """What a planner is told about it."""
    return (
        f"There is no test suite yet. Choose one: write a line `suite: NAME` into `{list_name}`,"
        f" NAME one of {', '.join(f'`{name}`' for name in possible_suites(app))}. It is made for you."
    )
