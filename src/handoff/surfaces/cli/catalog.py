"""The commands by name, of one word or a noun and its verb: which file holds each, and its line in the help."""

from __future__ import annotations

from handoff.base.record import Record


class CommandEntry(Record):
    """One command: its module here, its line in the help, and the section it stands in."""

    module: str
    help: str
    section: str


HIDDEN = "Also understood"
"""Words of older tools and of special uses: they work, a noun's own help names its verbs, the lists of commands do not."""
_SECTIONS = {
    "Features": {
        "init": ("features.features", "create a feature's folder and make it the active one"),
        "switch": ("features.features", "make another feature the active one"),
        "list": ("features.features", "list the features of this project"),
        "archive": ("features.features", "put a finished feature aside"),
        "clean": ("features.features", "move features you no longer need to the trash"),
        "export": ("features.features", "copy the templates out to change them, or compare yours with newer ones"),
    },
    "Hand over": {
        "run": ("features.prompts", "print the prompt that fits where the feature stands"),
        "continue": ("features.prompts", "print the prompt for the next session, with everything it must know"),
        "prompt": ("features.prompts", "print any prompt, without looking at the plan"),
        "take": ("agents.take", "take a task from an agent, or a session from any client, and hand it on"),
        "board": ("board.board", "show what needs you, what runs, what landed and what is next, live, with keys"),
        "page": ("board.board", "show the same in a browser, also on the phone, and answer there"),
        "status": ("features.status", "show where the feature stands and what to do next"),
        "next": ("features.status", "show the next task and the command for it"),
        "validate": ("features.status", "check the plan; exit 1 and name the lines if it cannot be trusted"),
        "accept": ("features.status", "say that you have reviewed the feature at the present commit"),
        "step": ("features.steps", "show the plan, and edit it safely: done, block, add, drop, start"),
        "note": ("features.steps", "append a note to SESSION.md"),
        "decide": ("features.steps", "append a decision with its reason to DECISIONS.md"),
        "check": ("git.notes", "find the project's tests, run them on an exact tree and say what each did"),
    },
    "Tasks, batches, flows": {
        "do": ("agents.do", "let an agent do what a sentence says: checked, shown to you, landed"),
        "task list": ("tasks.board", "list the relay's tasks"),
        "task add": ("tasks.dump", "write a task down for the next session"),
        "task open": ("tasks.board", "bring a ready task to a tab: editor, tmux, terminal, clipboard"),
        "task claim": ("tasks.relay", "take a task: the next ready one, or the one you name"),
        "task done": ("tasks.relay", "report the task done; its check and its ownership decide"),
        "task block": ("tasks.relay", "report that the task cannot go on, and why"),
        "task release": ("tasks.relay", "give the task back unfinished"),
        "task edit": ("tasks.acts", "change a task's brief, agent, model, check or files while nobody works on it"),
        "task comment": ("tasks.acts", "write on a line of a task's work; its next session reads it"),
        "task ask": ("agents.sessions", "ask a person a question about your task and let it wait for the answer"),
        "schedule add": ("supervisor.schedule", "let a task, a batch, a flow or a sentence be made again and again"),
        "split": ("tasks.splitting", "let an agent propose a split; you approve it"),
        "race": ("tasks.splitting", "let several agents do the same work; the best by evidence lands"),
        "batch example": ("tasks.batch", "print a manifest with a word on every key, which runs"),
        "batch run": ("tasks.batch", "verify a manifest, start agents, and stay until the verdict"),
        "batch report": ("tasks.batch", "show the result of a batch: who did what, when, at which cost"),
        "batch list": ("tasks.batch", "list the batches and how far each is"),
        "batch collisions": ("git.workspaces", "show which files two live sessions have changed"),
        "flow": ("tasks.flows", "run a workflow: start it, do a step of it, list what runs"),
        "flow kinds": ("tasks.flows", "list, show, check and draw the workflows there are"),
    },
    "Anything with an address": {
        "show": ("tasks.acts", "show a task, batch, flow, gate or incident with its history"),
        "log": ("tasks.acts", "show what happened, to all or to one address, and follow it"),
        "search": (
            "tasks.acts",
            "look for words in briefs, reports, notes, decisions, the journal and transcripts",
        ),
        "retry": ("tasks.acts", "let what is blocked try again: a task, the parts of a batch, a flow"),
        "pause": ("tasks.acts", "let nothing new be taken: the project, a task, a batch, a flow or everything"),
        "resume": ("tasks.acts", "let it be taken again"),
        "cancel": ("tasks.acts", "take a task, a batch or a flow back"),
        "gate list": ("tasks.acts", "list what waits for your yes or no"),
        "answer": ("tasks.acts", "say yes, no or your text to what waits for you, by its address or its code"),
    },
    "Agents": {
        "work": ("supervisor.work", "run the relay by itself: claim what is ready, start agents, survive anything"),
        "session": ("agents.sessions", "start an agent on a task and watch it; stop, resume, read it"),
        "agent list": ("agents.agents", "show which agents are installed, what each can do and what fences it"),
        "mcp": ("agents.mcp", "serve the relay's tools to a client that speaks MCP"),
        "token new": ("agents.mcp", "make a token with which a program may read, answer or steer over HTTP"),
    },
    "Git safety": {
        "safe-commit": ("git.commits", "commit exactly the named paths, whoever else works in this checkout"),
        "git-guard": ("git.guard", "guard the git of sessions: hooks in this repository, a shim for their PATH"),
        "land": ("git.workspaces", "merge sessions' work in memory, check it, then move the branch"),
        "undo": (
            "git.snapshots",
            "take back one restore, safe commit, landing, removal, archive, clean or undo, or all a session did",
        ),
        "snapshot take": ("git.snapshots", "keep this checkout as it is now: files, index, refs, stash"),
        "snapshot list": ("git.snapshots", "list what can be brought back"),
        "snapshot restore": ("git.snapshots", "bring back what a snapshot holds; what is there now is kept first"),
        "workspace": ("git.workspaces", "make, list and remove folders in which sessions work apart"),
        "incident list": ("git.guard", "show what a guard refused or the watcher noticed, and what fixes it"),
        "record": ("git.notes", "exchange the records of what was verified, and let them follow a rebase"),
    },
    "This machine": {
        "project": ("tasks.projects", "list the projects of this machine; take one over that moved, or rename it"),
        "project tidy": (
            "tasks.projects",
            "forget what ended long ago, remove old snapshots and workspaces; says what first",
        ),
        "database": (
            "supervisor.database",
            "show the relay's database, make its tables, give it roles with few rights",
        ),
        "notify": ("supervisor.watchdog", "tell your chat, phone or program what happens: status, test, deliver"),
        "import": ("tasks.projects", "take in the issues of your forge, or what is live in a home of handoff-fanout"),
        "setup": (
            "agents.setup",
            "set up agents, hooks, tools, guard and snapshots on this machine; repairs, and --undo",
        ),
        "setup service": ("supervisor.work", "install or remove a background service"),
        "doctor": ("tool.tool", "look for what is wrong on this machine and here, and name what fixes it"),
        "upgrade": ("tool.tool", "upgrade with the tool that installed handoff"),
        "demo": ("tool.demo", "show three sessions handing one feature on, in a scratch repository"),
    },
    HIDDEN: {
        "generate": ("features.prompts", "print the prompt that writes spec, design and plan"),
        "start": ("features.prompts", "print the prompt for the first working session; it makes what is missing"),
        "spec": ("features.prompts", "print the prompt that writes SPEC.md"),
        "design": ("features.prompts", "print the prompt that writes DESIGN.md"),
        "tasks": ("features.prompts", "print the prompt that writes the plan"),
        "dump": ("tasks.dump", "write the next task down, open a batch, report its parts"),
        "batch watch": ("tasks.batch", "stay with a batch until its verdict"),
        "gate show": ("tasks.acts", "show a gate with its text and the code that answers it once"),
        "scripted": ("tool.demo", "run the scripted agent in this folder: no model, no cost"),
        "prune": (
            "tasks.projects",
            "forget the tasks that ended long ago, with their files (a dry run unless --execute)",
        ),
        "database files": ("tasks.board", "rebuild the files under the home from the relay's rows"),
        "setup hooks": ("agents.setup", "put handoff's hooks alone into an agent's settings, or take them out"),
        "setup instructions": (
            "agents.setup",
            "tell agents about handoff in AGENTS.md and skills, or take that out",
        ),
        "unarchive": ("features.features", "bring an archived feature back"),
        "ignore": ("features.features", "keep .handoff/ out of git status, or take that back"),
        "heartbeat": ("tasks.relay", "show that a session lives and goes on with its task"),
        "batch open": ("tasks.batch", "open the batch a manifest describes: parts that own different files"),
        "task note": ("tasks.relay", "leave a line for whoever goes on with your task"),
        "session say": ("agents.do", "say something to a session that runs"),
        "schedule list": ("supervisor.schedule", "list what recurs: when it comes next and what came of it"),
        "schedule pause": ("supervisor.schedule", "let it be made no more for now"),
        "schedule resume": ("supervisor.schedule", "let it be made again, from the next time on"),
        "schedule run": ("supervisor.schedule", "make it now, beside its times"),
        "schedule remove": ("supervisor.schedule", "forget it; what it made stays"),
        "agent retry": ("agents.agents", "start an agent again that is held"),
        "agent score": ("agents.agents", "count which agent does which kind of work well here"),
        "token list": ("agents.mcp", "list the tokens, what each may do and when it was used"),
        "token withdraw": ("agents.mcp", "make a token worthless at once"),
        "snapshot diff": ("git.snapshots", "compare a snapshot with another one or with what is there now"),
        "workspace run": ("git.workspaces", "run a command that can write its own workspace and nothing else"),
        "incident seen": ("git.guard", "say that you have taken note of incidents"),
        "record verify": ("git.notes", "run the recorded checks of a commit again on its exact tree, and compare"),
        "database move": ("supervisor.database", "move the relay to another database, for example to Postgres"),
        "watchdog": ("supervisor.watchdog", "find silent sessions and due fan-ins, once or again and again"),
        "completion": ("tool.tool", "print the completion script for your shell"),
        "version": ("tool.tool", "print the version"),
    },
}
CATALOG = {
    name: CommandEntry(module, text, section)
    for section, commands in _SECTIONS.items()
    for name, (module, text) in commands.items()
}
SHOWN = {name: entry for name, entry in CATALOG.items() if entry.section != HIDDEN}
# Nouns: what each does when no verb is said. Their verbs are entries of two words, or nested in the command of that name.
NOUNS = {
    "task": "list",
    "batch": "list",
    "schedule": "list",
    "gate": "list",
    "flow": "list",
    "session": "list",
    "agent": "list",
    "token": "list",
    "snapshot": "take",
    "incident": "list",
    "workspace": "list",
    "record": "status",
    "project": "list",
    "database": "show",
    "step": "list",
}
# First words of entries of two words: nouns, and commands that have further verbs beside what they do alone.
FIRST_WORDS = frozenset(name.partition(" ")[0] for name in CATALOG if " " in name)
