"""`make hunt`: as many steps as wanted, with one seed, on one database; says what it did, and shrinks what it finds."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

STEPS_EACH, JOURNEYS = 50, 20


def hunt(*, steps: int, number: int, url: str = "", shrink: bool = True) -> type:
    """Journeys of fifty steps each until there were `steps`, every round with the next seed; the counter tells what came of them."""
    from hunt.machine import Counter, Machine
    from hunt.world import forget_template

    Counter.steps = Counter.journeys = 0
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    wanted = settings(
        stateful_step_count=STEPS_EACH, deadline=None, database=None, phases=phases, print_blob=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        while Counter.steps < steps:
            journeys = min(JOURNEYS, -(-(steps - Counter.steps) // STEPS_EACH))
            wanted = settings(wanted, max_examples=journeys)
            run_state_machine_as_test(seed(number)(type("Hunt", (Machine,), {"url": url})), settings=wanted)
            number += 1000
    finally:
        forget_template()
    return Counter


def _busy() -> float:
    """The time this process and its children had a core: other work on the machine does not count."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> int:
    """The command line of `make hunt`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from sandbox import hermetic_home

    with hermetic_home() as home:
        began = time.monotonic()
        from hunt.machine import Counter

        url = ""
        server = None
        if given.database == "postgres":
            from own_server import Server

            folder = os.path.join(home, "pg")
            os.mkdir(folder)
            os.chmod(home, 0o755)  # the server runs as somebody else where we are root
            server = Server(folder)
            url = server.url
        try:
            hunt(steps=given.steps, number=given.seed, url=url, shrink=not given.no_shrink)
            return 0
        finally:
            seconds = time.monotonic() - began
            if server is not None:
                server.stop(signal.SIGQUIT)
            print(
                f"seed {given.seed}, {given.database}: {Counter.steps} steps in {Counter.journeys} journeys,"
                f" {seconds:.0f} s, of it {_busy():.0f} s on a core: {Counter.steps / max(_busy(), 0.1):.0f} steps/s"
            )
            print("reached: " + ", ".join(f"{name} {count}" for name, count in sorted(Counter.seen.items())))


if __name__ == "__main__":
    sys.exit(main())
