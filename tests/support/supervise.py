"""A supervisor for tests, as a process: `PLAN.json` names its agents, its pace and the points at which it is to be killed.

A point is `module.function:call` or `:return`. The first process that reaches a point makes its marker and dies by
SIGKILL at that very place; nothing of ours is replaced, the interpreter's own profiler tells where it is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.phases import Crew
from handoff.engine.supervisor import Pace, Supervisor


def deadly(points: list[str], folder: str) -> Any:
    """A profiler that kills this process at the points nobody has reached yet."""
    left = {tuple(point.rsplit(":", 1)) for point in points}

    def look(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if "handoff" not in code.co_filename:
            return
        name = f"{os.path.basename(code.co_filename).removesuffix('.py')}.{code.co_name}"
        if (name, event) not in left or (event == "return" and argument is None and name in _MUST_RETURN):
            return
        try:
            os.close(os.open(os.path.join(folder, f"{name}-{event}"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            left.discard((name, event))
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return look


_MUST_RETURN = {"supervisor._claim"}  # an idle look that claims nothing is not the point


def main(plan_path: str) -> None:
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    if plan["points"]:
        look = deadly(plan["points"], plan["folder"])
        threading.setprofile(look)
        sys.setprofile(look)
    app = App(from_environment())
    supervisor = Supervisor(
        app, Crew((plan["agent"],), tuple(plan["words"])), most=plan.get("most", 0),
        tell=lambda text: print(text, flush=True), pace=Pace(**plan["pace"]),
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: supervisor.leave())
    supervisor.run()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
