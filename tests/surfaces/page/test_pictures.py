"""The pictures of every page are there, and the pages still show what the pictures show: words and boxes, not pixels."""

from __future__ import annotations

import json
import os
import sys

import pytest

from source import ROOT

DOCS = os.path.join(ROOT, "docs")
MOST_BYTES = 2_000_000
OUTSIDE = """() => {
  const wide = document.documentElement.clientWidth;
  const kept = (one) => { for (let at = one.parentElement; at; at = at.parentElement) {
    if (getComputedStyle(at).overflowX !== "visible") return true; } return false; };
  return [...document.querySelectorAll("body *")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.height && box.right > wide + 1 && !kept(one);
  }).map((one) => `${one.tagName} ${one.className} ${one.innerText}`.slice(0, 120));
}"""
"""What reaches over the edge of the window, outside of a box that scrolls or cuts."""


def _pictures():
    sys.path.insert(0, DOCS)
    try:
        import page_pictures
    finally:
        sys.path.remove(DOCS)
    return page_pictures


def test_every_page_has_its_three_pictures_and_all_of_them_are_small():
    pictures = _pictures()
    with open(os.path.join(DOCS, "page.md"), encoding="utf-8") as file:
        shown = file.read()
    made = [f"{name}-{look}.webp" for name in pictures.PAGES for look in pictures.LOOKS]
    assert sorted([*made, pictures.SHOWN]) == sorted(os.listdir(os.path.join(DOCS, "page")))
    assert all(f"(page/{name})" in shown for name in made)
    assert sum(os.stat(os.path.join(DOCS, "page", name)).st_size for name in made) <= MOST_BYTES


@pytest.mark.slow
def test_the_pages_still_show_what_their_pictures_show():
    pictures = _pictures()
    with open(os.path.join(DOCS, "page", pictures.SHOWN), encoding="utf-8") as file:
        kept = json.load(file)
    shown, outside = {}, {}
    for name, look, page in pictures.visit():
        shown[f"{name}-{look}"] = pictures.words_on(page)
        outside[f"{name}-{look}"] = page.evaluate(OUTSIDE)
    assert not {name: boxes for name, boxes in outside.items() if boxes}
    changed = {name: set(lines) ^ set(kept.get(name, ())) for name, lines in shown.items() if lines != kept.get(name)}
    assert not changed, "draw the pictures again: python docs/generate.py page"
