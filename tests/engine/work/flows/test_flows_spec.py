"""What docs/handoff-spec.md claims about a running flow, read from the page and looked at in one."""

from __future__ import annotations

import re
import subprocess

from handoff.board.tasks import tasks
from handoff.engine.session import endpoints
from source import read

PAGE = " ".join(read("docs/handoff-spec.md").split())
WRONG = "\n\ndef add(a, b):\n    return 0\n"


def claims(words: str) -> None:
    assert words in PAGE, f"the page no longer says: {words}"


def brief(app, flow, phase: str) -> str:
    return tasks.find(app.database, project=flow.project, id=f"1-{phase}", batch=flow.id).brief


def test_what_each_role_is_told_in_a_project_of_unittest_is_what_the_page_says(ground):
    ground.repo.git("rm", "-q", "tests/__init__.py")  # a folder of tests that is no package
    ground.repo.write("calc.py", ground.repo.read("calc.py") + WRONG)
    ground.repo.commit("wrong")
    ground.first_cycle()
    ground.act("1-green", {"replace": "calc.py", "old": "return 0", "new": "return a + b"})
    app = ground.app()
    flow = ground.start(app)
    for _ in ("plan", "red", "green"):
        ground.step(app, flow)

    claims("the tester gets one test and how tests are run")
    command = re.search(r"- `(.+)` \(unittest\)", brief(app, flow, "red"))[1]
    ran = subprocess.run(["sh", "-c", command], cwd=ground.repo.path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Ran 1 test" in ran.stderr

    claims("how they fail (the first line of each message, at most three)")
    assert "- it fails so: AssertionError: 0 != 3\n" in brief(app, flow, "green")

    claims("Not the request, not the list (its own change is left out of the diff), not the test's line.")
    told = brief(app, flow, "refactor")
    assert "+    return a + b" in told
    assert "test_add.py" in told
    for hidden in ("test-list.md", "adds two numbers", "subtracts", flow.request):
        assert hidden not in told


def test_how_often_the_baseline_runs_and_what_answers_over_sockets_and_http_is_what_the_page_says(cli):
    claims("the orchestrator runs all suites on the base commit three times.")
    assert "the suites run three times" in cli("flow", "kinds", "tdd").out
    claims("`HANDOFF_BROKER`")
    assert "`HANDOFF_BROKER`" in read("docs/reference/settings.md")
    assert re.findall(r"`POST (/[a-z]+)`", PAGE) == [endpoints.GATES]
