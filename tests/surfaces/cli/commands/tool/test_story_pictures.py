"""The pictures of the README that tell a story: recorded anew, they are the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from source import ROOT, read


@pytest.mark.slow
@pytest.mark.parametrize(("story", "picture"), [("cheats", "docs/cheats.svg"), ("fan_in", "docs/fan-in.svg")])
def test_a_story_that_is_played_again_gives_the_same_picture(story, picture):
    done = subprocess.run(
        [sys.executable, "-c", f"import story_pictures; print(story_pictures.{story}(), end='')"],
        cwd=os.path.join(ROOT, "docs"), env=dict(os.environ), capture_output=True, text=True, check=False, timeout=380,
    )  # fmt: skip
    assert done.stdout == read(picture), f"run `make docs`\n{done.stderr}"
