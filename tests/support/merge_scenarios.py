"""What two agents do to one file at the same time, as data: the file before, both sides, and what is right.

`want` is the right text where there is one; BOTH means that the lines of both sides stand in it, whatever their order;
CONFLICT that nobody may join it silently; WRONG that git joins it cleanly and wrongly, which only tests, guards or a reader
can see. Where no rule must settle a scenario, a conflict is never wrong.
"""

from __future__ import annotations

from typing import NamedTuple

BOTH, CONFLICT, WRONG = "both", "conflict", "wrong"


class Scenario(NamedTuple):
    """Two edits of one file."""

    name: str
    path: str
    base: str
    ours: str
    theirs: str
    want: str
    rule: bool = False
    """Whether a rule must settle it, in both orders."""


_F = "def a():\n    return 1\n"
_G = "import os\nimport sys\n\n\ndef a():\n    return os.sep\n"
_CLASS = "class Shop:\n    name = 'x'\n\n    def open(self):\n        return 1\n"
_LOG = "# Changes\n\n## Unreleased\n\n- First.\n\n## 1.0\n\n- Old.\n"
_LINES = "".join(f"line {number}\n" for number in range(30))
_MAIN = "def total(items):\n    return sum(items)\n\n\ndef show(items):\n    print(total(items))\n"


def _s(name: str, path: str, base: str, ours: str, theirs: str, want: str, *, rule: bool = False) -> Scenario:
    return Scenario(name=name, path=path, base=base, ours=ours, theirs=theirs, want=want, rule=rule)


def _added(name: str, path: str, base: str, ours: str, theirs: str) -> Scenario:
    return _s(name, path, base, base + ours, base + theirs, BOTH, rule=True)


