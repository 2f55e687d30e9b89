"""The commands by name: which file holds each, and its line in the help. Importing it imports no command."""

from __future__ import annotations

from handoff.base.record import Record


class CommandEntry(Record):
    """One command: its module here, its line in the help, and the section it stands in."""

    module: str
    help: str
    section: str


_SECTIONS = {
    "Begin": {
        "init": ("features.features", "create a feature's folder and make it the active one"),
        "switch": ("features.features", "make another feature the active one"),
        "list": ("features.features", "list the features of this project"),
    },
    "Hand over": {
        "run": ("features.prompts", "print the prompt that fits where the feature stands"),
        "generate": ("features.prompts", "print the prompt that writes spec, design and plan"),
        "start": ("features.prompts", "print the prompt for the first working session; it makes what is missing"),
        "continue": ("features.prompts", "print the prompt for the next session, with everything it must know"),
        "spec": ("features.prompts", "print the prompt that writes SPEC.md"),
        "design": ("features.prompts", "print the prompt that writes DESIGN.md"),
        "tasks": ("features.prompts", "print the prompt that writes the plan"),
        "prompt": ("features.prompts", "print any prompt, without looking at the plan"),
        "board": ("board.board", "show what needs you, what runs, what landed and what is next, live, with keys"),
        "status": ("features.status", "show where the feature stands and what to do next"),
        "next": ("features.status", "show the next task and the command for it"),
        "validate": ("features.status", "check the plan; exit 1 and name the lines if it cannot be trusted"),
        "accept": ("features.status", "say that you have reviewed the feature at the present commit"),
    },
    "Steps": {
        "step": ("features.steps", "edit the plan safely: done, block, add, drop"),
        "note": ("features.steps", "append a note to SESSION.md"),
        "decide": ("features.steps", "append a decision with its reason to DECISIONS.md"),
        "check": ("workflows.checks", "find the project's tests, run them on an exact tree and say what each did"),
    },
    "Keep house": {
        "archive": ("features.housekeeping", "put a finished feature aside"),
        "clean": ("features.housekeeping", "move features you no longer need to the trash"),
        "export": ("features.housekeeping", "copy the templates out to change them, or compare yours with newer ones"),
        "ignore": ("features.housekeeping", "keep .handoff/ out of git status, or take that back"),
    },
    "Relay": {
        "dump": ("tasks.dump", "write the next task down, open a batch, report its parts"),
        "queue": ("tasks.queue", "list the relay's tasks"),
        "open": ("tasks.board", "bring a ready task to a tab: editor, tmux, terminal, clipboard"),
        "claim": ("tasks.relay", "take a task: the next ready one, or the one you name"),
        "heartbeat": ("tasks.relay", "show that a session lives; complete, status and calibration of a batch"),
        "done": ("tasks.relay", "report the task done; its check and its ownership decide"),
        "block": ("tasks.relay", "report that the task cannot go on, and why"),
        "release": ("tasks.relay", "give the task back unfinished"),
        "show": ("tasks.board", "show one task with its history"),
        "log": ("tasks.board", "show what happened, and follow it"),
        "gates": ("tasks.gates", "list what waits for your yes or no"),
        "approve": ("tasks.gates", "say yes to the gate a task waits at"),
        "reject": ("tasks.gates", "say no to it, with the reason"),
        "gate": ("tasks.gates", "show a gate with its text, or answer it by the code of a notification"),
        "pause": ("tasks.board", "let nothing new be taken: a project, a batch, a task or everything"),
        "resume": ("tasks.board", "let tasks be taken again"),
        "retry": ("tasks.board", "let a blocked task try again"),
        "cancel": ("tasks.board", "take a task or a batch back"),
        "prune": ("tasks.board", "forget what ended long ago (a dry run unless --execute)"),
        "workflow": ("workflows.workflows", "list, show, check and draw workflows"),
        "flow": ("workflows.flows", "run a workflow: start, step, status, log, pause, resume, retry, cancel"),
        "work": ("supervisor.work", "run the relay by itself: claim what is ready, start agents, survive anything"),
        "database": (
            "supervisor.database",
            "show the relay's database, make its tables, give it roles with few rights",
        ),
        "migrate-database": ("supervisor.database", "move the relay to another database, for example to Postgres"),
        "watchdog": ("supervisor.watchdog", "find silent sessions and due fan-ins, once or again and again"),
        "notify": ("supervisor.notify", "tell your chat, phone or program what happens: status, test, deliver"),
        "import": ("tool.imports", "move over from handoff-fanout: its live tasks, batches, measures and settings"),
        "project": ("tasks.projects", "list the projects of this machine; take one over that moved, or rename it"),
        "sync-files": ("tasks.board", "rebuild the files under the home from the relay's rows"),
        "install": ("supervisor.watchdog", "set up the supervisor or the watchdog as a service of your system"),
        "uninstall": ("supervisor.watchdog", "remove that service"),
        "agents": ("agents.agents", "show which agents are installed, what each can do and what fences it"),
        "session": ("agents.sessions", "start an agent on a task and watch it; stop, resume, read it"),
        "ask": ("agents.sessions", "ask a person a question about your task and let it wait for the answer"),
        "hooks": ("agents.hooks", "put handoff's hooks into your agent's settings, or take them out"),
        "mcp": ("agents.mcp", "serve the relay's tools to a client that speaks MCP"),
        "instructions": ("agents.instructions", "tell agents about handoff in AGENTS.md and a skill, or take that out"),
    },
    "The tool itself": {
        "completion": ("tool.tool", "print the completion script for your shell"),
        "doctor": ("tool.doctor", "look for what is wrong on this machine and here, and name what fixes it"),
        "upgrade": ("tool.tool", "upgrade with the tool that installed handoff"),
        "version": ("tool.tool", "print the version"),
        "scripted": ("tool.scripted", "run the scripted agent in this folder: no model, no cost"),
        "demo": ("tool.demo", "show three sessions handing one feature on, in a scratch repository"),
    },
    "Git safety": {
        "safe-commit": ("git.commits", "commit exactly the named paths, whoever else works in this checkout"),
        "git-guard": ("git.guard", "guard the git of sessions: hooks in this repository, a shim for their PATH"),
        "snapshot": ("git.snapshots", "keep this checkout as it is now: files, index, refs, stash"),
        "snapshots": ("git.snapshots", "list what can be brought back"),
        "diff": ("git.snapshots", "compare a snapshot with another one or with what is there now"),
        "restore": ("git.snapshots", "bring back what a snapshot holds; what is there now is kept first"),
        "sandbox": ("git.sandbox", "run a command that can write its own workspace and nothing else"),
        "land": ("git.landing", "merge sessions' work in memory, check it, then move the branch"),
        "collisions": ("git.landing", "show which files two live sessions have changed"),
        "incidents": ("git.incidents", "show what a guard refused or the watcher noticed, and what fixes it"),
        "undo": ("git.snapshots", "take back one restore, safe commit, landing, removal or undo, or all a session did"),
        "verify": ("git.notes", "run the recorded checks of a commit again on its exact tree, and compare"),
        "notes": ("git.notes", "exchange the records of what was verified, and let them follow a rebase"),
        "workspace": ("git.workspaces", "make, list and remove folders in which sessions work apart"),
        "gc": ("git.workspaces", "remove snapshots past their time and unfinished workspaces; says what first"),
    },
}
CATALOG = {
    name: CommandEntry(module, text, section)
    for section, commands in _SECTIONS.items()
    for name, (module, text) in commands.items()
}
