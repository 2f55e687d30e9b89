"""Ownership: which paths a pattern names, compared with git's own pathspec, and where owners meet."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handoff.base.errors import UserError
from handoff.git.ownership import Ownership, overlaps
from handoff.git.ownership.patterns import written

_NAMES = st.text("ab.-c", min_size=1, max_size=3).filter(lambda name: name.strip("."))
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_PIECES = st.sampled_from(["a", "b", "c", ".", "*", "?", "[ab]", "[!a]", "[a-b]", "**", "\\a", "[]a]"])
_PARTS = st.one_of(_NAMES, st.just("**"), st.lists(_PIECES, min_size=1, max_size=4).map("".join)).filter(
    lambda part: part not in (".", "..")
)
_GLOBS = st.lists(_PARTS, min_size=1, max_size=4).map("/".join)


def owns(*patterns, **flags):
    return Ownership.parse(patterns, **flags)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.py", ["a.py", "./a.py"], ["a.pyc", "b/a.py", "A.py", "a.py/b"]),
        ("src/", ["src/a", "src/b/c"], ["src", "srcs/a", "x/src/a"]),
        ("*.py", ["a.py", ".py"], ["b/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "b/a.py", "b/c/a.py"], ["a.pyc"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "srcs/a"]),
        ("src/**/test_?.py", ["src/test_a.py", "src/x/y/test_b.py"], ["src/test_ab.py", "test_a.py"]),
        ("**", ["a", "b/c", ".hidden"], [".git/config", "../a", "/a", "a/../b", "", "x/.GIT/y"]),
        ("a**b", ["ab", "axyb"], ["a/b"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "[a-c]y"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("app/[id]/page.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"], ["app/id/page.tsx"]),
        (r"a\*b", ["a*b", r"a\*b"], ["axb"]),
        ("docs/*/", ["docs/x/a", "docs/x/y/z"], ["docs/a"]),
        ("./src//x", ["src/x"], ["x"]),
        ("-dash", ["-dash"], []),
        (r"\!odd", ["!odd"], ["odd"]),
        ("[[:digit:]]*", ["1a", "9"], ["a1"]),
    ],
)
def test_a_pattern_names_these_paths_and_not_those(pattern, yes, no):
    owned = owns(pattern)
    assert [path for path in yes if not owned.covers(path)] == []
    assert [path for path in no if owned.covers(path)] == []


def test_names_are_bytes_and_need_not_be_text():
    owned = owns(b"caf\xe9/", "new\nline", 'quo"te', "tab\t*")
    assert owned.covers(b"caf\xe9/x")
    assert owned.covers(os.fsdecode(b"caf\xe9/x"))
    assert owned.covers("new\nline")
    assert owned.covers(b'quo"te')
    assert owned.covers("tab\tx\ny")
    assert not owned.covers("caf\u00e9/x")


def test_an_exclusion_wins_wherever_it_stands():
    for patterns in (("!src/x/", "src/"), ("src/", "!src/x/")):
        owned = owns(*patterns)
        assert owned.covers("src/a")
        assert not owned.covers("src/x/a")


def test_twins_are_one_file_only_where_the_disk_says_so():
    assert not owns("README").covers("readme")
    assert owns("README", ignore_case=True).covers("readme")
    assert owns("Src/[A-C]*", ignore_case=True).covers("sRC/bX")
    composed, decomposed = "caf\u00e9.txt", "cafe\u0301.txt"
    assert not owns(composed).covers(decomposed)
    assert owns(composed, ignore_form=True).covers(decomposed)
    assert owns(decomposed + "/", ignore_form=True).covers(composed + "/x")
    assert owns("*/CAF\u00c9*", ignore_case=True, ignore_form=True).covers("a/cafe\u0301!")


@pytest.mark.parametrize(
    "pattern", ["/etc/passwd", "", "!", "../x", "a/../b", ".", "./", ".git/config", "a/.Git/x", "a[b", "a\\", "a\0b"]
)
def test_a_pattern_that_means_nothing_safe_is_an_error_that_names_it(pattern):
    with pytest.raises(UserError) as error:
        owns(pattern)
    assert f"'{pattern}'" in error.value.message


def test_only_exclusions_are_an_error():
    with pytest.raises(UserError, match="only excludes"):
        owns("!a")


def test_the_manifest_form_is_taken_literally():
    owned = owns(written("exact", "a*"), written("prefix", "lib"), written("glob", "t/*.py"), written("exact", "!x"))
    assert owned.covers("a*")
    assert not owned.covers("ab")
    assert owned.covers("lib/x")
    assert owned.covers("t/x.py")
    assert owned.covers("!x")
    for kind, path in (("regex", "a"), ("", "a"), ("exact", "")):
        with pytest.raises(UserError):
            owns(written(kind, path))


@pytest.mark.parametrize(
    ("pattern", "reach", "whole"),
    [
        ("src/app.py", "src/app.py", True),
        ("src/", "src/", True),
        ("src/**", "src/", True),
        ("**", "", True),
        ("src/*", "src/", False),
        ("src/*/x", "src/", False),
        ("src/**/x", "src/", False),
        ("src/a/*.py", "src/a/", False),
        ("*.py", "", False),
        ("src/a?", "src/", False),
        (r"app/\[id]/page.tsx", "app/[id]/page.tsx", True),
        (r"app/\[id]/", "app/[id]/", True),
        (r"app/\[id]/*.tsx", "app/[id]/", False),
        ("app/[id]/page.tsx", "app/", False),
        (r"\!odd.txt", "!odd.txt", True),
        (r"a\*b", "a*b", True),
    ],
)
def test_a_pattern_reaches_one_file_or_one_folder(pattern, reach, whole):
    assert owns(pattern).reach == {reach: whole}


def test_what_is_taken_out_does_not_widen_the_reach_and_leaves_nothing_whole():
    owned = owns("src/", "docs/a.md", "src/*.py", "!src/x/")
    assert owned.reach == {"src/": False, "docs/a.md": False}
    assert owns("src/*.py", "src/", "src/*.js").reach == {"src/": True}


@settings(max_examples=300)
@given(st.lists(_GLOBS, min_size=1, max_size=3), _PATHS)
def test_nothing_is_owned_out_of_reach_and_everything_that_is_owned_whole(patterns, path):
    owned = owns(*patterns)
    inside = [place for place in owned.reach if path == place or (_is_folder(place) and path.startswith(place))]
    assert inside or not owned.covers(path) or "\\" in "".join(patterns)
    below = [place + "x" if _is_folder(place) else place for place, whole in owned.reach.items() if whole]
    assert all(owned.covers(path) for path in below)


def _is_folder(place):
    return not place or place.endswith("/")


def test_a_whole_folder_is_owned_only_if_everything_below_it_is():
    assert owns("src/").covers("src/")
    assert owns("src/").covers("src/deep/")
    assert owns("src/**").covers("src/deep/")
    assert not owns("src/*.py").covers("src/")
    assert not owns("src/", "!src/x").covers("src/")


def test_a_hostile_glob_takes_no_time_to_refuse():
    owned = owns("**/" + "*a" * 40 + "/**/" + "b*" * 40 + "/**/c")
    assert not owned.covers("/".join(["a" * 200, "b" * 200] * 20))


# --- against git ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """A repository whose index can hold any set of names without files on disk."""
    folder = tmp_path_factory.mktemp("names")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return str(folder)


def _listed(folder, paths, pathspecs):
    """The names among `paths` that git's pathspec chooses."""
    blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    index = os.path.join(folder, "index")
    if os.path.exists(index):
        os.unlink(index)
    environment = {**os.environ, "GIT_INDEX_FILE": index}
    lines = "".join(f"100644 {blob} 0\t{path}\0" for path in paths)
    for words, text in ((["update-index", "-z", "--index-info"], lines), (["ls-files", "-z", "--", *pathspecs], "")):
        done = subprocess.run(
            ["git", *words], cwd=folder, env=environment, input=text.encode(), capture_output=True, check=True
        )
    return {name for name in done.stdout.decode().split("\0") if name}


