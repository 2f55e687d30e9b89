"""The commands by name: which file holds each, and its line in the help. Importing it imports no command."""

from __future__ import annotations

from handoff.base.record import Record


class CommandEntry(Record):
    """One command: its module here, its line in the help, and the shelf it stands on."""

    module: str
    help: str
    section: str


START, WORK, STEPS, KEEP, RELAY, GIT, TOOL = (
    "Begin",
    "Hand over",
    "Steps",
    "Keep house",
    "Relay",
    "Git safety",
    "The tool itself",
)

CATALOG: dict[str, CommandEntry] = {
    "init": CommandEntry("features.features", "create a feature's folder and make it the active one", START),
    "switch": CommandEntry("features.features", "make another feature the active one", START),
    "list": CommandEntry("features.features", "list the features of this project", START),
    "run": CommandEntry("features.prompts", "print the prompt that fits where the feature stands", WORK),
    "generate": CommandEntry("features.prompts", "print the prompt that writes spec, design and plan", WORK),
    "start": CommandEntry("features.prompts", "print the prompt for the first working session", WORK),
    "continue": CommandEntry(
        "features.prompts", "print the prompt for the next session, with everything it must know", WORK
    ),
    "spec": CommandEntry("features.prompts", "print the prompt that writes SPEC.md", WORK),
    "design": CommandEntry("features.prompts", "print the prompt that writes DESIGN.md", WORK),
    "tasks": CommandEntry("features.prompts", "print the prompt that writes the plan", WORK),
    "prompt": CommandEntry("features.prompts", "print any prompt, without looking at the plan", WORK),
    "status": CommandEntry("features.status", "show where the feature stands and what to do next", WORK),
    "next": CommandEntry("features.status", "show the next task and the command for it", WORK),
    "validate": CommandEntry(
        "features.status", "check the plan; exit 1 and name the lines if it cannot be trusted", WORK
    ),
    "accept": CommandEntry("features.status", "say that you have reviewed the feature at the present commit", WORK),
    "step": CommandEntry("features.steps", "edit the plan safely: done, block, add, drop", STEPS),
    "note": CommandEntry("features.steps", "append a note to SESSION.md", STEPS),
    "decide": CommandEntry("features.steps", "append a decision with its reason to DECISIONS.md", STEPS),
    "archive": CommandEntry("features.housekeeping", "put a finished feature aside", KEEP),
    "clean": CommandEntry("features.housekeeping", "move features you no longer need to the trash", KEEP),
    "export": CommandEntry(
        "features.housekeeping", "copy the templates out to change them, or compare yours with newer ones", KEEP
    ),
    "ignore": CommandEntry("features.housekeeping", "keep .handoff/ out of git status, or take that back", KEEP),
    "dump": CommandEntry("tasks.dump", "write the next task down, open a batch, report its parts", RELAY),
    "queue": CommandEntry("tasks.board", "list the relay's tasks", RELAY),
    "open": CommandEntry("tasks.board", "bring a ready task to a tab: editor, tmux, terminal, clipboard", RELAY),
    "claim": CommandEntry("tasks.relay", "take a task: the next ready one, or the one you name", RELAY),
    "heartbeat": CommandEntry(
        "tasks.relay", "show that a session lives; complete, status and calibration of a batch", RELAY
    ),
    "done": CommandEntry("tasks.relay", "report the task done; its check and its ownership decide", RELAY),
    "block": CommandEntry("tasks.relay", "report that the task cannot go on, and why", RELAY),
    "release": CommandEntry("tasks.relay", "give the task back unfinished", RELAY),
    "show": CommandEntry("tasks.board", "show one task with its history", RELAY),
    "log": CommandEntry("tasks.board", "show what happened, and follow it", RELAY),
    "gates": CommandEntry("tasks.gates", "list what waits for your yes or no", RELAY),
    "approve": CommandEntry("tasks.gates", "say yes to the gate a task waits at", RELAY),
    "reject": CommandEntry("tasks.gates", "say no to it, with the reason", RELAY),
    "gate": CommandEntry("tasks.gates", "show a gate with its text, or answer it by the code of a notification", RELAY),
    "pause": CommandEntry("tasks.board", "let nothing new be taken: a project, a batch, a task or everything", RELAY),
    "resume": CommandEntry("tasks.board", "let tasks be taken again", RELAY),
    "retry": CommandEntry("tasks.board", "let a blocked task try again", RELAY),
    "cancel": CommandEntry("tasks.board", "take a task or a batch back", RELAY),
    "prune": CommandEntry("tasks.board", "forget what ended long ago (a dry run unless --execute)", RELAY),
    "workflow": CommandEntry("workflows.workflows", "list, show, check and draw workflows", RELAY),
    "flow": CommandEntry(
        "workflows.flows", "run a workflow: start, step, status, log, pause, resume, retry, cancel", RELAY
    ),
    "work": CommandEntry(
        "supervisor.work", "run the relay by itself: claim what is ready, start agents, survive anything", RELAY
    ),
    "database": CommandEntry(
        "supervisor.database", "show the relay's database, make its tables, give it roles with few rights", RELAY
    ),
    "migrate-database": CommandEntry(
        "supervisor.database", "move the relay to another database, for example to Postgres", RELAY
    ),
    "watchdog": CommandEntry(
        "supervisor.watchdog", "find silent sessions and due fan-ins, once or again and again", RELAY
    ),
    "notify": CommandEntry(
        "supervisor.notify", "tell your chat, phone or program what happens: status, test, deliver", RELAY
    ),
    "sync-files": CommandEntry("tasks.board", "rebuild the files under the home from the relay's rows", RELAY),
    "install": CommandEntry(
        "supervisor.watchdog", "set up the supervisor or the watchdog as a service of your system", RELAY
    ),
    "uninstall": CommandEntry("supervisor.watchdog", "remove that service", RELAY),
    "agents": CommandEntry(
        "agents.agents", "show which agents are installed, what each can do and what fences it", RELAY
    ),
    "session": CommandEntry("agents.sessions", "start an agent on a task and watch it; stop, resume, read it", RELAY),
    "ask": CommandEntry(
        "agents.sessions", "ask a person a question about your task and let it wait for the answer", RELAY
    ),
    "hooks": CommandEntry("agents.hooks", "put handoff's hooks into your agent's settings, or take them out", RELAY),
    "mcp": CommandEntry("agents.mcp", "serve the relay's tools to a client that speaks MCP", RELAY),
    "instructions": CommandEntry(
        "agents.instructions", "tell agents about handoff in AGENTS.md and a skill, or take that out", RELAY
    ),
    "completion": CommandEntry("tool.tool", "print the completion script for your shell", TOOL),
    "upgrade": CommandEntry("tool.tool", "upgrade with the tool that installed handoff", TOOL),
    "version": CommandEntry("tool.tool", "print the version", TOOL),
    "safe-commit": CommandEntry(
        "git.commits", "commit exactly the named paths, whoever else works in this checkout", GIT
    ),
    "git-guard": CommandEntry(
        "git.guard", "guard the git of sessions: hooks in this repository, a shim for their PATH", GIT
    ),
    "snapshot": CommandEntry("git.snapshots", "keep this checkout as it is now: files, index, refs, stash", GIT),
    "snapshots": CommandEntry("git.snapshots", "list what can be brought back", GIT),
    "diff": CommandEntry("git.snapshots", "compare a snapshot with another one or with what is there now", GIT),
    "restore": CommandEntry("git.snapshots", "bring back what a snapshot holds; what is there now is kept first", GIT),
    "sandbox": CommandEntry("git.sandbox", "run a command that can write its own workspace and nothing else", GIT),
    "land": CommandEntry("git.landing", "merge sessions' work in memory, check it, then move the branch", GIT),
    "collisions": CommandEntry("git.landing", "show which files two live sessions have changed", GIT),
    "incidents": CommandEntry(
        "git.incidents", "show what a guard refused or the watcher noticed, and what fixes it", GIT
    ),
    "undo": CommandEntry("git.snapshots", "take back the last restore, landing or removal, or all a session did", GIT),
    "check": CommandEntry(
        "workflows.checks", "find the project's tests, run them on an exact tree and say what each did", STEPS
    ),
    "scripted": CommandEntry("tool.scripted", "run the scripted agent in this folder: no model, no cost", TOOL),
    "demo": CommandEntry("tool.demo", "show three sessions handing one feature on, in a scratch repository", TOOL),
    "verify": CommandEntry(
        "git.notes", "run the recorded checks of a commit again on its exact tree, and compare", GIT
    ),
    "notes": CommandEntry("git.notes", "exchange the records of what was verified, and let them follow a rebase", GIT),
    "workspace": CommandEntry("git.workspaces", "make, list and remove folders in which sessions work apart", GIT),
    "gc": CommandEntry(
        "git.workspaces", "remove snapshots past their time and unfinished workspaces; says what first", GIT
    ),
}
