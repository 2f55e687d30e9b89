"""The last act of `demo`: three agents build a small program side by side; one dies, one trespasses, one asks, and the person is in the way."""

from __future__ import annotations

import os
import sys

from handoff.agents.scripted.player import SCRIPTS
from handoff.base import files
from handoff.base.markdown import quoted
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.process import Completed
    from handoff.surfaces.cli.output import Output

_MANIFEST = """schema_version = 2
batch_id = "greeter"
fan_in_task = "greeter-join"
split_rationale = "Greet people, also loudly"
check = '''{python} -c "from greeter.shout import shout; assert shout('you') == 'HELLO, YOU!'"'''

[amdahl_estimate]
estimated_speedup = 2.0
serial_minutes = 2

[[sub_tasks]]
id = "words"
brief = "In greeter/words.py let greet(name) return 'Hello, NAME'."
estimated_minutes = 5
file_ownership = [{{ type = "exact", path = "greeter/words.py" }}]
check = '''{python} -c "from greeter.words import greet; assert greet('you').startswith('Hello, you')"'''

[[sub_tasks]]
id = "shout"
brief = "Write greeter/shout.py: shout(name) greets in capitals, with the words of greeter.words."
estimated_minutes = 5
file_ownership = [{{ type = "exact", path = "greeter/shout.py" }}]
check = "{python} -m py_compile greeter/shout.py"

[[sub_tasks]]
id = "guide"
brief = "Write docs/guide.md: how to greet."
estimated_minutes = 5
file_ownership = [{{ type = "prefix", path = "docs/" }}]
check = "test -s docs/guide.md"
"""

_GREET = 'def greet(name):\n    return "Hello"\n'


def play(out: Output, repo: str, do: Callable[..., Completed]) -> bool:
    """One batch from its manifest to its verdict; whether everything landed."""
    files.make_folder(os.path.join(repo, "greeter"))
    files.write_atomic(os.path.join(repo, "greeter", "__init__.py"), '"""Greetings."""\n')
    words = os.path.join(repo, "greeter", "words.py")
    files.write_atomic(words, _GREET)
    files.write_atomic(os.path.join(repo, ".gitignore"), "__pycache__/\n")
    files.write_atomic(os.path.join(repo, "split.toml"), _MANIFEST.format(python=sys.executable))
    do("git init -q && git add . && git commit -q -m 'a curt greeter'", show=False)
    out.line("7. A batch: three agents side by side, one verified series of commits", "title")
    scripts = os.path.join(SCRIPTS, "greeter", "{task}-{attempt}.toml").replace("{task}", "{part}")
    do(f"handoff batch run split.toml --agents scripted=3 --with {quoted(scripts)} 2>/dev/null")
    out.line("  (the person changes the very line that an agent has changed, commits it, answers, and stays)", "dim")
    files.write_atomic(words, _GREET.replace('"Hello"', '"Hello!"'))
    do("git commit -q -a -m 'Greet with an exclamation mark'")
    do("handoff answer greeter/guide yes")
    do("handoff batch run greeter 2>/dev/null")
    out.line()
    do("git log --reverse --format='%h %s'")
    do("handoff batch report", limit=11)
    do("handoff batch report | grep -A 6 '^Conflicts'")
    verdict = do("handoff batch run greeter --json", show=False)
    do("handoff work --stop", show=False)
    return '"verdict": "landed"' in verdict.text
