"""A clone is lent the dependencies of the checkout: its check runs, on the clone's own code, and nothing can write them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, NOTHING, layer
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.app.home import find_project, home_config
from handoff.engine.place import task_work
from handoff.engine.place.proof.evidence import run_task_check
from handoff.engine.place.proof.faults import GroundFault
from handoff.engine.session.placement import place
from handoff.engine.work.tasks import create
from sandbox import Repo, absent


class Ground:
    """A project with a virtual environment that git ignores, and a task in a clone of it."""

    def __init__(self, repo) -> None:
        self.repo = repo
        repo.write(".gitignore", ".venv/\nnode_modules/\n")
        repo.write("src/shop/__init__.py", "PRICE = 1\n")
        repo.commit("a package")
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", os.path.join(repo.path, ".venv")], check=True, timeout=100
        )
        self.site = next(
            os.path.join(repo.path, ".venv", "lib", name, "site-packages")
            for name in os.listdir(os.path.join(repo.path, ".venv", "lib"))
        )

    def write_into_site(self, name, text):
        path = os.path.join(self.site, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def begin(self, check="true", **wishes):
        self.app = App(from_environment())
        request = create.Request(task="demo", brief="do it", owns=("src/",), check=check)
        self.task = create.write_down(self.app, find_project(self.app, workspace=self.repo.path), request)
        self.found = place(self.app, home_config(self.app), task=self.task, session="session-1", **wishes)
        return Repo(self.found.folder)

    def verdict(self, command):
        task = self.task._replace(check_command=command)
        return run_task_check(self.app, task, self.found.folder, sandboxed=True, clone=self.found.clone)


@pytest.fixture
def ground(repo):
    return Ground(repo)


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK])
def by(request, monkeypatch):
    if layer(os.environ, wanted=request.param) != request.param:
        absent(request.param)
    monkeypatch.setenv("HANDOFF_SANDBOX", request.param)
    return request.param


def test_a_check_in_a_clone_finds_the_tools_of_the_persons_environment(ground, by):
    ground.write_into_site("tool/__main__.py", "print('the tool ran')\n")
    clone = ground.begin()
    verdict = ground.verdict(".venv/bin/python -m tool")
    assert verdict.green, verdict.tail
    assert "the tool ran" in verdict.tail
    assert os.path.islink(os.path.join(clone.path, ".venv"))
    assert ground.found.layer == by


@pytest.mark.parametrize("mode", ["folder", "finder"])
def test_a_check_imports_the_clones_code_though_the_package_is_installed_in_editable_mode(ground, by, mode):
    if mode == "folder":
        ground.write_into_site("__editable__.shop.pth", os.path.join(ground.repo.path, "src") + "\n")
    else:
        mapping = {"shop": os.path.join(ground.repo.path, "src", "shop")}
        ground.write_into_site("__editable___shop_finder.py", FINDER.format(mapping=mapping))
        ground.write_into_site("__editable__.shop.pth", "import __editable___shop_finder as f; f.install()\n")
    clone = ground.begin()
    clone.write("src/shop/__init__.py", "PRICE = 2\n")
    verdict = ground.verdict(".venv/bin/python -c 'import shop; print(shop.PRICE, shop.__file__)'")
    assert verdict.green, verdict.tail
    assert verdict.tail.startswith("2 "), verdict.tail


FINDER = """import sys
from importlib.machinery import PathFinder
MAPPING: dict[str, str] = {mapping!r}

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        import os
        place = MAPPING.get(name)
        return PathFinder.find_spec(name, [os.path.dirname(place)]) if place else None

def install():
    sys.meta_path.append(Finder)
