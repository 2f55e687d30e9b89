"""The commands by name: which file holds each, and its line in the help. Importing it imports no command."""

from __future__ import annotations

from handoff.base.record import Record


class Entry(Record):
    """One command: its module here, its line in the help, and the shelf it stands on."""

    module: str
    help: str
    shelf: str


START, WORK, STEPS, KEEP, RELAY, GIT, TOOL = (
    "Begin", "Hand over", "Steps", "Keep house", "Relay", "Git safety", "The tool itself",
)  # fmt: skip

CATALOG: dict[str, Entry] = {
    "init": Entry("features.features", "create a feature's folder and make it the active one", START),
    "switch": Entry("features.features", "make another feature the active one", START),
    "list": Entry("features.features", "list the features of this project", START),
    "run": Entry("features.prompts", "print the prompt that fits where the feature stands", WORK),
    "generate": Entry("features.prompts", "print the prompt that writes spec, design and plan", WORK),
    "start": Entry("features.prompts", "print the prompt for the first working session", WORK),
    "continue": Entry("features.prompts", "print the prompt for the next session, with everything it must know", WORK),
    "spec": Entry("features.prompts", "print the prompt that writes SPEC.md", WORK),
    "design": Entry("features.prompts", "print the prompt that writes DESIGN.md", WORK),
    "tasks": Entry("features.prompts", "print the prompt that writes the plan", WORK),
    "prompt": Entry("features.prompts", "print any prompt, without looking at the plan", WORK),
    "status": Entry("features.status", "show where the feature stands and what to do next", WORK),
    "next": Entry("features.status", "show the next task and the command for it", WORK),
    "validate": Entry("features.status", "check the plan; exit 1 and name the lines if it cannot be trusted", WORK),
    "accept": Entry("features.status", "say that you have reviewed the feature at the present commit", WORK),
    "step": Entry("features.steps", "edit the plan safely: done, block, add, drop", STEPS),
    "note": Entry("features.steps", "append a note to SESSION.md", STEPS),
    "decide": Entry("features.steps", "append a decision with its reason to DECISIONS.md", STEPS),
    "archive": Entry("features.housekeeping", "put a finished feature aside", KEEP),
    "clean": Entry("features.housekeeping", "move features you no longer need to the trash", KEEP),
    "export": Entry(
        "features.housekeeping", "copy the templates out to change them, or compare yours with newer ones", KEEP
    ),
    "ignore": Entry("features.housekeeping", "keep .handoff/ out of git status, or take that back", KEEP),
    "dump": Entry("tasks.dump", "write the next task down, open a batch, report its parts", RELAY),
    "queue": Entry("tasks.board", "list the relay's tasks", RELAY),
    "open": Entry("tasks.board", "bring a ready task to a tab: editor, tmux, terminal, clipboard", RELAY),
    "claim": Entry("tasks.relay", "take a task: the next ready one, or the one you name", RELAY),
    "heartbeat": Entry("tasks.relay", "show that a session lives; complete, status and calibration of a batch", RELAY),
    "done": Entry("tasks.relay", "report the task done; its check and its ownership decide", RELAY),
    "block": Entry("tasks.relay", "report that the task cannot go on, and why", RELAY),
    "release": Entry("tasks.relay", "give the task back unfinished", RELAY),
    "show": Entry("tasks.board", "show one task with its history", RELAY),
    "log": Entry("tasks.board", "show what happened, and follow it", RELAY),
    "gates": Entry("tasks.gates", "list what waits for your yes or no", RELAY),
    "approve": Entry("tasks.gates", "say yes to the gate a task waits at", RELAY),
    "reject": Entry("tasks.gates", "say no to it, with the reason", RELAY),
    "gate": Entry("tasks.gates", "show a gate with its text, or answer it by the code of a notification", RELAY),
    "pause": Entry("tasks.board", "let nothing new be taken: a project, a batch, a task or everything", RELAY),
    "resume": Entry("tasks.board", "let tasks be taken again", RELAY),
    "retry": Entry("tasks.board", "let a blocked task try again", RELAY),
    "cancel": Entry("tasks.board", "take a task or a batch back", RELAY),
    "prune": Entry("tasks.board", "forget what ended long ago (a dry run unless --execute)", RELAY),
    "workflow": Entry("workflows.workflows", "list, show, check and draw workflows", RELAY),
    "flow": Entry("workflows.flows", "run a workflow: start, step, status, log, pause, resume, retry, cancel", RELAY),
    "work": Entry(
        "supervisor.work", "run the relay by itself: claim what is ready, start agents, survive anything", RELAY
    ),
    "database": Entry(
        "supervisor.database", "show the relay's database, make its tables, give it roles with few rights", RELAY
    ),
    "migrate-database": Entry(
        "supervisor.database", "move the relay to another database, for example to Postgres", RELAY
    ),
    "watchdog": Entry("supervisor.watchdog", "find silent sessions and due fan-ins, once or again and again", RELAY),
    "notify": Entry("supervisor.notify", "tell your chat, phone or program what happens: status, test, deliver", RELAY),
    "sync-files": Entry("tasks.board", "rebuild the files under the home from the relay's rows", RELAY),
    "install": Entry("supervisor.watchdog", "set up the supervisor or the watchdog as a service of your system", RELAY),
    "uninstall": Entry("supervisor.watchdog", "remove that service", RELAY),
    "agents": Entry("agents.agents", "show which agents are installed, what each can do and what fences it", RELAY),
    "session": Entry("agents.sessions", "start an agent on a task and watch it; stop, resume, read it", RELAY),
    "ask": Entry("agents.sessions", "ask a person a question about your task and let it wait for the answer", RELAY),
    "hooks": Entry("agents.hooks", "put handoff's hooks into your agent's settings, or take them out", RELAY),
    "mcp": Entry("agents.mcp", "serve the relay's tools to a client that speaks MCP", RELAY),
    "instructions": Entry(
        "agents.instructions", "tell agents about handoff in AGENTS.md and a skill, or take that out", RELAY
    ),
    "completion": Entry("tool.tool", "print the completion script for your shell", TOOL),
    "upgrade": Entry("tool.tool", "upgrade with the tool that installed handoff", TOOL),
    "version": Entry("tool.tool", "print the version", TOOL),
    "safe-commit": Entry("git.commits", "commit exactly the named paths, whoever else works in this checkout", GIT),
    "git-guard": Entry("git.guard", "guard the git of sessions: hooks in this repository, a shim for their PATH", GIT),
    "snapshot": Entry("git.snapshots", "keep this checkout as it is now: files, index, refs, stash", GIT),
    "snapshots": Entry("git.snapshots", "list what can be brought back", GIT),
    "diff": Entry("git.snapshots", "compare a snapshot with another one or with what is there now", GIT),
    "restore": Entry("git.snapshots", "bring back what a snapshot holds; what is there now is kept first", GIT),
    "sandbox": Entry("git.sandbox", "run a command that can write its own workspace and nothing else", GIT),
    "land": Entry("git.landing", "merge sessions' work in memory, check it, then move the branch", GIT),
    "collisions": Entry("git.landing", "show which files two live sessions have changed", GIT),
    "incidents": Entry("git.incidents", "show what a guard refused or the watcher noticed, and what mends it", GIT),
    "undo": Entry("git.snapshots", "take back the last restore, landing or removal, or all a session did", GIT),
    "check": Entry(
        "workflows.checks", "find the project's tests, run them on an exact tree and say what each did", STEPS
    ),
    "rehearse": Entry("tool.rehearse", "run the scripted agent in this folder: no model, no cost", TOOL),
    "demo": Entry("tool.demo", "show three sessions handing one feature on, in a scratch repository", TOOL),
    "verify": Entry("git.notes", "run the recorded checks of a commit again on its exact tree, and compare", GIT),
    "notes": Entry("git.notes", "exchange the records of what was verified, and let them follow a rebase", GIT),
    "workspace": Entry("git.workspaces", "make, list and remove folders in which sessions work apart", GIT),
    "gc": Entry("git.workspaces", "remove snapshots past their time and unfinished workspaces; says what first", GIT),
}
