"""Where processes are killed on the way from a session's end to its branch: each place by the name that it has now.

A point is `folder.module.function:call` or `:return`, as `deadly` reads it. Code that moves changes a line here and no test.
"""

from __future__ import annotations

import os

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deadly_site")

# --- what one ended session goes through, in its order ------------------------------------------------------------

JUDGED = "place.task_work.judge:return"
BRANCH_PUT = "place.task_work._put_branch:return"
SETTLED_KEPT = "landing.conflict.remember_settled:return"
RACE_GATHERED = "place.task_work.gather_race_facts:return"
KEPT = "place.task_work.keep:return"
PLANNED = "outcome.carry_out.plan_landing:return"
DECIDING = "outcome.chain._add:return"  # inside the transaction, before its commit
DECIDED = "outcome.carry_out.carry:call"
LANDING_SAVED = "landing.target.save:return"
BRANCH_MOVED = "landing.target._bring_along:call"  # the branch has moved, the person's files have not
MOVED = "landing.target.move:return"
LANDED = "outcome.carry_out._land:return"
CARRIED = "proof.git_notes.carry:return"
NOTED = "outcome.carry_out._write_notes:return"
DOCUMENTS_HOME = "place.brought_home.take_home:return"
TICKED = "outcome.carry_out._tick:return"
PUBLISHED = "place.publish.publish:return"
FINISHING = "tasks.outcomes.finish:return"  # inside the transaction, before its commit
RACE_DECIDED = "tasks.outcomes._decide_race:return"  # there too
ROW_WRITTEN = "outcome.carry_out._write_rows:return"
CARRIED_OUT = "outcome.carry_out.carry:return"
SENT_BACK = "outcome.chain._send_back:return"
GATE_ASKED = "board.gates.ask:return"
UNREPORTED = "session.conclude._unreported:return"
TELLING = "outcome.kinds.tell_concluded:call"
TOLD = "outcome.kinds.tell_concluded:return"
TIDYING = "place.task_work.tidy:call"
TIDIED = "place.task_work.tidy:return"
CONCLUDED = "session.conclude.conclude:return"
FORGETTING = "place.running.forget:call"

PHASE_PREPARING = "flows.conclude.prepare:call"
PHASE_PREPARED = "flows.conclude.prepare:return"
PHASE_DECIDING = "flows.conclude.decide:call"
PHASE_REFUSED = "flows.conclude._refused:return"
PHASE_JUDGING = "flows.judge.judge_phase:call"
PHASE_JUDGED = "flows.judge.judge_phase:return"
PHASE_DECIDED = "flows.advance.decide:return"
PHASE_COMMITTED = "commits.phases.commit:return"
PHASE_ARRIVING = "commits.phases.arrive:call"
PHASE_ARRIVED = "commits.phases.arrive:return"
PHASE_PUBLISHING = "commits.phases.publish:call"
PHASE_PUBLISHED = "commits.phases.publish:return"
PHASE_DOCUMENTS = "flows.documents.take_home:return"
PHASE_TICKED = "flows.documents.tick:return"
PHASE_NOTING = "flows.advance._note:call"
PHASE_NOTED = "proof.git_notes.put:return"
PHASE_ADVANCING = "flows.advance._advance:call"
PHASE_TASK_DONE = "flows.advance._finish_task:return"
PHASE_ENTERED = "flows.advance.enter:return"
PHASE_ADVANCED = "flows.advance._advance:return"

MANIFEST_VERIFIED = "splitting.planner.verify_words:return"
PLANNER_REFUSED = "splitting.planner._again:return"

YES_CHECKED = "outcome.kinds.check_answer:return"
YES_WRITING = "board.gates.approve:call"  # inside the transaction, as is the next
YES_WRITTEN = "board.gates.approve:return"
SPLIT_OPENED = "tasks.batches.open_checked:return"

CLAIM_BEGUN = "session.claims.begin:return"
CLAIM_KEPT = "session.claims.keep:return"
CLAIM_DROPPING = "session.claims.drop:call"

ENGINE_LAUNCHED = "supervisor.runs.launch:return"
ADOPTED = "supervisor.supervisor.adopt:return"

# --- which of them each kind of work meets --------------------------------------------------------------------------

