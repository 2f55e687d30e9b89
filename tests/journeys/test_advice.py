"""What handoff advises is typed where it is shown, and works: situation, what shows the advice, each command it names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from typing import NamedTuple

import pytest

from handoff.surfaces.cli.catalog import CATALOG, NOUNS

FEATURE = """
init login
$ printf '# Feature: login\\n\\n# Goal\\nSign in.\\n' > .handoff/current/FEATURE.md
"""
PLAN = FEATURE + "step add One --check 'test -s a.txt'\nstep add Two\n"
TASK = "task add login 'Build it.' --check 'test -s a.txt' --agent mine\n"
GREEN = "$ echo 'echo x > a.txt' > $HOME/agent.sh\n"
RED = "$ echo 'echo broken; exit 7' > $HOME/agent.sh\n"
RUN = "session start login --agent mine\n"
FAILED = RED + TASK + "session start login --agent mine  # 1\n"
BLOCKED = FAILED + 2 * "session start login --agent mine  # 1\n"
KEPT = GREEN + TASK + "task edit login --landing branch\n" + RUN
REVIEWED = GREEN + TASK + "task edit login --landing review\n" + RUN
MANIFEST = """
$ printf '%s' '{"schema_version": 2, "batch_id": "shop", "fan_in_task": "shop-join", "sub_tasks": [' > split.json
$ printf '%s' '{"id": "cart", "brief": "Cart.", "file_ownership": [{"type": "exact", "path": "cart.py"}]},' >> split.json
$ printf '%s' '{"id": "pay", "brief": "Pay.", "file_ownership": [{"type": "exact", "path": "pay.py"}]}]}' >> split.json
$ git add -A && git commit -q -m split
"""
BATCH = MANIFEST + "batch open split.json\n"
HOLED = BATCH + "task claim shop/cart\ntask block 'no key'\ntask claim shop/pay\n$ echo 1 > pay.py\ntask done\n"
PICK = "git cherry-pick -X theirs refs/handoff/work/login-1"
FLOW = "flow start tdd --id calc --request x --agent mine\n"


class Case(NamedTuple):
    """A situation, the command that shows the advice there (exit code behind `#`), and each command named: as shown, as typed."""

    name: str
    before: str
    shown: str
    advice: tuple[str | tuple[str, str], ...]


ADD = ("task add ID 'what to do'", "task add tidy 'Tidy up.'")
INIT = ("init NAME", "init login")
HINT = ("init", "init login")
WORK = ("work --agent NAME", "work --agent mine --until-done")
FOOT = ("status, handoff board, handoff --help",)
"""The line below every overview: typed once, where nothing is there yet."""
CASES = [
    Case("nothing yet", "", "", ("init my-feature", ("demo", "demo --help"), ADD, "status", ("board", "board  # 1"), "--help")),
    Case("no feature: status", "", "status", (INIT, ADD)),
    Case("no feature: list", "", "list", (HINT,)),
    Case("no feature: step", "", "step", (INIT,)),
    *(Case(f"no feature: {word}", "", f"{word}  # 1", (HINT,)) for word in ("next", "continue", "validate", "run")),
    Case("no such feature", FEATURE, "archive nope  # 1", ("list",)),
    Case("switch to no feature", FEATURE, "switch nope  # 1", ("init nope", "list")),
    Case("switch to an archived one", FEATURE + "archive login\n", "switch login  # 1",
         ("init login", "unarchive login")),
    Case("archived", PLAN, "archive login", ("unarchive login",)),
    Case("fresh: run", "init login\n", "run  # 1", (("run", "run  # 1"),)),
    Case("fresh: continue", "init login\n", "continue  # 1", (("start", "start  # 1"), "generate")),
    Case("fresh: validate", "init login\n", "validate  # 1", ("generate",)),
    Case("fresh: step", "init login\n", "step", (("run --copy", "run --copy  # 1"), ("step add TEXT", "step add One"))),
    Case("planned", PLAN, "status", ("run --copy",)),
    Case("planned: next", PLAN, "next", ("run --copy",)),
    Case("red step", PLAN, "step done  # 3", (("step done", "$ echo x > a.txt ;; step done"),)),
    Case("red step by number", PLAN, "step done --step 1  # 3",
         (("step done --step 1", "$ echo x > a.txt ;; step done --step 1"),)),
    Case("step without a check", PLAN, "step done --step 2  # 3",
         (("step done --step 2 --check CMD", "step done --step 2 --check 'test -s README.md'"),
          "step done --step 2 --unchecked")),
    Case("check that cannot fail", PLAN, "step done --check true  # 3", ("step done --unchecked",)),
    Case("blocked plan", FEATURE + "step add One\nstep block why\n", "run  # 3", ("step start 1",)),
    Case("blocked plan: status", FEATURE + "step add One\nstep block why\n", "status", ("step start 1",)),
    Case("blocked plan: done", FEATURE + "step add One\nstep block why\n", "step done  # 1", ("status",)),
    Case("complete", PLAN + "step drop no --step 2\n$ echo x > a.txt\nstep done\n", "run  # 1",
         ("archive login", ("step add TEXT", "step add Three"))),
    Case("no task", "", "task list", (ADD,)),
    Case("nothing to claim", "", "task claim  # 1", ("task list",)),
    Case("nothing claimed", "", "task done  # 1", (("task claim", "task claim  # 1"),)),
    Case("nothing claimed, one ready", TASK, "task done  # 1", ("task claim",)),
    *(Case(f"no such task: {word}", "", f"{word} nope  # 1", ("task list --all",)) for word in ("show", "retry", "cancel")),
    Case("no such task: answer", "", "answer nope yes  # 1", ("gate list",)),
    Case("no such session", "", "session stop nope  # 1", ("session list",)),
    Case("no such batch", "", "batch run nope  # 1", ("batch list --all",)),
    Case("no such schedule", "", "schedule remove nope  # 1", ("schedule list",)),
    Case("no such token", "", "token withdraw nope  # 1", ("token list --all",)),
    Case("no such project", "", "project move nope  # 1", ("project list",)),
    Case("no such snapshot", "", "snapshot restore nope  # 1", ("snapshot list", "snapshot")),
    Case("no such branch", "", "land nope  # 1", ("workspace list",)),
    Case("no such client session", "", "take nope  # 1", ("session list --clients", ("show nope", "show nope  # 1"))),
    Case("nothing cut short", "workspace add blue\n", "land  # 2", (("land NAME", "land blue"),)),
    Case("no batch", MANIFEST, "batch list",
         (("batch open FILE", "batch open split.json"), "help split-a-task")),
    Case("no batch: report", "", "batch report  # 1",
         (("batch example > split.toml", "batch example"),)),
    Case("no flow", "", "flow list", (("flow start tdd --request TEXT", "flow start tdd --request 'It adds.'"),)),
    Case("no flow: step", "", "flow step  # 1", (("flow start tdd --request TEXT", "flow start tdd --request 'It adds.'"),)),
    Case("no token", "", "token list", (("token new NAME", "token new phone"),)),
    Case("no workspace", "", "workspace list", (("workspace add NAME", "workspace add blue"),)),
    Case("no snapshot", "", "snapshot list", ("snapshot",)),
    Case("no snapshot: restore", "", "snapshot restore  # 1", ("snapshot list", "snapshot")),
    Case("nothing to undo", "", "undo  # 1", ("snapshot list",)),
    Case("no incident", "", "incident list", ("incident list --all",)),
    Case("no channel", "", "notify status  # 1", ("help docs/howto/gates.md",)),
    Case("nothing recurs", "", "schedule list",
         (("schedule add NAME '0 3 * * 1-5' --do 'what'", "schedule add tidy '0 3 * * 1-5' --do 'tidy up' --agent mine"),)),
    Case("no agent named", TASK + GREEN, "work  # 1", (("work --agent claude", "work --agent mine --until-done"),)),
    Case("no agent installed", TASK, "work --agent claude  # 1", ("agent list",)),
    Case("no such agent", BLOCKED, "retry login --agent none  # 1", ("help docs/howto/agents.md",)),
    Case("no supervisor", TASK + GREEN, "work --status", (WORK,)),
    Case("ready", TASK + GREEN, "", (WORK,)),
    Case("no agent at all", "", "do 'write a'  # 1",
         ("agent list", "help docs/howto/agents.md", ADD)),
    Case("nothing checks it", "$ echo true > $HOME/agent.sh", "do 'write a' --agent mine  # 1",
         (("retry write-a --note TEXT", "retry write-a --note 'mind it'"), ("retry write-a --check CMD", "retry write-a --check 'test -s a.txt'"),
          "session log SESSION")),
    Case("task twice", TASK, "task add login x  # 4", ("cancel login",)),
    Case("after a cancelled one", TASK + "cancel login\n", "task add more x --after login  # 1", ("task list --all",)),
    Case("nothing finished", TASK, "land login  # 1", ("show login",)),
    Case("claimed", TASK, "task claim login",
         (("heartbeat", "heartbeat"), ("task done", "$ echo x > a.txt ;; task done"), ("task block REASON", "task block 'no key'"),
          "task release")),
    Case("claimed by another", TASK + "task claim login --session other\n", "task claim login --session me  # 4",
         ("show login",)),
    Case("retry what runs", TASK + "task claim login\n", "retry login  # 4", ("show login",)),
    Case("blocked by its session", TASK + "task claim login\ntask block 'no key'\n", "", ("retry login",)),
    Case("outside", "task add own x --owns b.txt\ntask claim own\n$ echo x > a.txt\n", "task done  # 3",
         (("task done own --accept-outside WHOSE", "task done own --accept-outside mine"),)),
    Case("stopped project", TASK + "pause\n", "task list", ("resume --project repo",)),
    Case("asked", TASK + "task claim login\n", "task ask 'Which?' --choice red --choice blue",
         ("answer login red", "answer login blue", ("answer login 'YOUR ANSWER'", "answer login green"))),
    Case("asked: gate", TASK + "task claim login\ntask ask 'Which?' --choice red\n", "gate list",
         (("answer TASK", "answer login"),)),
    Case("asked: see", TASK + "task claim login\ntask ask 'Which?'\n", "answer login",
         ("answer login yes", ("answer login no WHY", "answer login no 'too early'"), ("answer login 'YOUR ANSWER'", "answer login red"),
          ("answer CODE", "answer CODE yes"))),
    Case("yes or no: other words", TASK + "task claim login\n$ echo t > t.md\ntask ask 'OK?' --from t.md\n",
         "answer login maybe  # 1", ("answer login", "answer login yes")),
    Case("no without a reason", TASK + "task claim login\ntask ask 'OK?'\n", "answer login no  # 2",
         (("answer login no WHY", "answer login no 'too early'"),)),
    Case("said no", TASK + "task claim login\ntask ask 'OK?'\n", "answer login no 'too early'", ("retry login",)),
    Case("answered before", TASK + "task claim login\ntask ask 'OK?'\nanswer login yes\n", "answer login yes  # 4",
         ("show login",)),
    Case("asks nothing", TASK, "answer login yes  # 4", ("gate list",)),
    Case("failed", FAILED, "", (("work --agent NAME", "work --agent mine --until-done  # 1"),)),
    Case("blocked", BLOCKED, "", ("retry login",)),
    Case("do fails", RED, "do 'write a' --agent mine --check 'test -s a.txt'  # 1",
         (("retry write-a --note TEXT", "retry write-a --note 'mind it'"), ("session log SESSION", "session log SESSION"))),
    Case("do waits", GREEN, "do 'write a' --agent mine --check 'test -s a.txt'  # 1",
         ("answer write-a yes", "answer write-a", ("session log SESSION", "session log SESSION"))),
    Case("do lands", GREEN, "do 'write a' --agent mine --check 'test -s a.txt' --yes",
         (("undo", "undo"), ("session log SESSION", "session log SESSION"))),
    Case("landed: land", GREEN + TASK + RUN, "land login  # 4", ()),
    Case("landed: retry", GREEN + TASK + RUN, "retry login  # 4", ("undo login",)),
    Case("landed: say", GREEN + TASK + RUN, "session say login x  # 1", (("task add NAME TEXT", "task add more 'More.'"),)),
    Case("landed: cancel", GREEN + TASK + RUN, "cancel login  # 4", ("show login",)),
    Case("taken back", GREEN + TASK + RUN, "undo login", ("retry login",)),
    Case("taken back: show", GREEN + TASK + RUN + "undo login\n", "show login", ("retry login",)),
    Case("taken back: land", GREEN + TASK + RUN + "undo login\n", "land login  # 4", ("retry login",)),
    Case("kept on a branch", KEPT, "show login", ("land login",)),
    Case("kept, then landed", KEPT, "land login", ("undo",)),
    Case("kept, landed, taken back", KEPT + "land login\n", "undo login", ("retry login",)),
    Case("a file of mine is in the way", KEPT + "$ echo mine > a.txt\n", "land login  # 3", ()),
    Case("review", REVIEWED, "answer login",
         ("answer login yes", ("answer login no WHY", "answer login no 'shorter'"), ("answer CODE yes", "answer CODE yes"),
          ("task comment login FILE:LINE TEXT", "task comment login a.txt:1 'why x?'"))),
    Case("review: land", REVIEWED, "land login  # 4", ("answer login",)),
    Case("obeyed", "$ echo 'echo x > .gitignore' > $HOME/agent.sh\ntask add ign x --agent mine --check 'test -s .gitignore'\n"
         "session start ign --agent mine\n", "answer ign",
         ("show ign", "answer ign yes", ("answer ign no 'REASON'", "answer ign no 'not mine'"), ("answer ign no WHY", "answer ign no x"),
          ("answer CODE yes", "answer CODE yes"))),
    Case("cannot join", GREEN + TASK + "$ echo mine > a.txt\n" + RUN, "answer login",
         (("answer login yes", f"$ git add -A && git commit -q -m mine && {PICK} ;; answer login yes"), ("answer login no WHY", "answer login no 'mine is right'"), ("answer CODE yes", "answer CODE no x"))),
    Case("batch open", MANIFEST + "batch open split.json\n", "batch open split.json  # 4",
         (("batch run shop", "batch run shop  # 1"), "cancel shop")),
    Case("batch without a supervisor", BATCH, "batch run shop  # 1",
         (("batch run shop --agents NAME", "$ echo 'exit 7' > $HOME/agent.sh ;; batch run shop --agents mine  # 1 ;; work --stop"),)),
    Case("fan-in too early", BATCH, "task claim shop-join  # 4", ("show shop",)),
    Case("no part is blocked", BATCH, "retry shop  # 1", ("show shop",)),
    Case("a part is missing", HOLED, "answer shop-join",
         ("retry shop/cart", "answer shop-join yes", ("answer shop-join no WHY", "answer shop-join no wait"),
          ("answer CODE yes", "answer CODE yes"))),
    Case("one name for two", BATCH + "task add shop x\n", "answer shop yes  # 1", ()),
    Case("flow begins", RED, "flow start tdd --id calc --request x --agent mine",
         (("flow step calc", "flow step calc  # 1"), ("work --agent NAME", "work --agent mine --until-done  # 1"), "record uninstall")),
    Case("flow twice", FLOW, "flow start tdd --id calc --request x  # 4", ("show calc",)),
    Case("flow without a commit", FLOW, "land handoff/calc  # 1", ("show calc",)),
    Case("flow that runs: resume", FLOW, "resume calc  # 4", ("show calc",)),
    Case("flow that runs: retry", FLOW, "retry calc  # 4", ("flow list",)),
    Case("flow paused", FLOW, "pause calc", ("resume calc",)),
    Case("flow paused: step", FLOW + "pause calc\n", "flow step calc  # 3", ("resume calc",)),
    Case("flow cancelled", FLOW, "cancel calc", ("workspace remove calc",)),
    Case("flow cancelled: step", FLOW + "cancel calc\n", "flow step calc  # 3",
         (("flow start tdd", "flow start tdd --request x"),)),
    Case("no such workflow", "", "flow start nope --request x  # 1", ()),
    Case("workspace twice", "workspace add blue\n", "workspace add blue  # 4", ("workspace remove blue",)),
    Case("workspace removed", "workspace add blue\n", "workspace remove blue", (("undo ID", "undo ID"),)),
    Case("no such workspace", "", "workspace env blue  # 1", ("workspace add blue",)),
    Case("guard not in", "", "git-guard status", ("git-guard install",)),
    Case("restored", "$ echo n > n.txt\nsnapshot\n$ rm n.txt\n", "snapshot restore", (("undo ID", "undo ID"),)),
    Case("database without a backup", TASK, "database restore  # 1", ()),
    Case("a client's name for a session", TASK + "take login\n", "task edit login Else.  # 4",
         ("task release --session SESSION",)),
    Case("check without its program", GREEN + "task add odd x --agent mine --check nosuchprogram\n", "session start odd --agent mine  # 3",
         (("task edit odd --check CMD", "task edit odd --check 'test -s a.txt'"),
          ("session start odd --agent mine", "task edit odd --check 'test -s a.txt' ;; session start odd --agent mine"))),
    Case("the branch moved on", GREEN + TASK + RUN + "$ git commit -q --allow-empty -m later\n", "undo login  # 3", ()),
    Case("feature there already", FEATURE, "init login", ("status",)),
    Case("two of one name", PLAN + "archive login\ninit login\n", "unarchive login  # 3", ("unarchive login --as login-2",)),
    Case("features cleaned", FEATURE, "clean --force", (("undo ID", "undo ID"),)),
    Case("unknown undo", "$ echo x > x.txt\nsafe-commit -m x -- x.txt\n", "undo nope  # 1", ("undo --list",)),
    Case("other agent", TASK + GREEN, "take login --to mine", ("session start login --agent mine",)),
    Case("found", TASK, "search Build", ("show login",)),
    Case("empty search", TASK, "search '\"'  # 1", (('search login "sign-in link"', "search login"),)),
    Case("records do not follow", "", "record status", ("record install",)),
    Case("records follow", "", "record install", ("record uninstall",)),
    Case("phase that cannot be skipped", FLOW, "flow step calc --skip no  # 3",
         (("flow step calc --agent person", "show calc"),)),
    Case("slip of the finger", "", "stauts  # 2", ("help --all",)),
    Case("taken by me", TASK, "take login",
         (("task done --session SESSION", "$ echo x > a.txt ;; task done --session SESSION"), "task release --session SESSION")),
]  # fmt: skip

WORDS = {name.partition(" ")[0] for name in (*CATALOG, *NOUNS)} | {"--help", "help"}
NAMED = re.compile(r"(?<![\w./'-])handoff ((?:-C \S+ )?([a-z-][a-z-]*)[^`\n]*)")
MASKS = (
    (r"session-[0-9a-f]{12}", "SESSION"),
    (r"(?<=answer )[a-z0-9]{18,}\b", "CODE"),
    (r"(?<=undo )[0-9a-f]{10}\b", "ID"),
)
"""What is another one each time stands as a word in the table."""


class World:
    """A repository and a home that can be put back, so that each command is typed in the same situation."""

    def __init__(self, cli, repo, kept) -> None:
        self.cli, self.kept = cli, str(kept)
        self.places = {"repo": repo.path, "home": os.environ["HOME"]}

    def type(self, line: str) -> str:
        line, _, code = line.partition("  # ")
        if line.startswith("$ "):
            shell = ["sh", "-c", line[2:]]
            done = subprocess.run(shell, cwd=self.cli.folder, capture_output=True, text=True, check=False)
            assert done.returncode == int(code or 0), f"{line}\n{done.stdout}{done.stderr}"
            return done.stdout
        said = self.cli(*shlex.split(line), code=int(code or 0))
        return said.out + said.err

    def keep(self, name: str) -> None:
        for one, place in self.places.items():
            shutil.copytree(place, os.path.join(self.kept, name, one), symlinks=True, ignore=_sockets)

    def put_back(self, name: str) -> None:
        for one, place in self.places.items():
            shutil.rmtree(place)
            shutil.copytree(os.path.join(self.kept, name, one), place, symlinks=True)


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)]


@pytest.fixture
def world(cli, repo, tmp_path):
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, mode=0o700)
    script = os.path.join(os.environ["HOME"], "agent.sh")
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'agents = {{ mine = ["sh", "{script}"] }}\nbell = false\n')
    with open(script, "w", encoding="utf-8") as file:
        file.write("exit 7\n")
    return World(cli, repo, tmp_path / "kept")


def _named(said: str) -> list[str]:
    return [command for command, word in NAMED.findall(said) if word in WORDS]


SITUATIONS = {case.before: [one for one in CASES if one.before == case.before] for case in CASES}
AGENT_WORKS = re.compile(r"session start|(?<!-)do '.*--agent|--until-done|--agents mine")
"""Where an agent is started: that takes its time."""


def _situation(before: str, cases: list[Case]):
    typed = (before, *(f"{case.shown} {case.advice}" for case in cases))
    slow = any(map(AGENT_WORKS.search, typed))
    return pytest.param(before, id=cases[0].name.replace(" ", "-"), marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("before", [_situation(before, cases) for before, cases in SITUATIONS.items()])
def test_what_is_advised_works_where_it_is_shown(world, before):
    for line in filter(None, before.splitlines()):
        world.type(line)
    world.keep("before")
    for case in SITUATIONS[before]:
        _try(world, case)
        world.put_back("before")


def _try(world: World, case: Case) -> None:
    advice = [one if isinstance(one, tuple) else (one, one) for one in case.advice]
    said = world.type(case.shown)
    met = {}
    for pattern, word in MASKS:
        for found in re.findall(pattern, said):
            met[word] = found
            said = said.replace(found, word)
    shown = [as_shown for as_shown, _ in advice]
    lost = [one for one in shown if f"handoff {one}" not in said]
    assert not lost, f"{case.name}: not advised: {lost}\n{said}"
    more = [one for one in _named(said) if not one.startswith((*shown, *FOOT))]
    assert not more, f"{case.name}: advised, and not in the table: {more}\n{said}"
    world.keep(case.name)
    for _, typed in advice:
        for word, found in met.items():
            typed = re.sub(rf"\b{word}\b", found, typed)  # noqa: PLW2901 - as a person would type it
        for line in typed.split(" ;; "):
            world.type(line)
        world.put_back(case.name)


def test_a_command_that_is_advised_and_does_not_stand_in_the_table_is_found():
    assert _named("Run: handoff retry login, or see `handoff show x`.\nhandoff asks you.") == [
        "retry login, or see ",
        "show x",
    ]
