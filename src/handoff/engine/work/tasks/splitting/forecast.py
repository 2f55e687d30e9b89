"""What a split will bring: minutes one after the other and side by side, by estimates and what earlier ones really took."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import metrics
from handoff.engine.work.tasks.splitting import coupling as couplings

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.work.tasks.manifests.fields import Manifest
    from handoff.engine.work.tasks.splitting.coupling import Coupling

SPLIT, FEWER, SERIAL, UNSURE = "split", "fewer parts", "one after the other", "not known"
_WORTH = 1.3
_GUESS = 15.0


class Forecast(Record):
    """The minutes of a split, its speed-up, and whether it is worth it."""

    one_by_one: float
    side_by_side: float
    speedup: float
    bound: float
    """The best that Amdahl's law allows with so many sessions at once."""
    factor: float
    samples: int
    guessed: bool
    word: str
    reasons: tuple[str, ...]


def forecast(app: App, project: str, manifest: Manifest, coupling: Coupling, *, at_once: int) -> Forecast:
    """The estimates, stretched by what earlier batches of the project took, laid out over so many sessions."""
    known = metrics.calibration(app.database, project=project)
    guessed = not any(sub.estimate_minutes for sub in manifest.sub_tasks)
    minutes = {sub.id: (sub.estimate_minutes or _GUESS) * known.factor for sub in manifest.sub_tasks}
    needs = {sub.id: sub.depends_on for sub in manifest.sub_tasks}
    joined = manifest.serial_minutes * known.factor
    total, workers = sum(minutes.values()), max(1, min(at_once or len(minutes), len(minutes)))
    side_by_side = schedule(minutes, needs, workers) + joined
    speedup = total / side_by_side if side_by_side else 1.0
    word, reasons = _advice(speedup, coupling)
    return Forecast(
        one_by_one=total,
        side_by_side=side_by_side,
        speedup=speedup,
        bound=amdahl(joined / (total + joined) if total + joined else 0.0, workers),
        factor=known.factor,
        samples=known.samples,
        guessed=guessed,
        word=word,
        reasons=tuple(reasons),
    )


def amdahl(serial: float, workers: int) -> float:
    """The most that `workers` can gain where the share `serial` cannot run side by side."""
    return 1 / (serial + (1 - serial) / max(1, workers))


def schedule(minutes: dict[str, float], needs: dict[str, tuple[str, ...]], workers: int) -> float:
    """How long it takes when each free session takes the longest part that can begin."""
    ends: dict[str, float] = {}
    free = [0.0] * workers
    left = dict(minutes)
    while left:
        ready = {
            name: max((ends[need] for need in needs[name]), default=0.0)
            for name in left
            if all(n in ends for n in needs[name])
        }
        at = min(max(free[0], moment) for moment in ready.values())
        name = max((one for one in ready if ready[one] <= at), key=lambda one: left[one])
        ends[name] = max(free[0], ready[name]) + left.pop(name)
        free[0] = ends[name]
        free.sort()
    return max(ends.values(), default=0.0)


def _advice(speedup: float, coupling: Coupling) -> tuple[str, list[str]]:
    reasons = []
    if speedup < _WORTH:
        reasons.append(f"side by side it is only {speedup:.1f} times faster")
    if coupling.word == couplings.TOGETHER:
        reasons.append(f"{coupling.cross:.0%} of the commits in these paths touch more than one part")
    if coupling.word == couplings.TOGETHER:
        return FEWER if speedup >= _WORTH else SERIAL, reasons
    if speedup < _WORTH:
        return SERIAL, reasons
    if coupling.word == couplings.NAMED:
        worst = coupling.pairs[0] if coupling.pairs else None
        hint = (
            f"join {worst.first} and {worst.second}, or let one depend on the other" if worst else "look at the pairs"
        )
        return SPLIT, [f"{coupling.cross:.0%} of the commits touch more than one part: {hint}"]
    if coupling.word == couplings.UNKNOWN:
        return UNSURE, [f"only {coupling.commits} commits say how these paths change together"]
    return SPLIT, [f"only {coupling.cross:.0%} of the commits in these paths touch more than one part"]
