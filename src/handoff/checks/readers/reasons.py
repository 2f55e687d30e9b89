"""Why a test is not green, read from what its framework printed: an assertion, a missing symbol, or a broken test."""

from __future__ import annotations

import re

from handoff.base.record import TYPE_CHECKING
from handoff.checks.results import ASSERTION, COLLECTION, MISSING, OTHER, RAISED, SYNTAX, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

# --- Python -----------------------------------------------------------------------------------------

_ERROR_LINE = re.compile(r"^E?\s*((?:[\w]+\.)*[A-Za-z_]\w*)(?:: (.*))?$", re.MULTILINE)
_PLACE = re.compile(r"^(\S[^\n]*?):(\d+): (?:in |([A-Za-z_][\w.]*)?$)", re.MULTILINE)
_FRAME = re.compile(r'^\s*File "([^"]+)", line \d+', re.MULTILINE)
_SIGNATURE = re.compile(r"takes .*positional argument|unexpected keyword argument|missing \d+ required")
_NAMED = re.compile(r"No module named '?([\w.]+)'?|cannot import name '[^']*' from '([\w.]+)'")
_IMPORTS = ("ImportError", "ModuleNotFoundError")
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_ASSERTS = ("AssertionError", "Failed", "assert")


def python_reason(text: str, *, loading: bool, foreign: Callable[[str], bool], is_test: Callable[[str], bool]) -> str:
    """The reason in a Python traceback; `loading` when the file itself could not be imported.

    `foreign` says which modules are declared dependencies: that one of them is absent says nothing about the project.
    """
    if re.search(r"^E\s+fixture '[^']*' not found", text, re.MULTILINE):
        return COLLECTION
    kind, words = _python_error(text)
    if kind in _SYNTAX:
        return SYNTAX
    if kind in _IMPORTS:
        named = _NAMED.search(words)
        module = (named.group(1) or named.group(2) or "") if named else ""
        return COLLECTION if "site-packages" in words or (module and foreign(module.partition(".")[0])) else MISSING
    if kind == "AttributeError" and (not loading or "has no attribute" in words):
        return MISSING
    if loading:
        return COLLECTION
    if "Timeout" in words and kind == "Failed":
        return TIMEOUT
    if kind in _ASSERTS or kind.endswith("AssertionError") or words.startswith("assert "):
        return ASSERTION
    if kind in ("NameError", "UnboundLocalError", "NotImplementedError") or _SIGNATURE.search(words):
        return MISSING
    places = [found.group(1) for found in _PLACE.finditer(text)] or _FRAME.findall(text)
    return RAISED if kind and places and not is_test(places[-1]) else OTHER


def _python_error(text: str) -> tuple[str, str]:
    """Kind and words of the last error: pytest marks its lines with an E, a plain traceback ends with it."""
    marked = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    for line in marked or list(reversed(text.rstrip().splitlines())):
        found = _ERROR_LINE.match(line)
        if line.startswith("assert "):
            return "assert", line
        if found and (found.group(1).endswith(("Error", "Exception", "Exit", "Warning")) or found.group(2) is not None):
            return found.group(1).rpartition(".")[2], found.group(2) or ""
    ended = [found.group(3) for found in _PLACE.finditer(text) if found.group(3)]
    return (ended[-1].rpartition(".")[2], "") if ended else ("", "")


# --- JavaScript -------------------------------------------------------------------------------------

_JS_MISSING = re.compile(
    r"ReferenceError|is not a (?:function|constructor)|does not provide an export named"
    r"|Cannot find module '[./]|Cannot find module '/|ERR_MODULE_NOT_FOUND\][^\n]*'/"
    r"|(?:Failed to resolve import|Failed to load url|Cannot resolve|Could not resolve) \"?[./]"
    r"|has no exported member|Cannot find name '|not implemented",
    re.IGNORECASE,
)
_JS_ABSENT = re.compile(r"Cannot find (?:module|package) '(?![./])|Failed to (?:resolve import|load url) \"?(?![./])")
_JS_SYNTAX = re.compile(
    r"SyntaxError|Transform failed|invalid JS syntax|Parse failure|Unexpected token|error TS1\d\d\d"
)
_JS_ASSERT = re.compile(r"AssertionError|ERR_ASSERTION|JestAssertionError|expect\(.*\)|toEqual|Expected\b")
_JS_TIMEOUT = re.compile(r"timed out|Exceeded timeout|Test timeout", re.IGNORECASE)
_JS_FRAME = re.compile(r"\bat (?:.*\()?(?:file://)?(/[^\s():]+|[\w.@-][^\s():]*\.[cm]?[jt]sx?):\d+(?::\d+)?")


def script_reason(text: str, *, loading: bool, is_test: Callable[[str], bool]) -> str:
    """The reason in a JavaScript or TypeScript failure."""
    if "does not provide an export named" in text:  # node reports it as a SyntaxError
        return MISSING
    if _JS_SYNTAX.search(text):
        return SYNTAX
    if _JS_ABSENT.search(text) and not _JS_MISSING.search(text):
        return COLLECTION
    if _JS_ASSERT.search(text) and not loading:
        return ASSERTION
    if _JS_MISSING.search(text):
        return MISSING
    if loading:
        return COLLECTION
    if _JS_TIMEOUT.search(text):
        return TIMEOUT
    frames = [frame for frame in _JS_FRAME.findall(text) if "/node_modules/" not in frame]
    return RAISED if frames and not is_test(frames[0]) else OTHER


