"""How parts hang together, by a real history, and what a split will bring."""

from __future__ import annotations

import pytest

from handoff.engine.work.tasks.splitting import coupling
from relay import app

OWNERS = {"cart": ("src/cart/",), "pay": ("src/pay/",), "docs": ("docs/",)}


def _import_history(repo, commits):
    """Commits that each rewrite the named files, made at once."""
    parts = []
    for number, paths in enumerate(commits):
        parts.append(f"commit refs/heads/main\ncommitter A <a@x.invalid> {1700000000 + number} +0000\ndata 1\nx\n")
        parts.append("from refs/heads/main^0\n" if number == 0 else "")
        for path in paths:
            text = f"{number}\n"
            parts.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
    repo.git("fast-import", "--quiet", stdin="".join(parts).encode())
    repo.git("reset", "-q", "--hard")


@pytest.fixture
def history(repo):
    def make(together, apart):
        one = [[f"src/cart/a{number}.py", f"src/cart/b{number}.py"] for number in range(apart)]
        both = [[f"src/cart/c{number}.py", f"src/pay/c{number}.py"] for number in range(together)]
        _import_history(repo, [*one, *both])
        return coupling.judge(app(), repo.path, OWNERS)

    return make


def test_parts_that_seldom_change_together_are_apart(history):
    found = history(together=6, apart=54)
    assert (found.word, found.commits) == (coupling.APART, 60)
    assert found.cross == pytest.approx(0.1)
    assert [(pair.first, pair.second, pair.commits, pair.share) for pair in found.pairs] == [("cart", "pay", 6, 1.0)]


@pytest.mark.parametrize(("together", "word"), [(25, coupling.NAMED), (40, coupling.TOGETHER)])
def test_the_more_commits_touch_two_parts_the_less_is_a_split_advised(history, together, word):
    assert history(together=together, apart=60 - together).word == word


def test_a_short_history_says_nothing(history):
    assert history(together=20, apart=20).word == coupling.UNKNOWN


def test_files_that_change_with_everything_and_documents_do_not_count(repo):
    commits = [["src/cart/a.py", "registry.py", "CHANGELOG.md", "docs/x.md", f"src/cart/n{n}.py"] for n in range(60)]
    _import_history(repo, commits)
    found = coupling.judge(app(), repo.path, OWNERS)
    assert set(found.hubs) >= {"registry.py", "CHANGELOG.md"}
    assert found.cross == 0.0, "documents are written by everybody"


def test_imports_between_parts_are_counted_beside_the_pair(repo):
    repo.write("src/pay/money.py", "X = 1\n")
    repo.write("src/cart/total.py", "from pay.money import X\nimport pay.money\n")
    repo.commit("code")
    _import_history(repo, [[f"src/cart/c{number}.py", f"src/pay/c{number}.py"] for number in range(55)])
    (pair,) = coupling.judge(app(), repo.path, OWNERS).pairs
    assert pair.imports == 2


def test_a_schedule_lays_the_longest_first_over_the_sessions_there_are():
    minutes = {"a": 10.0, "b": 20.0, "c": 30.0}
    free = dict.fromkeys(minutes, ())
    assert coupling.schedule(minutes, free, 3) == 30
    assert coupling.schedule(minutes, free, 2) == 30
    assert coupling.schedule(minutes, free, 1) == 60
    assert coupling.schedule(minutes, {**free, "c": ("b",)}, 3) == 50
    assert coupling.amdahl(0.0, 3) == 3
    assert coupling.amdahl(1.0, 3) == 1
