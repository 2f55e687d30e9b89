"""Assertions in other languages, by a scanner that knows strings, comments and brackets, and nothing more.

It finds the tests of a file by the words that begin one, cuts out each body by its brackets, and counts. It does not
understand the language: assertions inside helper functions are seen in scripts alone, where the helper stands in the same file."""

from __future__ import annotations

import re

from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterator


class AssertionFacts(Record):
    """One test as its text shows it. `assertions` counts those that are reached and can fail, with those of its helpers.

    `trivial` ones can never fail, `weak` ones (which are in `assertions`) take nearly every answer; `opaque` says that
    something is called that may assert and cannot be seen; `asks` and `body` tell a test again under another name.
    """

    assertions: int = 0
    skipped: bool = False
    empty: bool = False
    trivial: int = 0
    weak: int = 0
    swallowed: int = 0
    unreachable: int = 0
    opaque: bool = True
    asks: tuple[str, ...] = ()
    body: str = ""


_NEVER = re.compile(r"(?!)")
_STRING = r"(?P<quote>[\"'`])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)"
# A value as it stands on both sides of an assertion: a name, or a call with plain arguments.
_VALUE = r"(?:new\s+)?[\w.$@]+(?:\([^()]*\))?(?:(?:\.|->|::)\w+(?:\([^()]*\))?)*"
_EQUAL = (
    r"assertEquals|assertSame|assert_eq!|assert_equal|assertIdentical|strictEqual|deepEqual|deepStrictEqual|equal"
    r"|Assert\.Equal|Assert\.AreEqual|assert\.Equal|require\.Equal|assert\.Same|t\.is|is|toEqual"
)
_TRUE = re.compile(
    r"\b(?:assertTrue|assert|ok|assert\.ok|assert!|Assert\.True|Assert\.IsTrue|assertThat)\s*\(\s*true\b"
    r"|\bassertFalse\s*\(\s*false\b"
    r"|expect\s*\(\s*(true|1|false|null)\s*\)\s*\.\s*(?:to|toBe|toEqual|toStrictEqual)\s*\.?\s*(?:be|eq|eql|equal)?\s*\(?\s*\1\b"
    r"|expect\s*\(\s*true\s*\)\s*\.\s*toBeTruthy"
    rf"|\b(?:{_EQUAL})\s*[( ]\s*(?:t\s*,\s*)?({_VALUE})\s*,\s*\2\s*(?:[,);]|$)"
    rf"|expect\s*\(\s*({_VALUE})\s*\)\s*\.\s*(?:toBe|toEqual|toStrictEqual|to\s*\.\s*(?:deep\s*\.\s*)?(?:equal|eql?)|to\s+eql?|to\s+equal)\s*\(?\s*\3\s*(?:\)|;|$)"
    rf"|\bassert\w*!?\s*[( ]\s*({_VALUE})\s*={{2,3}}\s*\4\s*(?:[,);]|$)"
    rf"|\bassertThat\s*\(\s*({_VALUE})\s*\)\s*\.\s*(?:isEqualTo|isSameAs)\s*\(\s*\5\s*\)"
    rf"|(?<![\w.])({_VALUE})\.Should\(\)\.(?:Be|Equal)\(\s*\6\s*\)"
    rf"|\bif\s+({_VALUE})\s*!=\s*\7\s*\{{",
    re.MULTILINE,
)


class Language(Record):
    """How tests look in one language. `test` has a group `name`; `before` is looked for in the lines above a test."""

    test: re.Pattern[str]
    asserts: re.Pattern[str]
    trivial: re.Pattern[str] = _TRUE
    skip_inside: re.Pattern[str] = _NEVER
    skip_before: re.Pattern[str] = _NEVER
    skip_head: re.Pattern[str] = _NEVER
    quotes: str = "\"'`"
    comment: str = "//"
    ruby: bool = False
    mark: re.Pattern[str] | None = None  # what must stand above a function for it to be a test


