"""`task comment`."""

from __future__ import annotations


def test_a_comment_is_kept_for_the_next_session_and_only_for_one(cli):
    cli("task", "add", "cart", "Fill the cart.")
    assert "next session of cart" in cli("task", "comment", "cart", "src/cart.py:12", "mind the empty cart").out
    with open(cli("show", "cart", "--json").json["document"], encoding="utf-8") as file:
        assert "- `src/cart.py` line 12: mind the empty cart" in file.read()
    assert "names no line" in cli("task", "comment", "cart", "cart.py", "what", code=2).err
    assert "is empty" in cli("task", "comment", "cart", "cart.py:1", " ", code=2).err
    cli("cancel", "cart")
    assert "no session will read it" in cli("task", "comment", "cart", "cart.py:1", "late", code=1).err
