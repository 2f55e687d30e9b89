"""Composition: settings in, one App out. Surfaces build it once and pass it on."""

from __future__ import annotations

from handoff.base.clock import SystemClock
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import git_environment

if TYPE_CHECKING:
    from handoff.base.clock import Clock
    from handoff.base.settings import Settings


class App:
    """What every journey needs. Rooms are opened when first used, so a light command stays light."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self._git_environment: dict[str, str] | None = None

    @property
    def git_environment(self) -> dict[str, str]:
        if self._git_environment is None:
            self._git_environment = git_environment(self.settings)
        return self._git_environment

    def with_feature(self, name: str) -> App:
        """The same App, looking at another feature."""
        return App(self.settings._replace(feature=name), self.clock)