def _asked(glob):
    """A glob as git's pathspec. Git cuts plain letters off its front first: of `a**` a `**` is left that goes over folders, of `[a]**` not."""
    return ":(top,glob)" + re.sub(r"(?<!\\)([abc.-])(?=\*\*)", r"[\1]", glob)


def _without_clashes(paths):
    return sorted({path for path in paths if not any(other.startswith(path + "/") for other in paths)})


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sets(_PATHS, min_size=1, max_size=25), st.lists(_GLOBS, min_size=1, max_size=3), st.lists(_GLOBS, max_size=2))
@example(paths={"a/a"}, globs=["a/**"], shut=["a**"])
def test_globs_and_exclusions_choose_what_gits_pathspec_chooses(names, paths, globs, shut):
    paths = _without_clashes(paths)
    # A pattern without wildcards also means a folder to git; ours then needs the slash.
    globs = [glob if set(glob) & set("*?[\\") else glob + "/**" for glob in globs]
    shut = [glob if set(glob) & set("*?[\\") else glob + "/**" for glob in shut]
    # Asked apart: git 2.39 forgets an exclusion shorter than the folder all other pathspecs share.
    chosen = _listed(names, paths, [_asked(glob) for glob in globs])
    dropped = _listed(names, paths, [_asked(glob) for glob in shut]) if shut else set()
    owned = owns(*globs, *("!" + glob for glob in shut))
    assert {path for path in paths if owned.covers(path)} == chosen - dropped


@settings(max_examples=300)
@given(_GLOBS, _GLOBS, st.lists(_GLOBS, max_size=1), st.lists(_PATHS, max_size=30))
def test_owners_that_share_a_path_are_found_and_the_example_is_theirs(one, two, shut, paths):
    a, b = owns(one, *("!" + glob for glob in shut)), owns(two)
    found = overlaps({"a": a, "b": b})
    shared = [path for path in paths if a.covers(path) and b.covers(path)]
    assert found or not shared
    for overlap in found:
        both = a.covers(overlap.example) and b.covers(overlap.example)
        file_in_the_way = {one, two} & _above(overlap.shown)
        assert both or file_in_the_way


