"""Mutants of chosen lines: small, different, at most so many, and never of words that nobody runs."""

from __future__ import annotations

from handoff.checks.mutants import changed_lines, mutants

TEXT = '''"""Words."""


def price(amount: int, percent=10):
    """More words."""
    if amount > 100 and percent:
        raise ValueError("too much")
    left = [one for one in range(amount) if one]
    print(left)
    while not left:
        break
    return max(amount - percent, 0) if percent != 5 else "none"
'''


def test_each_way_to_change_a_program_is_tried_on_the_lines_that_are_asked_for():
    found = mutants("shop.py", TEXT, range(1, 99), most=99)
    shown = {f"{one.was} → {one.now}" for one in found}
    assert "amount > 100 → amount >= 100" in shown
    assert "amount > 100 and percent → amount > 100 or percent" in shown
    assert "amount - percent → amount + percent" in shown
    assert "100 → 101" in shown
    assert "'too much' → 'too muchzqxz'" in shown
    assert "raise ValueError('too much') → raise RuntimeError" in shown
    assert "print(left) → None" in shown
    assert "not left → not not left" in shown
    assert "[one for one in range(amount) if one] → [one for one in range(amount)]" in shown
    assert "max(amount - percent, 0) → max(0, amount - percent)" in shown
    assert "percent != 5 → percent == 5" in shown
    assert any(one.startswith("return max") and one.endswith("→ return None") for one in shown)
    assert not any("ords" in one.was for one in found)
    assert all(compile(one.text, one.path, "exec") and one.text != TEXT for one in found)


def test_only_chosen_lines_are_changed_and_no_more_than_asked_for():
    assert {one.line for one in mutants("shop.py", TEXT, [6], most=99)} == {6}
    few = mutants("shop.py", TEXT, range(1, 99), most=4)
    assert len(few) == 4
    assert len({one.line for one in few}) > 1
    assert mutants("shop.py", "def broken(:", [1], most=9) == []
    assert str(mutants("shop.py", "x = 1\n", [1], most=9)[0]) == "shop.py:1: `1` → `2`"


def test_changed_lines_are_those_the_old_text_does_not_have():
    assert changed_lines("a\nb\nc\n", "a\nB\nc\nd\n") == {2, 4}
    assert changed_lines("", "a\nb\n") == {1, 2}
    assert changed_lines("a\n", "a\n") == set()
