"""`demo --board`: a small shop in a scratch repository, built by scripted agents before the person's eyes, on the real board."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.base.process import Completed
    from handoff.surfaces.cli.output import Output

AT_ONCE = 3
RED = "mail"  # its check is never green


class DemoTask(Record):
    """One task of the story: what it is told, what must come first, and what its agent says and does."""

    name: str
    brief: str
    says: tuple[str, ...]
    after: str = ""
    asks: str = ""


STORY = (
    DemoTask("api", "Serve the routes.", ("The routes need a schema first.", "Writing api.py", "Running its check")),
    DemoTask("db", "Store the orders.", ("Adding the table of orders", "Writing db.py")),
    DemoTask("mail", "Send the mail.", ("Looking at mail.py", "The test is red and I cannot see why")),
    DemoTask("cart", "Fill the cart.", ("Writing cart.py", "One old test contradicts the brief"), asks="Drop test_empty?"),
    DemoTask("ui", "Draw the page.", ("Reading what the api gives", "Writing ui.py"), after="api"),
    DemoTask("docs", "Write the manual.", ("Reading the code", "Writing docs.py"), after="ui"),
)  # fmt: skip


def play(out: Output, repo: str, do: Callable[..., Completed], environment: Mapping[str, str]) -> int:
    """Write the tasks down, let scripted agents work on them, and show it on the board until the person leaves."""
    files.make_folder(repo)
    scripts = os.path.join(os.path.dirname(repo), "scripts")
    files.make_folder(scripts)
    home = environment["HANDOFF_HOME"]
    files.make_folder(home, mode=0o700)
    files.write_atomic(os.path.join(home, "config.toml"), "max_attempts = 1\n")  # what is red is seen at once
    do("git init -q && echo 'A shop' > README.md && git add . && git commit -q -m first", show=False)
    for task in STORY:
        files.write_atomic(os.path.join(scripts, f"{task.name}.toml"), script(task))
        after = f" --after {task.after}" if task.after else ""
        check = "false" if task.name == RED else f"test -s {task.name}.py"
        line = f"handoff dump --task {task.name} --next '{task.brief}' --owns {task.name}.py --check '{check}'{after}"
        done = do(line, show=False)
        if done.code:
            out.error(f"{line} failed: {done.text}")
            return 1
    out.line(
        "Six tasks, three scripted agents at once. On the board: a answers, l reads along, ? shows the keys, q leaves."
    )
    program = os.path.join(os.path.dirname(repo), ".bin", "handoff")
    words = [program, "-C", repo, "work", "--agent", "scripted", "--max", str(AT_ONCE), "--"]
    code = pass_through([*words, os.path.join(scripts, "{task}.toml")], environment=environment)
    out.line()
    do("handoff work --stop", show=False)
    do("handoff")
    return code


def script(task: DemoTask) -> str:
    """What the agent of a task does: it takes its time, so that there is something to see."""
    acts = [f"[[act]]\nsay = {_text(line)}\n\n[[act]]\nsleep = 2\n" for line in task.says]
    acts.append(f"[[act]]\nwrite = {_text(task.name + '.py')}\ntext = {_text(task.brief)}\n")
    if task.asks:
        acts.append(f"[[act]]\nrun = {_text(f'handoff task ask {chr(39)}{task.asks}{chr(39)}')}\nmay_fail = true\n")
    return "\n".join(acts)


def _text(words: str) -> str:
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
