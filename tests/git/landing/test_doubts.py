"""Clean merges that may be wrong are told, right ones are not."""

from __future__ import annotations

import pytest

from handoff.git.landing.doubts import doubts_of
from handoff.git.landing.merge import many_differences
from merge_table import MergeTable

SHOP = "def price(item):\n    return item.cost\n\n\ndef total(items):\n    return sum(price(one) for one in items)\n"
APART = "".join(f"# {line}\n" for line in range(20))


@pytest.fixture
def table(repo):
    return MergeTable(repo)


def told(table, base, one, two, *, notes=False):
    start = table.commit(base)
    members = [table.member("one", start, {**base, **one}), table.member("two", start, {**base, **two})]
    merged = table.merge(start, *members)
    assert not merged.conflicts
    found = doubts_of(table.store, members, merged)
    return [(doubt.path, doubt.what) for doubt in found if doubt.note is notes]


def test_two_commits_of_one_tree_between_others_are_told_as_no_difference(table):
    start = table.commit({"a.py": SHOP})
    empty, other = table.commit({"a.py": SHOP}, start), table.commit({"a.py": SHOP, "b.py": SHOP}, start)
    found = many_differences(table.store, [(start, empty), (start, empty), (start, other), (other, start)])
    assert [[(one.path, one.letter) for one in changed] for changed in found] == [
        [],
        [],
        [("b.py", "A")],
        [("b.py", "D")],
    ]


def test_a_function_gone_here_and_called_there(table):
    calls = {"use.py": "from shop import total\n\n\ndef show(items):\n    print(total(items))\n"}
    gone = {"shop.py": SHOP[: SHOP.index("\n\ndef total")] + "\n"}
    assert told(table, {"shop.py": SHOP}, gone, calls) == [
        ("use.py", "total() is gone from shop.py, and new lines here use it")
    ]
    assert told(table, {"shop.py": SHOP}, calls, gone)


def test_a_function_gone_here_and_called_in_new_lines_of_the_same_file(table):
    base = {"shop.py": SHOP + APART}
    gone = {
        "shop.py": (SHOP + APART)
        .replace("def price(item):\n    return item.cost\n\n\n", "")
        .replace("price(one)", "one.cost")
    }
    calls = {"shop.py": SHOP + APART + "\n\ndef show(item):\n    print(price(item))\n"}
    assert told(table, base, gone, calls) == [("shop.py", "price() is gone from shop.py, and new lines here use it")]


def test_a_function_that_takes_other_arguments_here_and_is_called_there(table):
    calls = {"use.py": "import shop\n\nprint(shop.price(None))\n"}
    other = {"shop.py": SHOP.replace("price(item)", "price(item, rate)")}
    assert told(table, {"shop.py": SHOP}, other, calls) == [
        ("use.py", "price() in shop.py takes other arguments now, and new lines here call it")
    ]
    harmless = {"shop.py": SHOP.replace("price(item)", "price(item, rate=1)")}
    assert not told(table, {"shop.py": SHOP}, harmless, calls)


def test_a_changed_body_is_only_a_note(table):
    calls = {"use.py": "import shop\n\nprint(shop.price(None))\n"}
    other = {"shop.py": SHOP.replace("item.cost", "round(item.cost)")}
    assert not told(table, {"shop.py": SHOP}, other, calls)
    assert told(table, {"shop.py": SHOP}, other, calls, notes=True)


def test_a_name_that_moved_within_one_part_is_not_gone(table):
    calls = {"use.py": "import shop\n\nprint(shop.price(None))\n"}
    moved = {"shop.py": SHOP[SHOP.index("def total") :], "money.py": SHOP[: SHOP.index("\n\ndef total")]}
    assert not told(table, {"shop.py": SHOP}, moved, calls)


def test_one_definition_by_two_in_two_places_of_a_file(table):
    base = {"m.py": "A = 1\n" + APART + "B = 2\n"}
    new = "def test_it():\n    assert True\n\n\n"
    found = told(table, base, {"m.py": new + base["m.py"]}, {"m.py": base["m.py"] + "\n\n" + new.strip() + "\n"})
    assert found == [("m.py", "test_it is defined twice in one place")]


def test_one_number_for_two_migrations(table):
    one, two = {"db/0003_users.sql": "1\n"}, {"db/0003_orders.sql": "2\n"}
    assert told(table, {"db/0002_a.sql": "0\n"}, one, two) == [
        ("db/0003_orders.sql", "the number 0003 is given to db/0003_users.sql as well")
    ]
    assert not told(table, {"db/0002_a.sql": "0\n"}, one, {"db/0004_orders.sql": "2\n"})


def test_a_lock_by_two_even_if_it_joins(table):
    lock = "".join(f"package {number}\n" for number in range(40))
    one, two = lock.replace("package 3\n", "package three\n"), lock.replace("package 30\n", "package thirty\n")
    assert told(table, {"uv.lock": lock}, {"uv.lock": one}, {"uv.lock": two})
    assert not told(table, {"list.txt": lock}, {"list.txt": one}, {"list.txt": two})


def test_what_came_on_the_target_meanwhile_counts_too(table):
    base = table.commit({"shop.py": SHOP})
    tip = table.commit({"shop.py": SHOP[: SHOP.index("\n\ndef total")] + "\n"}, base)
    two = table.member("two", base, {"shop.py": SHOP, "use.py": "import shop\n\nprint(shop.total([]))\n"})
    merged = table.merge(tip, two)
    assert [(one.first, one.second) for one in doubts_of(table.store, [two], merged)] == [("the target branch", "two")]


def test_parts_that_have_nothing_to_do_with_each_other_raise_no_doubt(table):
    assert not told(
        table, {"shop.py": SHOP}, {"a.py": "def a():\n    return 1\n"}, {"b.py": "def b():\n    return a2()\n"}
    )
