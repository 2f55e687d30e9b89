"""The pictures of every page, made anew in a real browser and held against those that are kept."""

from __future__ import annotations

import base64
import os
import sys

import pytest

from page_ground import Chromium
from source import ROOT

DOCS = os.path.join(ROOT, "docs")
MOST_BYTES = 2_000_000
TOLERANCE = 6.0
"""How far pictures may be apart, of 255 a channel in the middle: other fonts draw letters elsewhere, other pages look otherwise."""
APART = """async ([one, other]) => {
  const load = async (data) => createImageBitmap(await (await fetch(`data:image/webp;base64,${data}`)).blob());
  const [a, b] = [await load(one), await load(other)];
  const [wide, high] = [Math.max(a.width, b.width) >> 3, Math.max(a.height, b.height) >> 3];
  const points = [a, b].map((image) => {
    const place = new OffscreenCanvas(wide, high).getContext("2d");
    place.drawImage(image, 0, 0, image.width >> 3, image.height >> 3);
    return place.getImageData(0, 0, wide, high).data;
  });
  return points[0].reduce((sum, value, at) => sum + Math.abs(value - points[1][at]), 0) / points[0].length;
}"""


def _pictures():
    sys.path.insert(0, DOCS)
    try:
        import page_pictures
    finally:
        sys.path.remove(DOCS)
    return page_pictures


def test_every_page_has_its_three_pictures_and_all_of_them_are_small():
    with open(os.path.join(DOCS, "page.md"), encoding="utf-8") as file:
        shown = file.read()
    made = [f"{name}-{look}.webp" for name in _pictures().PAGES for look in _pictures().LOOKS]
    assert sorted(made) == sorted(os.listdir(os.path.join(DOCS, "page")))
    assert all(f"(page/{name})" in shown for name in made)
    assert sum(os.stat(os.path.join(DOCS, "page", name)).st_size for name in made) <= MOST_BYTES


@pytest.mark.slow
def test_the_pictures_show_the_pages_as_they_are_now():
    fresh = dict(_pictures().draw())
    browser = Chromium()
    page = browser.browser.new_page()
    apart = {}
    for name, taken in fresh.items():
        with open(os.path.join(DOCS, name), "rb") as file:
            kept = file.read()
        if kept != taken:
            both = [base64.b64encode(one).decode() for one in (kept, taken)]
            apart[name] = page.evaluate(APART, both)
    browser.close()
    assert not {name: far for name, far in apart.items() if far > TOLERANCE}, "anew: python docs/generate.py page"
