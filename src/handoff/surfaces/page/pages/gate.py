"""The page behind the one-time link of a notice: one gate as on the first page, with its diff, whole in one answer."""

from __future__ import annotations

import base64
import hashlib
import os

from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING
from handoff.engine.work import review
from handoff.surfaces.page.drawing import HERE, draw
from handoff.surfaces.page.pages.diff import plain_file

if TYPE_CHECKING:
    from handoff.board.gates import Waiting
    from handoff.engine.app import App

_MOST_LINES = 1500


class GatePages:
    """Draws what a link shows. Its style stands in it: whoever serves it need serve nothing else."""

    def __init__(self) -> None:
        self._style = read_text(os.path.join(HERE, "static", "page.css"))
        known = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self.policy = f"default-src 'none'; style-src 'sha256-{known}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

    def asked(self, app: App, *, waiting: Waiting, code: str, to: str) -> str:
        """What is asked, all that speaks for and against it, and the three answers."""
        found = review.review(app, key=waiting.gate.task)
        files, left = [], _MOST_LINES
        for one in found.files:
            if left > 0:
                files.append(plain_file(one))
                left -= len(one.lines)
        return self._draw(
            title=f"{waiting.project}/{waiting.task}",
            gate=waiting.gate,
            review=found,
            files=files,
            left_out=len(found.files) - len(files),
            code=code,
            to=to,
            now=app.clock.now(),
        )

    def told(self, message: str, hint: str = "", *, good: bool) -> str:
        """What came of it."""
        return self._draw(title=message, gate=None, hint=hint, good=good)

    def _draw(self, **values: object) -> str:
        return draw("gate.html", style=self._style, **values)
