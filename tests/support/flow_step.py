"""`flow step --all` as a process that dies by SIGKILL at given points: POINTS.json, then the flow's key and the agent's word."""

from __future__ import annotations

import json
import sys

import deadly
from handoff.base.errors import HandoffError
from handoff.base.settings import from_environment
from handoff.board.tasks import flows as rows
from handoff.engine.app import App
from handoff.engine.work.flows import flows


def main(plan_path: str) -> None:
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    deadly.arm(plan["points"], plan["folder"])
    app = App(from_environment("handoff"))
    flow = rows.get(app.database, key=plan["flow"])
    for _ in range(plan["steps"]):
        if rows.get(app.database, key=flow.key).cycle >= plan["until"]:
            break
        try:
            flows.step(app, flow=flow, words=(plan["word"],), tell=lambda _: None)
        except HandoffError as error:
            print(error.message, flush=True)
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
