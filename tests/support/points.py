"""Where processes are killed on the way from a session's end to its branch: each place by the name that it has now.

A point is `folder.module.function:call` or `:return`, as `deadly` reads it. Code that moves changes a line here and no test.
"""

from __future__ import annotations

import os

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deadly_site")

# What the chain does, in its order.
JUDGED = "workspaces.task_work.judge:return"
BRANCH_PUT = "workspaces.task_work._put_branch:return"
MOVED = "landing.target.move:return"
LANDED = "outcome.carry_out._land:return"
KEPT = "workspaces.task_work.keep:return"
DOCUMENTS_HOME = "features.brought_home.take_home:return"
NOTED = "outcome.carry_out._write_notes:return"
ROW_WRITTEN = "outcome.carry_out._write_rows:return"
PHASE_REFUSED = "flows.conclude._refused:return"
PLANNER_REFUSED = "splitting.planner._again:return"
YES_WRITTEN = "board.gates.approve:return"
SPLIT_OPENED = "tasks.batches.open_checked:return"


def armed(folder: str, *points: str) -> dict[str, str]:
    """The environment of a process that dies at these points, each met once by whoever comes first; marks are left in `folder`."""
    os.makedirs(folder, exist_ok=True)
    return {"PYTHONPATH": SITE, "DEADLY_POINTS": ",".join(points), "DEADLY_FOLDER": folder}