_SCRIPT = Language(
    test=re.compile(
        rf"(?<![\w.$])(?P<word>(?:x|f)?(?:it|test|describe|context|suite))(?P<mods>(?:\.\w+)*)(?:\([^()\"'`]*\))?\s*\(\s*{_STRING}"
    ),
    asserts=re.compile(
        r"(?<![\w$])expect(?:\.\w+)*\s*\(|(?<![\w$])assert(?:\.\w+)*\s*\(|\bt\.(?:is|deepEqual|true|false|throws|truthy|falsy|equal|ok|same)\s*\(|\.should\b"
    ),
    skip_inside=re.compile(r"(?<![\w$])(?:t|this|ctx|context|test)\.(?:skip|todo)\s*\("),
    skip_head=re.compile(r"^x|\.(?:skip|todo|skipIf|fixme)|\{\s*(?:skip|todo)\s*:\s*(?!false)"),
)
_JAVA = Language(
    test=re.compile(r"(?:void|fun|def|\w+)\s+(?P<name>\w+|`[^`]+`)\s*\([^(){}]*\)\s*(?:throws\s+[\w.,\s]+)?\{"),
    asserts=re.compile(
        r"\b(?:assert\w*|expect\w*|verify\w*|fail|should\w*)\s*(?:<[^<>]*>)?\s*\(|\.(?:andExpect|isEqualTo|hasSize|isTrue|isFalse|isNull|isNotNull|contains)\s*\(|(?<![\w.])assert\s"
    ),
    skip_inside=re.compile(r"\b(?:assumeTrue\s*\(\s*false|Assumptions\.abort)"),
    skip_before=re.compile(r"@(?:Disabled\w*|Ignore)\b"),
    quotes="\"'",
    mark=re.compile(r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property|Theory)\b"),
)
_GO = Language(
    test=re.compile(
        r"^[ \t]*func\s+(?:\([^()]*\)\s*)?(?P<name>(?:Test|Fuzz|Example)\w*)\s*\([^()]*\)\s*\{", re.MULTILINE
    ),
    asserts=re.compile(
        r"\bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(|\b(?:assert|require|is|must)\.\w+\s*\(|\bcmp\.Diff\s*\("
    ),
    skip_inside=re.compile(r"\bt\.Skip(?:f|Now)?\s*\("),
)
_RUST = Language(
    test=re.compile(r"(?:async\s+)?fn\s+(?P<name>\w+)\s*\([^()]*\)[^{;]*\{"),
    asserts=re.compile(r"\b(?:debug_)?assert\w*!\s*[(\[{]|\bpanic!\s*\(|\bprop_assert\w*!"),
    skip_before=re.compile(r"#\[ignore"),
    quotes='"',
    mark=re.compile(r"#\[(?:\w+::)*(?:test|rstest|test_case|quickcheck)\b"),
)
_SHARP = Language(
    test=re.compile(r"(?:void|Task|ValueTask)\s+(?P<name>\w+)\s*\([^(){}]*\)\s*(?:\{|=>)"),
    asserts=re.compile(
        r"\b(?:Assert\w*|CollectionAssert|StringAssert)\.\w+\s*(?:<[^<>]*>)?\s*\(|\.Should\w*\s*\(|\bVerify\w*\s*\("
    ),
    skip_inside=re.compile(r"\bAssert\.(?:Ignore|Inconclusive|Skip)\s*\("),
    skip_before=re.compile(r"\[Ignore|Skip\s*=|\[Explicit"),
    quotes="\"'",
    mark=re.compile(r"\[(?:Fact|Theory|Test|TestMethod|TestCase|DataTestMethod)\b"),
)
_PHP = Language(
    test=re.compile(r"function\s+(?P<name>\w+)\s*\([^(){}]*\)[^{;]*\{"),
    asserts=re.compile(r"(?:->|::)(?:assert\w*|expect\w*|should\w*)\s*\(|(?<![\w$>:])expect\s*\("),
    skip_inside=re.compile(r"markTest(?:Skipped|Incomplete)\s*\("),
    skip_before=re.compile(r"@(?:group\s+skip|requires)|#\[Requires"),
    mark=re.compile(r"@test\b|#\[Test\b|function\s+test"),
)
_RUBY = Language(
    test=re.compile(
        rf"^[ \t]*(?P<word>x?(?:it|specify|example|describe|context|test)|pending)\s*\(?\s*{_STRING}[^\n]*?\bdo\b"
        r"|^[ \t]*def\s+(?P<method>test_\w+[?!]?)",
        re.MULTILINE,
    ),
    asserts=re.compile(r"\bexpect\s*[({]|\.should\b|\bassert\w*\b|\brefute\w*\b|\bmust_\w+|\bis_expected\b"),
    skip_inside=re.compile(r"^\s*(?:skip|pending)\b", re.MULTILINE),
    skip_head=re.compile(r"^x|^pending|\b(?:skip|pending):\s*(?!false)|:skip\b|:pending\b"),
    quotes="\"'",
    comment="#",
    ruby=True,
)

