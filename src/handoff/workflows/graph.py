"""A workflow as a picture: text for a terminal, SVG for a page."""

from __future__ import annotations

from handoff.workflows.model import DONE, Phase, Workflow

_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP = 300, 58, 46, 150, 20
_LANE = 26


def as_text(workflow: Workflow) -> list[str]:
    """One line a phase, with what it leads to."""
    lines = [f"{workflow.name}: {workflow.title}", ""]
    for at, phase in enumerate(workflow.phases):
        after = workflow.phases[at + 1].name if at + 1 < len(workflow.phases) else DONE
        lines.append(f"  ┌ {phase.name}" + (" ⏸" if phase.gate else "") + f"  {_who(phase)}")
        lines.append(f"  │   writes {_writes(phase)}; check: {phase.check}" + _commit(phase))
        for said, target in phase.next.items():
            word = "" if len(phase.next) == 1 else f"{said} "
            if target == DONE:
                lines.append(f"  └ {word}■ done")
            elif target == after:
                lines.append(f"  └ {word}▼ {target}")
            else:
                back = "▲" if workflow.is_back(phase.name, target) else "▼"
                lines.append(f"  └ {word}{back} {target}" + (" (next cycle)" if back == "▲" else ""))
        lines.append("")
    return lines


def _who(phase: Phase) -> str:
    return f"({phase.role})" if phase.role else "(the orchestrator)"


def _writes(phase: Phase) -> str:
    return ", ".join(phase.may_write)


def _commit(phase: Phase) -> str:
    return f"; commit: {phase.commit}:" if phase.commit else ""


def as_svg(workflow: Workflow) -> str:
    """Boxes from top to bottom; arrows down on the left, back on the right."""
    order = [phase.name for phase in workflow.phases]
    height = _TOP * 2 + len(order) * (_HEIGHT + _GAP) + 30
    lanes = 0
    parts: list[str] = []
    for at, phase in enumerate(workflow.phases):
        y = _y(at)
        parts.append(
            f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" class="{"gate" if phase.gate else "box"}"/>'
        )
        parts.append(_text(_LEFT + 14, y + 22, f"{phase.name} {_who(phase)}", "name"))
        parts.append(
            _text(_LEFT + 14, y + 42, f"writes {_writes(phase)} · check {phase.check}{_commit(phase)}", "small")
        )
        for said, target in phase.next.items():
            word = "" if len(phase.next) == 1 else said
            to = len(order) if target == DONE else order.index(target)
            if to == at + 1:
                parts.append(_down(at, to, word))
            else:
                lanes += 1
                parts.append(_around(at, to, word, lanes, final=target == DONE))
    end = _y(len(order))
    parts.append(f'<circle cx="{_LEFT + _WIDTH // 2}" cy="{end + 14}" r="12" class="end"/>')
    parts.append(_text(_LEFT + _WIDTH // 2 + 20, end + 19, "done", "name"))
    width = _LEFT + _WIDTH + 60 + lanes * _LANE + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{_escaped(workflow.title)}">\n<style>text{{font:14px sans-serif;fill:#222}}'
        ".small{font-size:11px;fill:#555}.name{font-weight:bold}.word{font-size:11px;fill:#06c}"
        ".box{fill:#eef4ff;stroke:#36c}.gate{fill:#fff6dd;stroke:#c80}.end{fill:#2a7}path{fill:none;stroke:#36c}</style>\n"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#36c"/></marker></defs>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _y(at: int) -> int:
    return _TOP + at * (_HEIGHT + _GAP)


def _down(at: int, to: int, word: str) -> str:
    x = _LEFT + _WIDTH // 2
    path = f'<path d="M{x} {_y(at) + _HEIGHT}L{x} {_y(to) - 1}" marker-end="url(#a)"/>'
    return path + (_text(x + 8, _y(at) + _HEIGHT + 26, word, "word") if word else "")


def _around(at: int, to: int, word: str, lane: int, *, final: bool) -> str:
    right, x = _LEFT + _WIDTH, _LEFT + _WIDTH + 20 + lane * _LANE
    begin, end = _y(at) + _HEIGHT // 2, _y(to) + (14 if final else _HEIGHT // 2 - 8)
    stop = _LEFT + _WIDTH // 2 + 14 if final else right
    path = f'<path d="M{right} {begin}L{x} {begin}L{x} {end}L{stop} {end}" marker-end="url(#a)"/>'
    return path + (_text(right + 6, begin - 5, word, "word") if word else "")


def _text(x: int, y: int, words: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{_escaped(words)}</text>'


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