def _above(path):
    parts = path.rstrip("/").split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))} | {path.rstrip("/")}


# --- where owners meet ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "meet"),
    [
        (["src/m/"], ["src/m/new.py"], True),
        (["src/new/"], ["src/new/"], True),
        (["src/*.py"], ["src/*.py"], True),
        (["./src/x"], ["src/x"], True),
        (["src/"], ["srcs/"], False),
        (["src"], ["src/a"], True),
        (["**/*.py"], ["tests/"], True),
        (["**/*.py"], ["**/*.js"], False),
        (["*/a.py"], ["src/mod/"], False),
        (["a*b"], ["*c"], False),
        (["a*b"], ["*b"], True),
        (["src/**/x_*.py"], ["src/core/**"], True),
        (["src/", "!src/x/"], ["src/x/"], False),
        (["src/", "!src/x/*"], ["src/x/"], True),
        (["**", "!**/*.md"], ["docs/*.md"], False),
        (["**", "!docs/a.md"], ["docs/a.md"], False),
        (["[ab]*"], ["[!a]*"], True),
        (["[ab]"], ["[!ab]"], False),
        (["?"], ["**/x"], True),
        (["**"], [".*"], True),
        (["?"], ["[.]"], False),
        (["a/?"], ["a/[.]"], False),
        (["?"], ["[.]", "x"], True),
        (["[.]git"], ["?git"], False),
    ],
)
def test_overlap_is_judged_on_patterns(one, two, meet):
    for named in ({"a": owns(*one), "b": owns(*two)}, {"b": owns(*two), "a": owns(*one)}):
        found = overlaps(named)
        assert bool(found) is meet, found
        if found:
            assert {found[0].a, found[0].b} == {"a", "b"}


def test_joined_owners_own_what_each_of_them_owns_and_keep_their_exclusions_apart():
    joined = Ownership.joined([owns("src/"), owns("docs/", "!docs/x"), owns("*.md"), owns("docs/y")])
    assert len(joined) == 2
    owned = [
        path for path in ("src/a", "docs/a", "docs/x", "a.md", "docs/y", "b.txt") if any(o.covers(path) for o in joined)
    ]
    assert owned == ["src/a", "docs/a", "a.md", "docs/y"]
    assert not any(one.covers("a") for one in Ownership.joined([]))


def test_one_owner_may_repeat_itself():
    assert overlaps({"a": owns("src/", "src/x", "src/*.py", "**")}) == []


def _parsed(named):
    return {name: owns(*patterns) for name, patterns in named.items()}


@pytest.mark.slow
def test_ten_thousand_owners_are_compared_in_seconds():
    named = {
        f"o{owner}": [
            f"src/m{owner}/", f"tests/test_{owner}.py", f"docs/{owner}/*.md", f"**/only_{owner}_*.txt",
            f"lib/{owner}/**/x.py", *(f"data/{owner}/{piece}.csv" for piece in range(5)),
        ]
        for owner in range(10_000)
    }  # fmt: skip
    assert len(overlaps(_parsed(named), limit=5)) == 5  # `**/only_1_*.txt` reaches into every `src/m…/`
    for owner in range(10_000):
        named[f"o{owner}"][3] = f"gen/only_{owner}_*.txt"
    named["o77"].append("src/m9999/new/file.py")
    (found,) = overlaps(_parsed(named))
    assert {found.a, found.b} == {"o77", "o9999"}
    assert found.shown == "src/m9999/new/file.py"


def test_thousands_of_patterns_stay_quick_to_ask():
    owned = owns(*(f"src/m{n}/**/*_{n}.py" for n in range(5000)), *(f"**/deep_{n}.txt" for n in range(5000)))
    assert owned.covers("src/m4999/a/b_4999.py")
    assert owned.covers("x/y/deep_17.txt")
    assert not owned.covers("x/y/deep_17.py")


@pytest.mark.parametrize(
    ("mine", "theirs", "beyond"),
    [
        (["src/a/"], ["src/"], False),
        (["src/*.py", "docs/x.md"], ["src/", "docs/"], False),
        (["src/**", "!src/secret/"], ["src/", "!src/secret/"], False),
        (["src/"], ["src/", "!src/secret/"], True),
        (["src/", "other/b.txt"], ["src/"], True),
        (["**"], ["src/"], True),
        (["src/*"], ["src/*.py"], True),
        (["src/a.py"], ["src/[ab].py"], False),
    ],
)
def test_what_one_owns_beyond_another_is_found_on_the_patterns_alone(mine, theirs, beyond):
    mine, theirs = Ownership.parse(mine), Ownership.parse(theirs)
    path = mine.beyond(theirs)
    assert bool(path) == beyond, path
    assert not path or (mine.covers(path) and not theirs.covers(path))
