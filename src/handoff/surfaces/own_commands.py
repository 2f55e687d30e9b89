"""Our own commands, run as a person would type them: whatever a key or a button changes is one of these."""

from __future__ import annotations

from handoff.base.process import run
from handoff.base.record import TYPE_CHECKING
from handoff.engine.sessions.agent_programs import own_words

if TYPE_CHECKING:
    from handoff.base.settings import Settings

_SECONDS = 600.0


def run_own(settings: Settings, words: list[str]) -> tuple[int, str]:
    """One of our own commands: its exit code, and all it said."""
    environment = {**settings.environment, "NO_COLOR": "1"}
    done = run([*own_words(), *words], environment=environment, cwd=settings.here, timeout=_SECONDS, merge=True)
    return done.code, done.text