# --- the JVM ----------------------------------------------------------------------------------------

_JAVA_MISSING = re.compile(
    r"cannot find symbol|package [\w.]+ does not exist|unresolved reference|cannot be applied to given types"
    r"|no suitable (?:method|constructor)|NoSuchMethodError|NoClassDefFoundError|ClassNotFoundException"
    r"|UnsupportedOperationException|unable to resolve class|NotImplementedError",
    re.IGNORECASE,
)
_JAVA_COMPILE = re.compile(
    r"\.(?:java|kt|groovy|scala):\[?\d+.*error|COMPILATION ERROR|error: |Compilation failed", re.IGNORECASE
)
_JAVA_ERROR = re.compile(
    r"^(?:\[ERROR\]\s*)?(\S*\.(?:java|kt|groovy|scala)):\[?(\d+)[^\n]*?(?:error: |\] |\)? )([^\n]+)", re.MULTILINE
)
_JAVA_ASSERT = re.compile(
    r"AssertionFailedError|AssertionError|ComparisonFailure|MultipleFailuresError|ConditionNotSatisfied"
)
_JAVA_TIMEOUT = re.compile(r"TimeoutException|TestTimedOutException|execution exceeded timeout")
_JAVA_FRAME = re.compile(
    r"^\s*at (?:[\w.$]+/)?([\w.$]+)\.[\w$<>]+\(([\w$]+\.(?:java|kt|groovy|scala)):\d+\)", re.MULTILINE
)


def java_reason(text: str, *, is_test: Callable[[str], bool], kind: str = "") -> str:
    """The reason in what a JVM framework printed for one test."""
    whole = f"{kind}\n{text}"
    if _JAVA_ASSERT.search(whole):
        return ASSERTION
    if _JAVA_MISSING.search(whole):
        return MISSING
    if _JAVA_TIMEOUT.search(whole):
        return TIMEOUT
    for name, file in _JAVA_FRAME.findall(text):
        if not name.startswith(("java.", "javax.", "jdk.", "sun.", "org.junit", "junit.", "org.opentest4j", "kotlin.")):
            return OTHER if is_test(file) or is_test(name.replace(".", "/") + ".java") else RAISED
    return OTHER


def java_compile_errors(text: str) -> list[tuple[str, str, str]]:
    """File, reason and words of each compile error; 'cannot find symbol' is missing, every other one syntax."""
    if not _JAVA_COMPILE.search(text):
        return []
    found = []
    for path, _line, words in _JAVA_ERROR.findall(text):
        if "warning" in words.lower() and "error" not in words.lower():
            continue
        found.append((path, MISSING if _JAVA_MISSING.search(words) else SYNTAX, words.strip()))
    return found


# --- the others -------------------------------------------------------------------------------------

_PLAIN_MISSING = re.compile(
    r"undefined: |undefined \(type|has no field or method|not enough arguments in call|too many arguments in call"  # go
    r"|error\[E0(?:425|432|433|412|599|061|407|560|609)\]|cannot find (?:function|value|type|struct|crate)|not yet implemente[d]|unresolved import"
    r"|NameError|NoMethodError|uninitialized constant|cannot load such file|NotImplementedError"  # Ruby
    r"|Call to undefined|Class [\"'].*[\"'] not found|ArgumentCountError"  # PHP
    r"|error CS(?:0103|0117|0234|0246|1061|1501|7036)|NotImplementedException|wrong number of arguments"  # C#, Ruby
)
_PLAIN_SYNTAX = re.compile(
    r"syntax error|SyntaxError|ParseError|Parse error|error CS1\d\d\d|error CS\d+|expected (?:one of|expression|item)|error\[E\d+\]|^error: ",
    re.MULTILINE,
)
_PLAIN_ASSERT = re.compile(
    r"assertion|Assert|ExpectationNotMet|expected\b.*\b(?:got|to)\b|\bgot\b.*\bwant\b|Failed asserting|expected:",
    re.IGNORECASE,
)


def plain_reason(text: str, *, building: bool = False) -> str:
    """The reason in Go, Rust, Ruby, PHP or C# output; `building` when the tests did not even compile or load."""
    if _PLAIN_MISSING.search(text):
        return MISSING
    if _PLAIN_SYNTAX.search(text) and (building or not _PLAIN_ASSERT.search(text)):
        return SYNTAX
    if building:
        return COLLECTION
    if _PLAIN_ASSERT.search(text):
        return ASSERTION
    return TIMEOUT if re.search(r"timed out", text) else OTHER


def printed_reason(text: str, path: str) -> str:
    """The reason in what a command printed of which nothing else is known; the new test's file tells the language."""
    if path.endswith(".py"):
        return python_reason(text, loading=False, foreign=lambda _: False, is_test=lambda _: False)
    if re.search(r"\.[cm]?[jt]sx?$", path):
        return script_reason(text, loading=False, is_test=lambda _: False)
    return plain_reason(text)
