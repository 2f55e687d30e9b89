"""Every technique of the adversarial suite against every protection, judged by facts.

`python -m bench.adversary` prints the table; with `--write` it goes into docs/howto/git-safety.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "howto", "git-safety.md")
BEGIN, END = "<!-- table: python -m bench.adversary --write -->", "<!-- end of table -->"


def _suite():
    sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
    from adversary import arena, techniques

    return arena, techniques


def trials(protection: str) -> list:
    """All trials under one protection."""
    arena, techniques = _suite()
    with tempfile.TemporaryDirectory(prefix="handoff-arena-") as root:
        place = arena.Arena(root, protection)
        found = [place.run(one, role) for one in techniques.TECHNIQUES for role in one.roles]
        place.reset()
        return found


def protections() -> list[str]:
    """What this machine can show."""
    arena, _ = _suite()
    from handoff.agents.sandbox.sandbox import layer

    found = [arena.NONE, arena.WORKTREE, arena.CLONE]
    found += [arena.CLONE_LANDLOCK] if layer(os.environ, wanted="landlock") == "landlock" else []
    found += [arena.DEFAULT] if layer(os.environ, wanted="bubblewrap") == "bubblewrap" else []
    return found


def rows() -> list[tuple[str, str, str]]:
    """The one figure with a budget: what is lost with the default protection."""
    arena, _ = _suite()
    if arena.DEFAULT not in protections():
        return [("techniques that lose work, clone + bubblewrap + snapshots", "bubblewrap is absent", "0")]
    found = trials(arena.DEFAULT)
    lost = sum(one.verdict == arena.LOST for one in found)
    return [("techniques that lose work, clone + bubblewrap + snapshots", f"{lost} of {len(found)}", "0")]


def table(results: dict[str, list]) -> str:
    """Prevented, restorable and lost by role."""
    arena, techniques = _suite()
    roles = (techniques.CARELESS, techniques.EAGER, techniques.MAIN)
    sizes = {role: sum(role in one.roles for one in techniques.TECHNIQUES) for role in roles}
    lines = ["|protection|" + "|".join(f"{role}, of {sizes[role]}" for role in roles) + "|own work kept|"]
    lines.append("|---" * (len(roles) + 2) + "|")
    for name, found in results.items():
        cells = []
        for role in roles:
            counts = Counter(one.verdict for one in found if one.role == role)
            cells.append(" / ".join(str(counts[word]) for word in (arena.PREVENTED, arena.RESTORABLE, arena.LOST)))
        kept = sum(one.own_kept for one in found)
        lines.append(f"|{name}|" + "|".join(cells) + f"|{kept} of {len(found)}|")
    return "\n".join(lines)


def remaining(results: dict[str, list]) -> str:
    """What is still lost where the default protection is not whole."""
    arena, _ = _suite()
    lines = []
    for name, found in results.items():
        if name in (arena.NONE, arena.WORKTREE):
            continue
        lost: dict[str, list[str]] = {}
        for one in found:
            if one.verdict == arena.LOST:
                lost.setdefault(one.role, []).append(one.technique.name)
        said = " ".join(f"{role}: {'; '.join(names)}." for role, names in sorted(lost.items()))
        lines.append(f"- {name}: {said or 'nothing.'}")
    return "\n".join(lines)


def in_checkout(*, each: bool) -> str:
    """The same techniques by a main session in the person's own checkout, which no sandbox holds: what is told of them."""
    _suite()
    from adversary import checkout, techniques

    found = []
    with tempfile.TemporaryDirectory(prefix="handoff-arena-") as root:
        place = checkout.Checkout(root)
        for one in techniques.TECHNIQUES:
            found.append(place.attempt(one))
            if each:
                last = found[-1]
                print(f"{one.kind}\t{one.name}\t{last.verdict}\t{', '.join(last.changed)}", flush=True)
    counts = Counter(one.verdict for one in found)
    lines = ["| in your own checkout | of " + str(len(found)) + " |", "|---|---|"]
    return "\n".join(lines + [f"| {word} | {counts[word]} |" for word in checkout.VERDICTS])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.adversary", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/howto/git-safety.md")
    parser.add_argument("--only", action="append", metavar="PROTECTION", help="only this protection (may be repeated)")
    parser.add_argument("--each", action="store_true", help="one line for every trial")
    parser.add_argument("--checkout", action="store_true", help="only a main session in the person's own checkout")
    options = parser.parse_args()
    if options.checkout:
        print(in_checkout(each=options.each))
        return 0
    results = {}
    for name in options.only or protections():
        results[name] = trials(name)
        if options.each:
            for one in results[name]:
                print(f"{name}\t{one.role}\t{one.technique.name}\t{one.verdict}\t{', '.join(one.changed)}")
    text = f"{table(results)}\n\nStill lost:\n\n{remaining(results)}"
    print(text)
    if options.write:
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
