"""A split on the screen: its parts as a table, and what waits for what as a graph."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from handoff.board.tasks.batches import SubTask
    from handoff.engine.tasks.manifests.fields import Manifest

_WIDEST = 44


def table(manifest: Manifest, checks: Mapping[str, str]) -> list[str]:
    """One line for each part: how long, whose, what it owns, how it is checked and what that said before."""
    rows = [
        ("part", "min", "agent", "owns", "check, and what it says now"),
        *(_row(sub, checks) for sub in manifest.sub_tasks),
    ]
    whole = (
        f"{manifest.check} ({checks.get(manifest.check, 'not tried')})" if manifest.check else "no check of the whole"
    )
    rows.append(
        (
            manifest.fan_in_task,
            f"{manifest.serial_minutes:g}" if manifest.serial_minutes else "-",
            "any",
            "what no part owns",
            whole,
        )
    )
    wide = [min(_WIDEST, max(len(row[column]) for row in rows)) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(_cell(word, width) for word, width in zip(row, wide, strict=True)).rstrip() for row in rows
    ]


def _row(sub: SubTask, checks: Mapping[str, str]) -> tuple[str, ...]:
    minutes = f"{sub.estimate_minutes:g}" if sub.estimate_minutes else "?"
    check = f"{sub.check_command} ({checks.get(sub.check_command, 'not tried')})" if sub.check_command else "none"
    agent = (
        f"race of {len(sub.race)}" + (f": {', '.join(sub.race)}" if any(sub.race) else "") if sub.race else sub.agent
    )
    return (sub.id, minutes, agent or "any", " ".join(sub.owns) or "nothing", check)


def _cell(word: str, width: int) -> str:
    return (word if len(word) <= width else word[: width - 1] + "…").ljust(width)


def graph(manifest: Manifest) -> list[str]:
    """Waves from left to right: what stands in one begins when all that it names in the waves before is done."""
    return list(_lines(manifest))


def _lines(manifest: Manifest) -> Iterator[str]:
    needs = {sub.id: sub.depends_on for sub in manifest.sub_tasks}
    wave: dict[str, int] = {}
    while len(wave) < len(needs):
        for name, before in needs.items():
            if name not in wave and all(one in wave for one in before):
                wave[name] = 1 + max((wave[one] for one in before), default=-1)
    columns = [[name for name in needs if wave[name] == number] for number in range(max(wave.values(), default=0) + 1)]
    wide = [max(len(name) for name in names) for names in columns]
    for line in range(max(len(names) for names in columns)):
        cells = [_node(names, line, width) for names, width in zip(columns, wide, strict=True)]
        yield ("  " + "".join(cells) + (manifest.fan_in_task if line == 0 else "")).rstrip()
    for name, before in needs.items():
        if before:
            yield f"  {name} waits for {', '.join(before)}"


def _node(names: list[str], line: int, width: int) -> str:
    """A part of a wave and the lines behind it: those of a wave meet before the next one begins."""
    if line >= len(names):
        return " " * (width + 6)
    ends = ("───▶ " if len(names) == 1 else "─┬─▶ ") if line == 0 else "─┘   " if line == len(names) - 1 else "─┤   "
    return f"{names[line]} {'─' * (width - len(names[line]))}{ends}"