_HELPER = re.compile(
    r"\bfunction\s+(?P<name>\w+)\s*\([^()]*\)\s*\{"
    r"|\b(?:const|let|var)\s+(?P<bound>\w+)\s*=\s*(?:async\s*)?(?:function\b[^(]*)?(?:\([^()]*\)|\w+)\s*(?:=>)?\s*\{?"
)

LANGUAGES = {
    **dict.fromkeys((".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"), _SCRIPT),
    **dict.fromkeys((".java", ".kt", ".kts", ".groovy", ".scala"), _JAVA),
    ".go": _GO,
    ".rs": _RUST,
    ".cs": _SHARP,
    ".php": _PHP,
    ".rb": _RUBY,
}


def scanned_tests(text: str, language: Language) -> dict[str, AssertionFacts]:
    """The tests of a file by name, the groups they stand in before them."""
    blank = blank_out(text, language)
    found: dict[str, AssertionFacts] = {}
    helpers = _helpers(text, blank) if language is _SCRIPT else {}
    groups: list[tuple[int, str, bool]] = []  # where each ends, its name, whether it is skipped
    for match in language.test.finditer(text):
        begin = match.start()
        if blank[begin] != text[begin] or not blank[begin : match.end()].strip():
            continue  # inside a string or a comment
        groups = [group for group in groups if group[0] > begin]
        names = match.groupdict()
        name = (names.get("method") or names.get("name") or "").strip("`")
        head, body, end = _parts(text, blank, match, language)
        above = _above(text, blank, begin)
        if language.mark is not None and not language.mark.search(f"{above} {text[begin : match.end()]}"):
            continue
        skipped = bool(language.skip_head.search(head.strip()) or language.skip_before.search(above)) or any(
            group[2] for group in groups
        )
        if (names.get("word") or "").lstrip("xf") in ("describe", "context", "suite"):
            groups.append((end, name, skipped))
            continue
        whole = " > ".join([*(group[1] for group in groups), name])
        facts = _facts(body, text[end - len(body) : end], skipped, language)
        more = sum(count * len(re.findall(rf"(?<![\w.$]){one}\s*\(", body)) for one, count in helpers.items())
        found[_free(found, whole)] = facts._replace(assertions=facts.assertions + more)
    return found


def _helpers(text: str, blank: str) -> dict[str, int]:
    """The functions of a script that assert, by name, and how often."""
    found: dict[str, int] = {}
    for match in _HELPER.finditer(blank):
        last = match.end() - 1
        end = (
            _closing(blank, last)
            if blank[last] == "{"
            else min(at for at in (blank.find("\n", last), len(blank)) if at >= 0)
        )
        count = _facts(blank[last:end], text[last:end], False, _SCRIPT).assertions
        if count and not _SCRIPT.test.search(text, last, end):  # a group of tests is no helper
            found[match["name"] or match["bound"]] = count
    return found


def _facts(body: str, written: str, skipped: bool, language: Language) -> AssertionFacts:
    # Strings are blank in the body: only as it was written it can be seen whether both sides are the same.
    trivial = sum(1 for found in language.trivial.finditer(body) if language.trivial.match(written, found.start()))
    count = max(0, len(language.asserts.findall(body)) - trivial)
    inside = re.sub(r"^[^{]*?(?:=>|function[^{]*)\s*\{?|^\s*\{", "", body, count=1) if not language.ruby else body
    empty = not re.search(r"[A-Za-z0-9]", re.sub(r"\bend\b|\breturn\b|\bpass\b|[{}();,\s]", "", inside))
    skipped = skipped or bool(language.skip_inside.search(body))
    return AssertionFacts(
        assertions=count, skipped=skipped, empty=empty, trivial=trivial, body=" ".join(written.split())
    )