OF_CLONES = (
    "workspaces.__init__.reserve:return",  # a name is taken, nothing is there
    "workspaces.kinds.make:return",
    "place.task_clones.ready:return",
    "session.placement.place:return",
)
_JUDGE = (JUDGED, BRANCH_PUT, KEPT, DECIDING, DECIDED)
_LAND = (PLANNED, LANDING_SAVED, BRANCH_MOVED, MOVED, LANDED)
_CARRY = (NOTED, TICKED, PUBLISHED, FINISHING, ROW_WRITTEN, CARRIED_OUT)
_END = (UNREPORTED, TELLING, TOLD, TIDYING, TIDIED, CONCLUDED, FORGETTING)
OF_TASKS = (*OF_CLONES, ENGINE_LAUNCHED, ADOPTED, *_JUDGE, *_LAND, DOCUMENTS_HOME, *_CARRY, *_END)
OF_REPORTS = (*_JUDGE, *_LAND, DOCUMENTS_HOME, *_CARRY)
OF_PARTS = (*_JUDGE, *_CARRY, TELLING, TIDYING)
OF_ENTRANTS = (RACE_GATHERED, KEPT, DECIDED, RACE_DECIDED, ROW_WRITTEN, TELLING, TIDYING)
OF_FAN_INS = (JUDGED, KEPT, PLANNED, LANDING_SAVED, BRANCH_MOVED, LANDED, DECIDED, CARRIED, FINISHING, ROW_WRITTEN, TELLING, TIDYING, TIDIED)  # fmt: skip
_PHASE_CARRIED_OUT = (
    PHASE_JUDGING, PHASE_JUDGED, PHASE_DECIDED, PHASE_COMMITTED, PHASE_ARRIVING, PHASE_ARRIVED, PHASE_PUBLISHING,
    PHASE_PUBLISHED, PHASE_NOTING, PHASE_NOTED, PHASE_ADVANCING, PHASE_TASK_DONE, PHASE_ENTERED, PHASE_ADVANCED,
)  # fmt: skip
_PREPARED = (PHASE_PREPARING, PHASE_PREPARED, "agents.session.start:return", "session.start.wait:return", "session.start.save:return")  # fmt: skip
OF_SENT_BACK = (SENT_BACK, TELLING)
OF_SETTLED = (SETTLED_KEPT, DECIDED, LANDED, CARRIED_OUT)
OF_PHASES = (*_PREPARED, PHASE_DECIDING, *_PHASE_CARRIED_OUT, TOLD, CONCLUDED)
OF_DOCUMENTS = (PHASE_DECIDED, PHASE_DOCUMENTS, PHASE_TICKED, PHASE_NOTED, PHASE_ADVANCING, PHASE_ENTERED, FORGETTING)
OF_EVERY_PHASE = (
    PHASE_DECIDING, PHASE_JUDGED, PHASE_DECIDED, PHASE_ARRIVED, PHASE_PUBLISHED, PHASE_NOTED, PHASE_DOCUMENTS, PHASE_TICKED,
    PHASE_TASK_DONE, PHASE_ENTERED, PHASE_ADVANCED,
)  # fmt: skip
PHASE_ALWAYS = (PHASE_JUDGED, PHASE_DECIDED, PHASE_ENTERED, PHASE_ADVANCED)
OF_BARE_PHASES = (PHASE_JUDGED, PHASE_DECIDED, PHASE_NOTING, PHASE_NOTED, PHASE_ADVANCING, PHASE_ENTERED)
OF_PLANNERS = (MANIFEST_VERIFIED, GATE_ASKED, TELLING, TOLD, FORGETTING)
OF_A_YES_TO_A_SPLIT = (YES_CHECKED, YES_WRITING, YES_WRITTEN)
OF_A_YES = (PLANNED, BRANCH_MOVED, MOVED, NOTED, DOCUMENTS_HOME, YES_WRITTEN, ROW_WRITTEN)
OF_CLAIMS = (CLAIM_BEGUN, "sessions.leases.claim:return", CLAIM_KEPT)
OF_TAKING = ("work.stopping.hold_for_person:return", "place.running.stop:return", "work.stopping.take:return", *OF_CLAIMS,
             "work.stopping.claim_taken:return")  # fmt: skip
OF_TABS = (DECIDING, DECIDED, NOTED, TICKED, PUBLISHED, FINISHING, ROW_WRITTEN, CARRIED_OUT, CLAIM_DROPPING)

# --- around it: how a run, a monitor, an agent and a renewed clone come about -----------------------------------------

OF_RUNS = (
    "supervisor.runs._claim:return",
    "supervisor.runs.nudge:return",
    "supervisor.runs.session_step:call",
    "agents.folder.write:return",
    "place.running.leave:return",
    "base.process.spawn:return",  # the monitor is started, nobody knows it yet
    "agents.session.start:return",
    "session.start.wait:return",
    "supervisor.runs.save_step:call",
    "supervisor.runs.save_step:return",
    "tasks.outcomes.finish:return",  # inside the transaction, before its commit
    "outcome.kinds.tell_concluded:call",
    "supervisor.runs.conclude_step:return",
    "supervisor.runs.run_phase:return",
)
OF_MONITORS = (
    "agents.monitor.main:call",
    "agents.monitor.adopt_orphans:call",  # the folder is its own, the client is not started
    "base.process.detach:return",  # the client runs, nobody knows its number
    "agents.monitor._write:return",
    "agents.monitor.clean_up:call",  # the client is over, its exit code is told to nobody
    "agents.monitor._tell:call",
    "agents.monitor._tell:return",
)
OF_AGENTS = (
    "tool.demo._scripted:call",
    "adapters.scripted.perform:call",
    "adapters.scripted.do_write:return",
    "adapters.scripted.perform:return",
)
OF_RENEWALS = (
    "landing.renewal.begin:call",
    "landing.renewal.clear:call",
    "landing.renewal.clear:return",
    "place.workspaces.add_workspace:return",
    "landing.renewal._forget:call",
    "landing.renewal.finish:return",
)


def armed(folder: str, *points: str) -> dict[str, str]:
    """The environment of a process that dies at these points, each met once by whoever comes first; marks are left in `folder`."""
    os.makedirs(folder, exist_ok=True)
    return {"PYTHONPATH": SITE, "DEADLY_POINTS": ",".join(points), "DEADLY_FOLDER": folder}


def beside(kind: str, points: tuple[str, ...]) -> tuple[str, ...]:
    """The same points beside a database of this kind: on a server another engine has the runs."""
    theirs = ("supervisor.runs.launch:", "supervisor.runs.nudge:") if kind == "postgres" else ()
    return tuple(
        point.replace("supervisor.runs.", "supervisor.durable.") if point.startswith(theirs) else point
        for point in points
    )
