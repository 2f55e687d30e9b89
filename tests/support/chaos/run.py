"""`make chaos`: so many random batches with one seed; says what they reached, and stops at the first that the model does not know."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BATCHES_EACH = 4
"""So many batches one after the other in one repository; then a new one."""


def chaos(*, batches: int, seed: int, skip: int = 0, tell: Callable[[str], None] = lambda _: None) -> None:
    """Random batches one after the other; each repository is a seed of its own, so that one of them can be walked again."""
    from chaos.batch import ChaosBatch
    from hunt.world import World

    done = skip
    while done < batches:
        chance, world = random.Random(f"{seed}/{done}"), World()
        try:
            for number in range(min(BATCHES_EACH, batches - done)):
                tell(f"batch {done + number + 1} of {batches} (seed {seed})")
                try:
                    ChaosBatch(world, chance, number, tell=tell).run()
                except BaseException as error:
                    error.add_note(f"seed {seed}, batch {done + number + 1}; again: make chaos SEED={seed} SKIP={done}")
                    raise
        finally:
            world.close()
        done += BATCHES_EACH


def main() -> int:
    """The command line of `make chaos`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="begin behind so many, where a repository was new")
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from sandbox import hermetic_home

    with hermetic_home():
        from chaos.batch import Counter

        began = time.monotonic()
        try:
            chaos(
                batches=given.batches, seed=given.seed, skip=given.skip, tell=(lambda _: None) if given.quiet else print
            )
            return 0
        finally:
            print(f"seed {given.seed}: {given.batches} batches, {time.monotonic() - began:.0f} s")
            print("reached: " + ", ".join(f"{name} {count}" for name, count in sorted(Counter.seen.items())))


if __name__ == "__main__":
    sys.exit(main())