def _parts(text: str, blank: str, match: re.Match[str], language: Language) -> tuple[str, str, int]:
    """The head of a test, its body with strings and comments blanked, and where it ends."""
    head = text[match.start() : match.end()]
    if language.ruby:
        end = _ruby_end(blank, match.start(), match.end())
        return head, blank[match.end() : end], end
    if language is _SCRIPT:
        opened = blank.find("(", match.start())
        opened = match.start() + blank[match.start() : match.end()].rfind("(") if opened >= 0 else opened
        end = _closing(blank, opened)
        inner = blank[match.end() : end]
        options = re.match(r"\s*,\s*\{[^{}]*\}", inner)
        return head + (options[0] if options else ""), inner, end
    opened = match.end() - 1
    if text[opened] != "{":  # a body of one expression
        end = blank.find(";", match.end())
        end = len(blank) if end < 0 else end
        return head, blank[match.end() : end], end
    end = _closing(blank, opened)
    return head, blank[opened + 1 : end], end


def _closing(blank: str, opened: int) -> int:
    """Where the bracket that opens here closes again; the end of the text if it never does."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    depth = 0
    wanted, other = blank[opened], pairs.get(blank[opened], "")
    for at in range(opened, len(blank)):
        depth += (blank[at] == wanted) - (blank[at] == other)
        if depth == 0:
            return at
    return len(blank)


def _ruby_end(blank: str, begin: int, start: int) -> int:
    """Ruby's blocks end with an `end` as far to the right as their beginning."""
    line = blank.rfind("\n", 0, begin) + 1
    stretch = blank[line:start]
    indent = re.match(r"[ \t]*", stretch)
    match = re.compile(rf"^{indent[0] if indent else ''}end\b", re.MULTILINE).search(blank, start)
    return match.start() if match else len(blank)


def _above(text: str, blank: str, begin: int) -> str:
    """The lines between the end of what stands before and this test: its annotations and attributes."""
    at = begin
    while (at > 0 and blank[at - 1] not in "{};") or (
        at > 0 and blank[at - 1] == "}" and blank[max(0, at - 3) : at] == "\n}\n"
    ):
        at -= 1
        if begin - at > 2000:  # noqa: PLR2004 - nobody writes that many annotations
            break
    return text[at:begin]


def blank_out(text: str, language: Language) -> str:
    """The text with the insides of strings and comments as spaces; every other character stays in its place."""
    out = list(text)
    for begin, end in _hidden(text, language):
        for at in range(begin, end):
            if out[at] != "\n":
                out[at] = " "
    return "".join(out)


def _hidden(text: str, language: Language) -> Iterator[tuple[int, int]]:
    """Where strings (without their quotes) and comments lie."""
    at, size = 0, len(text)
    while at < size:
        char = text[at]
        if text.startswith(language.comment, at):
            end = text.find("\n", at)
            end = size if end < 0 else end
            yield at, end
            at = end
        elif language.comment == "//" and text.startswith("/*", at):
            end = text.find("*/", at + 2)
            end = size if end < 0 else end + 2
            yield at, end
            at = end
        elif text.startswith('"""', at):
            end = text.find('"""', at + 3)
            end = size if end < 0 else end
            yield at + 3, end
            at = end + 3
        elif char in language.quotes:
            end = _string_end(text, at, char)
            yield at + 1, end
            at = end + 1
        else:
            at += 1


def _string_end(text: str, at: int, quote: str) -> int:
    """Where a string closes; one that never does ends with its line, so that one odd quote cannot hide the rest."""
    size = len(text)
    end = at + 1
    while end < size and text[end] != quote:
        if text[end] == "\n" and quote != "`":
            return end
        end += 2 if text[end] == "\\" else 1
    return min(end, size)


def _free(found: dict[str, AssertionFacts], name: str) -> str:
    number, free = 2, name
    while free in found:
        free, number = f"{name}#{number}", number + 1
    return free
