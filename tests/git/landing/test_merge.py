"""Members are merged as trees: no history is walked, moved folders are followed, and the cost follows the members."""

from __future__ import annotations

import pytest

from handoff.git.landing.merge import member, touches
from handoff.git.plumbing.objects import LINK, Entry
from merge_table import MergeTable

FOLDER = {f"pkg/f{number}.txt": "".join(f"{number} {line}\n" for line in range(30)) for number in range(3)}


@pytest.fixture
def table(repo):
    return MergeTable(repo)


def moved(files, old="pkg/", new="lib/"):
    return {new + path.removeprefix(old) if path.startswith(old) else path: data for path, data in files.items()}


def test_what_one_adds_to_a_folder_another_moved_goes_along_and_is_told(table):
    base = table.commit(FOLDER)
    mover = table.member("mover", base, moved(FOLDER))
    adder = table.member("adder", base, {**FOLDER, "pkg/extra.txt": "extra\n"})
    for order in ((mover, adder), (adder, mover)):
        merged = table.merge(base, *order)
        assert not merged.conflicts
        assert table.files(merged.new) == {**moved(FOLDER), "lib/extra.txt": "extra\n"}
        assert [(one.old, one.new) for one in merged.followed] == [("pkg/extra.txt", "lib/extra.txt")]


def test_a_file_does_not_follow_a_folder_to_a_place_its_member_does_not_own(table):
    base = table.commit(FOLDER)
    mover = table.member("mover", base, moved(FOLDER))
    adder = table.member("adder", base, {**FOLDER, "pkg/extra.txt": "extra\n"}, owns=("pkg/",))
    merged = table.merge(base, mover, adder)
    assert [tuple(one) for one in merged.conflicts] == [("lib/extra.txt", "the target branch", "adder", "")]
    assert table.files(merged.new) == moved(FOLDER)
    may = table.merge(base, mover, adder._replace(owns=("pkg/", "lib/")))
    assert not may.conflicts


def test_a_link_that_would_lead_out_from_the_new_place_stays_a_conflict(table):
    files = {f"pkg/deep/{name}": data * 30 for name, data in (("a", "a\n"), ("b", "b\n"))}
    base = table.commit(files)
    mover = table.member("mover", base, {f"{name}": data * 30 for name, data in (("l/a", "a\n"), ("l/b", "b\n"))})
    link = table.store.write("blob", b"../../x")
    tree = table.store.graft(table.tree(files), {b"pkg/deep/link": Entry(LINK, link)})
    commit = table.store.write_commit(tree, [base], "link\n", moment=0)
    adder = member("adder", base, commit, tuple(touches(table.store, base, commit)), "link\n")
    merged = table.merge(base, mover, adder)
    assert [one.path for one in merged.conflicts] == ["l/link"]


def test_a_folder_that_is_emptied_and_one_that_is_filled_apart_need_no_merge(table):
    base = table.commit({**FOLDER, "old/gone.txt": "gone\n"})
    one = table.member("one", base, FOLDER)
    two = table.member("two", base, {**FOLDER, "old/gone.txt": "gone\n", "new/here.txt": "here\n"})
    merged = table.merge(base, one, two)
    assert table.files(merged.new) == {**FOLDER, "new/here.txt": "here\n"}
    assert not merged.followed


def test_no_history_is_read_for_a_merge(table):
    """The base's own past is not even there: nothing could walk it."""
    lines = "".join(f"{line}\n" for line in range(40))
    lost = "1" * 40
    base = table.store.write_commit(table.tree({"a": lines}), [lost], "its past is gone\n", moment=1_700_000_000)
    one = table.member("one", base, {"a": lines.replace("3\n", "three\n", 1)})
    two = table.member("two", base, {"a": lines + "end\n"})
    merged = table.merge(base, one, two)
    assert not merged.conflicts
    assert table.files(merged.new)["a"].endswith("end\n")
    assert "three" in table.files(merged.new)["a"]


@pytest.mark.parametrize("how", ["meeting", "apart", "moved"])
def test_what_git_is_asked_grows_with_the_members_and_not_with_their_square(table, how):
    def asked(count):
        lines = "".join(f"line {line}\n\n\n\n" for line in range(count))
        files = {**{f"d{number}/f{number}.txt": "x\n" for number in range(10)}, "all.txt": lines}
        base = table.commit(files)
        target = table.commit({**files, "d0/f0.txt": "moved on\n"}, base) if how == "moved" else base
        members = []
        for number in range(count):
            mine = {**files, f"d{number % 10}/new{number}.txt": "new\n"}
            if how != "apart":
                mine["all.txt"] = lines.replace(f"line {number}\n", f"line {number} changed\n")
            members.append(table.member(f"m{number}", base, mine))
            table.store.point(f"refs/handoff/work/{count}-{number}", members[-1].commit)
        table.store.point(f"refs/handoff/work/{count}", target)
        table.store.git("repack", "-adq")  # as in a clone: nothing lies loose
        table.store.git("prune-packed")
        assert not table.store.has_loose(base)
        table.store.calls = table.store.told = 0
        merged = table.merge(target, *members, ways=[lambda _sides: None])
        assert len(merged.steps) == count
        return table.store.calls, table.store.told

    few_calls, few_told = asked(10)
    calls, told = asked(40)
    assert calls - few_calls == (0 if how == "apart" else 30), (
        "one merge by git for each that meets others, and no more"
    )
    assert few_calls <= 10 + 4, "and what all need of the trees in a few questions"
    assert told <= 4 * few_told * 1.3 + 1000
