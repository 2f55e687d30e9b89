"""What is wrong with results as a whole, by its name."""

from __future__ import annotations

FORGED, CUT_SHORT, TOO_BIG = "results-forged", "run-cut-short", "results-too-big"


class Broken(Exception):
    """The lines are not what our reporter wrote, or not all of it; the code says which."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code