"""


def test_an_environment_that_is_active_leads_to_the_clone_too(ground, by, monkeypatch):
    ground.write_into_site("shop.pth", os.path.join(ground.repo.path, "src") + "\n")
    environment = os.path.join(ground.repo.path, ".venv")
    monkeypatch.setenv("VIRTUAL_ENV", environment)
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")
    clone = ground.begin()
    clone.write("src/shop/__init__.py", "PRICE = 3\n")
    verdict = ground.verdict("python -c 'import shop; print(shop.PRICE)'")
    assert verdict.tail.strip() == "3"


def test_what_is_lent_cannot_be_written_and_is_nobodys_work(ground, by):
    ground.write_into_site("lib.py", "theirs = 1\n")
    clone = ground.begin()
    site = os.path.relpath(ground.site, ground.repo.path)
    verdict = ground.verdict(f"echo broken > {site}/lib.py || echo planted > .venv/bin/pytest || rm -r .venv/lib")
    assert not verdict.green
    with open(os.path.join(ground.site, "lib.py"), encoding="utf-8") as file:
        assert file.read() == "theirs = 1\n"
    assert not os.path.lexists(os.path.join(ground.repo.path, ".venv", "bin", "pytest"))
    assert clone.git("status", "--porcelain") == ""
    assert not task_work.changes(ground.app, ground.found.snapshot_store, ground.found.clone).changed


def test_a_session_cannot_put_its_own_tools_in_the_place_of_what_judges_it(ground, by):
    ground.write_into_site("tool/__main__.py", "raise SystemExit('red')\n")
    clone = ground.begin()
    os.unlink(os.path.join(clone.path, ".venv"))
    os.chmod(clone.write(".venv/bin/python", "#!/bin/sh\nexit 0\n"), 0o755)
    verdict = ground.verdict(".venv/bin/python -m tool")
    assert not verdict.green
    assert "red" in verdict.tail
    assert "(.venv of the person's checkout was used, not the session's own)" in verdict.tail
    assert clone.read(".venv/bin/python") == "#!/bin/sh\nexit 0\n", "what it made is still its own"
    shutil.rmtree(os.path.join(clone.path, ".venv"))
    assert "red" in ground.verdict(".venv/bin/python -m tool").tail


def test_without_a_sandbox_nothing_is_lent_because_it_could_be_written(ground, monkeypatch):
    clone = ground.begin(sandbox="none")
    assert not os.path.lexists(os.path.join(clone.path, ".venv"))
    monkeypatch.setenv("HANDOFF_SANDBOX", "none")
    app = App(from_environment())
    again = place(app, home_config(app), task=ground.task, session="session-2")
    assert not os.path.lexists(os.path.join(again.folder, ".venv"))


def test_links_are_taken_away_when_the_next_session_has_no_sandbox(ground, by):
    clone = ground.begin()
    assert os.path.lexists(os.path.join(clone.path, ".venv"))
    again = place(ground.app, home_config(ground.app), task=ground.task, session="session-2", sandbox="none")
    assert again.folder == clone.path
    assert not os.path.lexists(os.path.join(clone.path, ".venv"))
    assert os.path.isdir(os.path.join(ground.repo.path, ".venv", "lib"))


def test_without_a_sandbox_a_package_leads_to_the_clone_by_the_search_path(ground, monkeypatch):
    monkeypatch.setenv("HANDOFF_SANDBOX", "none")
    ground.write_into_site("shop.pth", os.path.join(ground.repo.path, "src") + "\n")
    clone = ground.begin()
    assert ground.found.layer == NOTHING
    clone.write("src/shop/__init__.py", "PRICE = 4\n")
    python = os.path.join(ground.repo.path, ".venv", "bin", "python")
    assert ground.verdict(f"{python} -c 'import shop; print(shop.PRICE)'").tail.strip() == "4"


def test_a_check_that_could_only_test_the_persons_checkout_is_not_run(ground, monkeypatch):
    monkeypatch.setenv("HANDOFF_SANDBOX", "none")
    mapping = {"market": os.path.join(ground.repo.path, "src", "shop")}
    ground.write_into_site("__editable___shop_finder.py", FINDER.format(mapping=mapping))
    ground.begin()
    with pytest.raises(GroundFault, match="would test your checkout instead of the clone") as error:
        ground.verdict("true")
    assert "HANDOFF_WORKSPACE_SETUP" in error.value.hint


def test_packages_of_node_are_lent_and_those_of_the_repository_itself_are_the_clones(ground, by):
    if shutil.which("node") is None:
        absent("node")
    repo = ground.repo
    repo.write("packages/cart/index.js", "module.exports = 1\n")
    repo.commit("a package of ours")
    for name, text in (("left/index.js", "module.exports = 'lent'\n"), (".cache/x", "old\n")):
        path = os.path.join(repo.path, "node_modules", name)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    os.makedirs(os.path.join(repo.path, "node_modules", "@ours"))
    os.symlink("../../packages/cart", os.path.join(repo.path, "node_modules", "@ours", "cart"))
    clone = ground.begin()
    clone.write("packages/cart/index.js", "module.exports = 2\n")
    verdict = ground.verdict(
        'node -p \'require("left") + require("@ours/cart")\' && echo new > node_modules/.cache-of-mine'
    )
    assert verdict.green, verdict.tail
    assert verdict.tail.strip() == "lent2"
    assert not os.path.lexists(os.path.join(repo.path, "node_modules", ".cache-of-mine"))


def _add_package(repo, name):
    path = os.path.join(repo.path, "node_modules", name, "index.js")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"module.exports = '{name}'\n")


def test_a_check_is_lent_what_came_to_the_checkout_after_the_clone_was_made(ground, by):
    clone = ground.begin()
    assert not ground.verdict("test -f node_modules/left/index.js").green
    _add_package(ground.repo, "left")
    assert ground.verdict("test -f node_modules/left/index.js").green
    assert not os.path.lexists(os.path.join(clone.path, "node_modules")), "its session has it from its next start on"
    assert ground.verdict("! touch node_modules/left/new").green


def test_each_session_is_lent_what_the_checkout_has_by_then(ground, by):
    clone = ground.begin()
    for name in ("left", "@ours/right"):
        _add_package(ground.repo, name)
        config = home_config(ground.app)
        ground.found = place(ground.app, config, task=ground.task, session=f"session-{name.strip('@')[:4]}")
        assert os.path.isfile(os.path.join(clone.path, "node_modules", name, "index.js"))
        assert name.partition("/")[0] in os.listdir(os.path.join(clone.path, "node_modules"))
    assert set(ground.found.clone.lent) == {".venv", "node_modules"}
    assert clone.git("status", "--porcelain") == ""


def test_what_is_lent_is_not_kept_when_the_clone_goes_and_the_persons_stays(ground, by, cli):
    ground.begin()
    name = ground.found.clone.name
    cli("workspace", "remove", name)
    assert not os.path.lexists(ground.found.folder)
    assert os.path.isfile(os.path.join(ground.repo.path, ".venv", "pyvenv.cfg"))


def test_a_path_of_the_checkout_in_a_brief_means_the_clone(ground, monkeypatch):
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    ground.repo.write("draft.txt", "the person's own\n")
    ground.repo.write(".gitignore", ".venv/\ndraft.txt\n")
    ground.repo.commit("ignore")
    clone = ground.begin()
    clone.write("src/shop/__init__.py", "PRICE = 5\n")
    checkout = ground.repo.path
    assert "PRICE = 5" in ground.verdict(f"cat {checkout}/src/shop/__init__.py").tail
    assert not ground.verdict(f"cat {checkout}/draft.txt").green
    assert not ground.verdict(f"ls {checkout}/.git").green
    assert not ground.verdict(f"echo x > {checkout}/new.txt").green
