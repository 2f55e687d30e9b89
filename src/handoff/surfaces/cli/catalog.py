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
    "init": Entry("features", "create a feature's folder and make it the active one", START),
    "switch": Entry("features", "make another feature the active one", START),
    "list": Entry("features", "list the features of this project", START),
    "run": Entry("prompts", "print the prompt that fits where the feature stands", WORK),
    "generate": Entry("prompts", "print the prompt that writes spec, design and plan", WORK),
    "start": Entry("prompts", "print the prompt for the first working session", WORK),
    "continue": Entry("prompts", "print the prompt for the next session, with everything it must know", WORK),
    "spec": Entry("prompts", "print the prompt that writes SPEC.md", WORK),
    "design": Entry("prompts", "print the prompt that writes DESIGN.md", WORK),
    "tasks": Entry("prompts", "print the prompt that writes the plan", WORK),
    "prompt": Entry("prompts", "print any prompt, without looking at the plan", WORK),
    "status": Entry("status", "show where the feature stands and what to do next", WORK),
    "next": Entry("status", "show the next task and the command for it", WORK),
    "validate": Entry("status", "check the plan; exit 1 and name the lines if it cannot be trusted", WORK),
    "accept": Entry("status", "say that you have reviewed the feature at the present commit", WORK),
    "step": Entry("steps", "edit the plan safely: done, block, add, drop", STEPS),
    "note": Entry("steps", "append a note to SESSION.md", STEPS),
    "decide": Entry("steps", "append a decision with its reason to DECISIONS.md", STEPS),
    "archive": Entry("housekeeping", "put a finished feature aside", KEEP),
    "clean": Entry("housekeeping", "move features you no longer need to the trash", KEEP),
    "export": Entry("housekeeping", "copy the templates out to change them, or compare yours with newer ones", KEEP),
    "ignore": Entry("housekeeping", "keep .handoff/ out of git status, or take that back", KEEP),
    "dump": Entry("dump", "write the next task down, open a batch, report its parts", RELAY),
    "queue": Entry("board", "list the relay's tasks", RELAY),
    "open": Entry("board", "bring a ready task to a tab: editor, tmux, terminal, clipboard", RELAY),
    "claim": Entry("relay", "take a task: the next ready one, or the one you name", RELAY),
    "heartbeat": Entry("relay", "show that a session lives; complete, status and calibration of a batch", RELAY),
    "done": Entry("relay", "report the task done; its check and its ownership decide", RELAY),
    "block": Entry("relay", "report that the task cannot go on, and why", RELAY),
    "release": Entry("relay", "give the task back unfinished", RELAY),
    "show": Entry("board", "show one task with its history", RELAY),
    "log": Entry("board", "show what happened, and follow it", RELAY),
    "gates": Entry("gates", "list what waits for your yes or no", RELAY),
    "approve": Entry("gates", "say yes to the gate a task waits at", RELAY),
    "reject": Entry("gates", "say no to it, with the reason", RELAY),
    "gate": Entry("gates", "show a gate with its text, or answer it by the code of a notification", RELAY),
    "pause": Entry("board", "let nothing new be taken: a project, a batch, a task or everything", RELAY),
    "resume": Entry("board", "let tasks be taken again", RELAY),
    "retry": Entry("board", "let a blocked task try again", RELAY),
    "cancel": Entry("board", "take a task or a batch back", RELAY),
    "prune": Entry("board", "forget what ended long ago (a dry run unless --execute)", RELAY),
    "workflow": Entry("workflows", "list, show, check and draw workflows", RELAY),
    "flow": Entry("flows", "run a workflow: start, step, status, log, pause, resume, retry, cancel", RELAY),
    "work": Entry("work", "run the relay by itself: claim what is ready, start agents, survive anything", RELAY),
    "database": Entry("database", "show the relay's database, make its tables, give it roles with few rights", RELAY),
    "migrate-database": Entry("database", "move the relay to another database, for example to Postgres", RELAY),
    "watchdog": Entry("watchdog", "find silent sessions and due fan-ins, once or again and again", RELAY),
    "notify": Entry("notify", "tell your chat, phone or program what happens: status, test, deliver", RELAY),
    "sync-files": Entry("board", "rebuild the files under the home from the relay's rows", RELAY),
    "install": Entry("watchdog", "set up the supervisor or the watchdog as a service of your system", RELAY),
    "uninstall": Entry("watchdog", "remove that service", RELAY),
    "agents": Entry("agents", "show which agents are installed, what each can do and what fences it", RELAY),
    "session": Entry("sessions", "start an agent on a task and watch it; stop, resume, read it", RELAY),
    "ask": Entry("sessions", "ask a person a question about your task and let it wait for the answer", RELAY),
    "hooks": Entry("hooks", "put handoff's hooks into your agent's settings, or take them out", RELAY),
    "mcp": Entry("mcp", "serve the relay's tools to a client that speaks MCP", RELAY),
    "instructions": Entry(
        "instructions", "tell agents about handoff in AGENTS.md and a skill, or take that out", RELAY
    ),
    "completion": Entry("tool", "print the completion script for your shell", TOOL),
    "upgrade": Entry("tool", "upgrade with the tool that installed handoff", TOOL),
    "version": Entry("tool", "print the version", TOOL),
    "safe-commit": Entry("commits", "commit exactly the named paths, whoever else works in this checkout", GIT),
    "git-guard": Entry("guard", "guard the git of sessions: hooks in this repository, a shim for their PATH", GIT),
    "snapshot": Entry("snapshots", "keep this checkout as it is now: files, index, refs, stash", GIT),
    "snapshots": Entry("snapshots", "list what can be brought back", GIT),
    "diff": Entry("snapshots", "compare a snapshot with another one or with what is there now", GIT),
    "restore": Entry("snapshots", "bring back what a snapshot holds; what is there now is kept first", GIT),
    "sandbox": Entry("sandbox", "run a command that can write its own workspace and nothing else", GIT),
    "land": Entry("landing", "merge sessions' work in memory, check it, then move the branch", GIT),
    "collisions": Entry("landing", "show which files two live sessions have changed", GIT),
    "incidents": Entry("incidents", "show what a guard refused or the watcher noticed, and what mends it", GIT),
    "undo": Entry("snapshots", "take back the last restore, landing or removal, or all a session did", GIT),
    "check": Entry("checks", "find the project's tests, run them on an exact tree and say what each did", STEPS),
    "rehearse": Entry("rehearse", "run the scripted agent in this folder: no model, no cost", TOOL),
    "demo": Entry("demo", "show three sessions handing one feature on, in a scratch repository", TOOL),
    "verify": Entry("notes", "run the recorded checks of a commit again on its exact tree, and compare", GIT),
    "notes": Entry("notes", "exchange the records of what was verified, and let them follow a rebase", GIT),
    "workspace": Entry("workspaces", "make, list and remove folders in which sessions work apart", GIT),
    "gc": Entry("workspaces", "remove snapshots past their time and unfinished workspaces; says what first", GIT),
}
