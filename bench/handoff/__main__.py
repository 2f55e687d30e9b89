"""`python -m bench.handoff [JOURNEY …]`: the table, and below it what is lost most."""

from __future__ import annotations

import sys

from bench.handoff import everything, journeys, lost, measure, play, table

if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    if names:
        with play.stage() as stage:
            chosen = [journey for journey in journeys() if journey.name in names]
            found = [one for journey in chosen for where in journey.cuts for one in measure(stage, journey, where)]
    else:
        found = everything()
    for what, measured, goal in table(found):
        print(f"{what:72} {measured:34} {goal}")
    for budget in (2000, 8000):
        print(f"\nLost with {budget} tokens:")
        print("\n".join(lost(found, budget)))