SCENARIOS = (
    # --- Python to which both add
    _added("two functions at the end", "m.py", _F, "\n\ndef b():\n    return 2\n", "\n\ndef c():\n    return 2\n"),
    _added("two classes at the end", "m.py", _F, "\n\nclass B:\n    x = 1\n", "\n\nclass C:\n    x = 1\n"),
    _added("decorated functions", "m.py", _F, "\n\n@wrap\ndef b():\n    pass\n", "\n\n@wrap\ndef c():\n    pass\n"),
    _added("a function and a constant", "m.py", _F, "\n\ndef b():\n    return 2\n", "\n\nLIMIT = 5\n"),
    _added("two tests", "test_m.py", _F, "\n\ndef test_b():\n    assert a()\n", "\n\ndef test_c():\n    assert a()\n"),
    _added("functions with comments", "m.py", _F, "\n\n# b\ndef b():\n    pass\n", "\n\n# c\ndef c():\n    pass\n"),
    _s("two functions in the middle", "m.py", _F + "\n\ndef z():\n    return 0\n",
       _F + "\n\ndef b():\n    return 2\n\n\ndef z():\n    return 0\n", _F + "\n\ndef c():\n    return 3\n\n\ndef z():\n    return 0\n", BOTH, rule=True),
    _s("two methods", "m.py", _CLASS, _CLASS + "\n    def close(self):\n        return 2\n", _CLASS + "\n    def count(self):\n        return 3\n",
       BOTH, rule=True),
    _s("two fields of a record", "m.py", "class P:\n    a: int\n", "class P:\n    a: int\n    b: int\n", "class P:\n    a: int\n    c: str\n",
       BOTH, rule=True),
    _s("two class attributes", "m.py", _CLASS, _CLASS.replace("'x'\n", "'x'\n    size = 2\n"), _CLASS.replace("'x'\n", "'x'\n    kind = 'y'\n"),
       BOTH, rule=True),
    _s("two imports", "m.py", _G, _G.replace("import sys\n", "import re\nimport sys\n"), _G.replace("import sys\n", "import json\nimport sys\n"),
       BOTH, rule=True),
    _s("an import and a function each", "m.py", _G, _G.replace("sys\n", "sys\nimport re\n", 1) + "\n\ndef b():\n    return re\n",
       _G.replace("sys\n", "sys\nimport json\n", 1) + "\n\ndef c():\n    return json\n", BOTH, rule=True),
    _s("names of one import", "m.py", "from x import a\n", "from x import a, b\n", "from x import a, c\n", "from x import a, b, c\n", rule=True),
    _s("names of one import, sorted", "m.py", "from x import b, d\n", "from x import b, c, d\n", "from x import a, b, d\n",
       "from x import a, b, c, d\n", rule=True),
    _s("names of one import, a line each", "m.py", "from x import (\n    a,\n    d,\n)\n", "from x import (\n    a,\n    b,\n    d,\n)\n",
       "from x import (\n    a,\n    c,\n    d,\n)\n", "from x import (\n    a,\n    b,\n    c,\n    d,\n)\n", rule=True),
    _s("the same import by both", "m.py", _G, _G.replace("sys\n", "sys\nimport re\n", 1) + "\n\ndef b():\n    return re\n",
       _G.replace("sys\n", "sys\nimport re\n", 1) + "\n\ndef c():\n    return re\n", BOTH, rule=True),
    _s("__all__ on one line", "m.py", '__all__ = ["a", "d"]\n', '__all__ = ["a", "b", "d"]\n', '__all__ = ["a", "c", "d"]\n',
       '__all__ = ["a", "b", "c", "d"]\n', rule=True),
    _s("__all__, a line each", "m.py", '__all__ = [\n    "a",\n]\n', '__all__ = [\n    "a",\n    "b",\n]\n', '__all__ = [\n    "a",\n    "c",\n]\n',
       '__all__ = [\n    "a",\n    "b",\n    "c",\n]\n', rule=True),
    _s("a dictionary of functions", "m.py", "T = {\n    'a': one,\n}\n", "T = {\n    'a': one,\n    'b': two,\n}\n", "T = {\n    'a': one,\n    'c': three,\n}\n",
       BOTH, rule=True),
    _s("a list without a last comma", "m.py", 'L = [\n    "a"\n]\n', 'L = [\n    "a",\n    "b"\n]\n', 'L = [\n    "a",\n    "c"\n]\n', BOTH, rule=True),
    _s("a list with comments", "m.py", 'L = [\n    "a",  # one\n]\n', 'L = [\n    "a",  # one\n    "b",  # two\n]\n',
       'L = [\n    "a",  # one\n    # three\n    "c",\n]\n', BOTH, rule=True),
    _s("neighbouring constants", "m.py", "A = 1\n", "A = 1\nB = 'b'\n", "A = 1\nC = 'c'\n", BOTH, rule=True),
    _s("a function added, another edited elsewhere", "m.py", _MAIN, _MAIN.replace("sum(items)", "sum(items or ())") + "\n\ndef b():\n    return 2\n",
       _MAIN + "\n\ndef c():\n    return 3\n", BOTH, rule=True),
    # --- Python that a rule must not touch
    _s("one function by both, differently", "m.py", _F, _F + "\n\ndef b():\n    return 2\n", _F + "\n\ndef b():\n    return 3\n", CONFLICT),
    _s("one constant by both", "m.py", "A = 1\n", "A = 1\nB = 2\n", "A = 1\nB = 3\n", CONFLICT),
    _s("the next number of an enumeration", "m.py", "class K:\n    A = 1\n", "class K:\n    A = 1\n    B = 2\n", "class K:\n    A = 1\n    C = 2\n", CONFLICT),
    _s("the next id of a dictionary", "m.py", "I = {\n    'a': 1,\n}\n", "I = {\n    'a': 1,\n    'b': 2,\n}\n", "I = {\n    'a': 1,\n    'c': 2,\n}\n", CONFLICT),
    _s("the same key, other values", "m.py", "I = {\n    'a': x,\n}\n", "I = {\n    'a': x,\n    'b': y,\n}\n", "I = {\n    'a': x,\n    'b': z,\n}\n", CONFLICT),
    _s("a version as a tuple", "m.py", "V = (1, 2)\n", "V = (1, 2, 1)\n", "V = (1, 2, 2)\n", CONFLICT),
    _s("one bug fixed in two ways", "m.py", _F, _F.replace("1", "max(1, 0)"), _F.replace("1", "abs(1)"), CONFLICT),
    _s("edited here, deleted there", "m.py", _MAIN, _MAIN.replace("sum(items)", "sum(items or ())"), _MAIN[_MAIN.index("def show") :], CONFLICT),
    _s("two parameters", "m.py", "def f(a):\n    return a\n", "def f(a, b=0):\n    return a\n", "def f(a, c=0):\n    return a\n", CONFLICT),
    _s("two branches of one chain", "m.py", "if x:\n    a()\n", "if x:\n    a()\nelif y:\n    b()\n", "if x:\n    a()\nelif z:\n    c()\n", CONFLICT),
    _s("re-indented here, edited there", "m.py", "def f():\n    a()\n    b()\n", "def f():\n    if x:\n        a()\n        b()\n", "def f():\n    a()\n    c()\n",
       CONFLICT),
    _s("statements in one function", "m.py", "def f():\n    a()\n", "def f():\n    a()\n    b()\n", "def f():\n    a()\n    c()\n", CONFLICT),
    _s("a field without a value behind one with", "m.py", "class P:\n    a: int\n", "class P:\n    a: int\n    b: int = 0\n", "class P:\n    a: int\n    c: str\n", BOTH),
    _s("code at module level", "m.py", "a()\n", "a()\nb()\n", "a()\nc()\n", CONFLICT),
    _s("reordered here, added there", "m.py", "A = 1\nB = 2\n", "B = 2\nA = 1\n", "A = 1\nB = 2\nC = 3\n", CONFLICT),
    _s("a file that does not parse", "m.py", "def f(:\n", "def f(:\nx = 1\n", "def f(:\ny = 2\n", CONFLICT),
    # --- lines
    _s("two entries of a changelog", "CHANGELOG.md", _LOG, _LOG.replace("- First.\n", "- First.\n- Mine.\n"), _LOG.replace("- First.\n", "- First.\n- Yours.\n"),
       BOTH, rule=True),
    _s("a heading in a changelog", "CHANGELOG.md", _LOG, _LOG.replace("- First.\n", "- First.\n### Fixed\n- Mine.\n"),
       _LOG.replace("- First.\n", "- First.\n- Yours.\n"), CONFLICT),
    _s("one entry reworded twice", "CHANGELOG.md", _LOG, _LOG.replace("First", "1st"), _LOG.replace("First", "One"), CONFLICT),
    _s("patterns to ignore", ".gitignore", "*.pyc\n", "*.pyc\n/build\n", "*.pyc\n/dist\n", BOTH, rule=True),
    _s("a pattern taken back", ".gitignore", "*.log\n", "*.log\n!keep.log\n", "*.log\n/tmp\n", CONFLICT),
    _s("sums", "go.sum", "a v1 h1:x\n", "a v1 h1:x\nb v1 h1:y\n", "a v1 h1:x\nc v1 h1:z\n", BOTH, rule=True),
    _s("requirements", "requirements.txt", "attrs==1\n", "attrs==1\nflask==2\n", "attrs==1\nhttpx==3\n", BOTH, rule=True),
    _s("one package, two pins", "requirements.txt", "attrs==1\n", "attrs==1\nflask==2\n", "attrs==1\nFlask==3\n", CONFLICT),
    _s("one pin raised twice", "requirements.txt", "attrs==1\n", "attrs==2\n", "attrs==3\n", CONFLICT),
    _s("exports", "index.ts", "export * from './a';\n", "export * from './a';\nexport * from './b';\n", "export * from './a';\nexport * from './c';\n",
       BOTH, rule=True),
    _s("one export by both", "index.ts", "export * from './a';\n", "export * from './a';\nexport { X } from './b';\n",
       "export * from './a';\nexport { Y } from './b';\n", CONFLICT),
    _s("prose", "README.md", "Words.\n", "Words.\nMine.\n", "Words.\nYours.\n", CONFLICT),
    _s("settings in YAML", "ci.yml", "a: 1\n", "a: 1\nb: 2\n", "a: 1\nc: 3\n", CONFLICT),
    _s("a list in TOML", "p.toml", 'd = ["a"]\n', 'd = ["a", "b"]\n', 'd = ["a", "c"]\n', CONFLICT),
    # --- made by programs, and line ends
    _s("a lock by two", "uv.lock", "a\n", "a\nb\n", "a\nc\n", CONFLICT),
    _s("a generated file by two", "m.py", "# @generated\nA = 'a'\n", "# @generated\nA = 'a'\nB = 'b'\n", "# @generated\nA = 'a'\nC = 'c'\n", CONFLICT),
    _s("other line ends on one side", "a.txt", _LINES, _LINES.replace("\n", "\r\n"), _LINES.replace("line 3\n", "line three\n"),
       _LINES.replace("line 3\n", "line three\n"), rule=True),
    # --- what git does by itself
    _s("the same fix by both", "m.py", _F, _F.replace("1", "2"), _F.replace("1", "2"), _F.replace("1", "2")),
    _s("edits apart", "a.txt", _LINES, _LINES.replace("line 3\n", "three\n"), _LINES.replace("line 20\n", "twenty\n"),
       _LINES.replace("line 3\n", "three\n").replace("line 20\n", "twenty\n")),
    _s("renamed here, called there", "m.py", _LINES.replace("line", "# line") + _MAIN, (_LINES.replace("line", "# line") + _MAIN).replace("total", "whole"),
       "x = total([])\n" + _LINES.replace("line", "# line") + _MAIN, WRONG),
)  # fmt: skip
