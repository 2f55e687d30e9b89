"""Real packages as trees: what lies installed, with the tests they ship."""

from __future__ import annotations

import os
from importlib.metadata import files
from typing import NamedTuple


class Package(NamedTuple):
    """A package of the group `controls` in pyproject.toml: which of its files are taken, where its code and tests are."""

    name: str
    code: str
    tests: str
    left_out: tuple[str, ...] = ()


PACKAGES = (
    Package(
        "shortuuid",
        "shortuuid/main.py",
        "shortuuid/test_shortuuid.py",
        ("shortuuid/django_fields.py",),
    ),
    Package(
        "toolz",
        "toolz/itertoolz.py",
        "toolz/tests/test_itertoolz.py",
        (
            "tlz/",
            "toolz/sandbox/tests/",
            *(
                f"toolz/tests/test_{name}.py"
                for name in "curried_doctests inspect_args serialization tlz package".split()
            ),
            *(f"toolz/tests/test_{name}.py" for name in "signatures functoolz curried compatibility utils".split()),
        ),
    ),
    Package(
        "hyperlink",
        "hyperlink/_url.py",
        "hyperlink/test/test_decoded_url.py",
        ("hyperlink/hypothesis.py", "hyperlink/test/test_hypothesis.py", "hyperlink/test/test_url.py"),
    ),
    Package(
        "zict",
        "zict/func.py",
        "zict/tests/test_func.py",
        tuple(f"zict/tests/test_{name}.py" for name in "lmdb cache async_buffer file lru buffer sieve utils".split()),
    ),
    Package("flatten-dict", "flatten_dict/flatten_dict.py", "flatten_dict/tests/flatten_dict_test.py"),
    Package("mergedeep", "mergedeep/mergedeep.py", "mergedeep/test_mergedeep.py"),
)


def tree_of(package: Package) -> dict[str, str]:
    """Its Python files as they are installed, and a setting that says which runner it uses."""
    found = {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q"\n'}
    listed = files(package.name) or ()
    for path in listed:
        name = str(path)
        if name.endswith((".py", ".gz")) and not name.startswith(("../", *package.left_out)):
            place = os.fspath(path.locate())
            if name.endswith(".py"):
                with open(place, encoding="utf-8") as file:
                    found[name] = file.read()
    return found
