"""Honest changes of real code, made by program: each takes a file's text and gives it back with the same meaning, or None."""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Function = ast.FunctionDef
_LETTERS = frozenset(dir(builtins))
_AT = "@"  # beside a line's end it would read as an address


def _swap(text: str, node: ast.stmt, new: str) -> str:
    """The text with one statement replaced; decorators belong to it."""
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1
    indent = " " * node.col_offset
    lines[first : node.end_lineno] = [textwrap.indent(new.strip("\n"), indent) + "\n"]
    return "".join(lines)


def _tests(text: str) -> Iterator[tuple[Function, bool]]:
    """Tests with whether they are methods."""
    for node in ast.parse(text).body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield node, False
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function) and inner.name.startswith("test"):
                    yield inner, True


def _functions(text: str) -> Iterator[Function]:
    """Plain functions of the module: no decorator, no generator, nothing defined inside."""
    for node in ast.parse(text).body:
        if isinstance(node, Function) and not node.decorator_list:
            inner = [one for part in node.body for one in ast.walk(part)]
            if not any(
                isinstance(one, (Function, ast.Lambda, ast.ClassDef, ast.Yield, ast.YieldFrom)) for one in inner
            ):
                yield node


def _names(node: ast.AST, context: type = ast.Name) -> set[str]:
    del context
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _stored(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _rename(node: ast.AST, old: str, new: str) -> None:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and one.id == old:
            one.id = new


def _docless(node: Function) -> list[ast.stmt]:
    first = node.body[0]
    doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return node.body[1:] if doc else node.body


def _module_head(text: str) -> str:
    """Everything the file imports and defines before its first test, as far as a second file needs it."""
    tree = ast.parse(text)
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))) + "\n"


# --- tests -----------------------------------------------------------------------------------------------


def rename_test(text: str, at: int) -> str | None:
    """Another name for a test."""
    found = list(_tests(text))
    node, _ = found[at % len(found)]
    return re.sub(rf"\bdef {node.name}\b", f"def {node.name}_as_it_should", text, count=1)


def reorder_tests(text: str, at: int) -> str | None:
    """Two tests change places."""
    found = [node for node, _ in _tests(text)]
    one, other = found[at % (len(found) - 1)], found[at % (len(found) - 1) + 1]
    if one.decorator_list or other.decorator_list or one.col_offset != other.col_offset:
        return None
    lines = text.splitlines(keepends=True)
    first, between = lines[one.lineno - 1 : one.end_lineno], lines[one.end_lineno : other.lineno - 1]
    second = lines[other.lineno - 1 : other.end_lineno]
    return "".join([*lines[: one.lineno - 1], *second, *between, *first, *lines[other.end_lineno :]])


def split_test(text: str, at: int) -> str | None:
    """The last assertion becomes a test of its own, with the same preparations."""
    for node, method in _later(_tests(text), at):
        asks = [part for part in node.body if _is_assertion(part)]
        rest = [part for part in node.body if not isinstance(part, (ast.Assign, ast.Expr, ast.Assert))]
        if len(asks) < 2 or rest or node.decorator_list or node.body[-1] is not asks[-1]:
            continue
        first, second = copy.deepcopy(node), copy.deepcopy(node)
        first.body = node.body[:-1]
        second.name += "_too"
        second.body = [part for part in node.body if part not in asks[:-1]]
        del method
        return _swap(text, node, f"{ast.unparse(first)}\n\n\n{ast.unparse(second)}")
    return None


def extract_body(text: str, at: int) -> str | None:
    """The body of a test goes into a function that the test calls."""
    for node, method in _later(_tests(text), at):
        if method or node.args.args or node.decorator_list:
            continue
        inner = copy.deepcopy(node)
        inner.name = f"_shows_{node.name.removeprefix('test_')}"
        return _swap(text, node, f"{ast.unparse(inner)}\n\n\ndef {node.name}():\n    {inner.name}()")
    return None


def assertion_helper(text: str, at: int) -> str | None:
    """Equalities are asked by a helper."""
    for node, method in _later(_tests(text), at):
        changed = copy.deepcopy(node)
        if method:
            count = _each_call(
                changed, "assertEqual", lambda one: ast.parse(f"self._is({_args(one)})", mode="eval").body
            )
            helper = "def _is(self, found, wanted):\n    self.assertEqual(found, wanted)\n\n"
        else:
            count = _each_equality(changed, lambda left, right: f"_is({ast.unparse(left)}, {ast.unparse(right)})")
            helper = "def _is(found, wanted):\n    assert found == wanted\n\n\n"
        if count:
            return _swap(text, node, helper + ast.unparse(changed))
    return None


def unittest_to_assert(text: str, at: int) -> str | None:
    """`self.assertEqual(a, b)` becomes `assert a == b`."""
    for node, method in _later(_tests(text), at):
        changed = copy.deepcopy(node)
        body = []
        count = 0
        for part in changed.body:
            call = part.value if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call) else None
            if method and call is not None and ast.unparse(call.func) == "self.assertEqual" and len(call.args) == 2:
                left, right = (ast.unparse(one) for one in call.args)
                body += ast.parse(f"assert {left} == {right}").body
                count += 1
            else:
                body.append(part)
        if count:
            changed.body = body
            return _swap(text, node, ast.unparse(changed))
    return None


def _table(node: Function) -> tuple[str, list[tuple[str, str]]] | None:
    """The function and the rows of a test whose every line is `assert f(…) == …` with one f."""
    rows, callee = [], ""
    for part in _docless(node):
        test = part.test if isinstance(part, ast.Assert) else None
        if (
            not isinstance(test, ast.Compare)
            or not isinstance(test.ops[0], ast.Eq)
            or not isinstance(test.left, ast.Call)
        ):
            return None
        call = test.left
        name = ast.unparse(call.func)
        if call.keywords or (callee and name != callee) or any(isinstance(one, ast.Starred) for one in call.args):
            return None
        callee = name
        rows.append((f"({', '.join(ast.unparse(one) for one in call.args)},)", ast.unparse(test.comparators[0])))
    return (callee, rows) if len(rows) > 1 else None


def parametrize(text: str, at: int) -> str | None:
    """Assertions about one function become a table."""
    for node, method in _later(_tests(text), at):
        found = None if method or node.args.args or node.decorator_list else _table(node)
        if found:
            rows = ", ".join(f"({words}, {wanted})" for words, wanted in found[1])
            new = f'import pytest\n\n\n{_AT}pytest.mark.parametrize(("words", "wanted"), [{rows}])\ndef {node.name}(words, wanted):\n    assert {found[0]}(*words) == wanted'
            return _swap(text, node, new)
    return None


def loop(text: str, at: int) -> str | None:
    """Assertions about one function become a loop."""
    for node, method in _later(_tests(text), at):
        found = None if method or node.args.args or node.decorator_list else _table(node)
        if found:
            rows = ", ".join(f"({words}, {wanted})" for words, wanted in found[1])
            new = f"def {node.name}():\n    for words, wanted in [{rows}]:\n        assert {found[0]}(*words) == wanted"
            return _swap(text, node, new)
    return None


def fixture(text: str, at: int) -> str | None:
    """What a test prepares first becomes a fixture."""
    for node, method in _later(_tests(text), at):
        first = node.body[0]
        plain = isinstance(first, ast.Assign) and len(first.targets) == 1 and isinstance(first.targets[0], ast.Name)
        if method or not plain or node.args.args or node.decorator_list or _names(first.value) & _stored(node):
            continue
        name = first.targets[0].id
        changed = copy.deepcopy(node)
        changed.body = changed.body[1:]
        if not any(_is_assertion(part) for part in changed.body) or any(name in _stored(part) for part in changed.body):
            continue
        changed.args.args = [ast.arg(name)]
        new = f"import pytest\n\n\n{_AT}pytest.fixture\ndef {name}():\n    return {ast.unparse(first.value)}\n\n\n{ast.unparse(changed)}"
        return _swap(text, node, new)
    return None


def into_class(text: str, at: int) -> str | None:
    """Two tests stand in a class."""
    for node, method in _later(_tests(text), at):
        if method or node.decorator_list:
            continue
        inner = copy.deepcopy(node)
        inner.args.args = [ast.arg("self"), *inner.args.args]
        return _swap(text, node, f"class TestTogether:\n{textwrap.indent(ast.unparse(inner), '    ')}")
    return None


def written_anew(text: str, at: int) -> str | None:
    """The same program without comments, in another layout."""
    del at
    return ast.unparse(ast.parse(text)) + "\n"


def name_value(text: str, at: int) -> str | None:
    """The left side of an assertion gets a name first."""
    for node, method in _later(_tests(text), at):
        del method
        changed = copy.deepcopy(node)
        body: list[ast.stmt] = []
        for part in changed.body:
            test = part.test if isinstance(part, ast.Assert) else None
            if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Call):
                name = f"found_{len(body)}"
                body += ast.parse(f"{name} = {ast.unparse(test.left)}").body
                test.left = ast.Name(name, ast.Load())
            body.append(part)
        if len(body) > len(changed.body):
            changed.body = body
            return _swap(text, node, ast.unparse(ast.fix_missing_locations(changed)))
    return None


# --- code ------------------------------------------------------------------------------------------------


def rename_local(text: str, at: int) -> str | None:
    """Another name for a local variable."""
    for node in _later(_functions(text), at):
        words = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        free = sorted(_stored(node) - words - _LETTERS)
        if free and not any(isinstance(one, (ast.Global, ast.Nonlocal)) for one in ast.walk(node)):
            changed = copy.deepcopy(node)
            _rename(changed, free[0], f"{free[0]}_here")
            return _swap(text, node, ast.unparse(changed))
    return None


def extract_answer(text: str, at: int) -> str | None:
    """What a function returns is worked out by a function of its own."""
    for node in _later(_functions(text), at):
        last, words = node.body[-1], [one.arg for one in node.args.args]
        plain = not (node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.posonlyargs)
        if plain and isinstance(last, ast.Return) and isinstance(last.value, ast.Call) and words:
            local = _stored(node) - set(words)
            if _names(last.value) & local:
                continue
            changed = copy.deepcopy(node)
            name = f"_{node.name.strip('_')}_answer"
            changed.body[-1] = ast.parse(f"return {name}({', '.join(words)})", mode="exec").body[0]
            helper = f"def {name}({', '.join(words)}):\n    return {ast.unparse(last.value)}"
            return _swap(text, node, f"{helper}\n\n\n{ast.unparse(changed)}")
    return None


def flip_condition(text: str, at: int) -> str | None:
    """If and else change places."""
    found = [
        one
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.If) and one.orelse and not isinstance(one.orelse[0], ast.If) and one.col_offset
    ]
    for node in _later(iter(found), at):
        line = text.splitlines()[node.lineno - 1]
        if line.lstrip().startswith("elif"):
            continue
        changed = ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)
        return _swap(text, node, ast.unparse(ast.fix_missing_locations(changed)))
    return None


def name_answer(text: str, at: int) -> str | None:
    """What a function returns gets a name first."""
    for node in _later(_functions(text), at):
        last = node.body[-1]
        if isinstance(last, ast.Return) and last.value is not None and len(_docless(node)) > 1:
            changed = copy.deepcopy(node)
            changed.body[-1:] = ast.parse(f"answer_of_it = {ast.unparse(last.value)}\nanswer_of_it").body
            changed.body[-1] = ast.Return(ast.Name("answer_of_it", ast.Load()))
            return _swap(text, node, ast.unparse(ast.fix_missing_locations(changed)))
    return None


# --- parts -----------------------------------------------------------------------------------------------


def _later(found: Iterator[Any], at: int) -> list[Any]:
    """From the one at this place on, and round again: different places give different examples."""
    listed = list(found)
    at %= max(len(listed), 1)
    return [*listed[at:], *listed[:at]]


def _is_assertion(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ".assert" in ast.unparse(node.value.func)


def _args(call: ast.Call) -> str:
    return ", ".join(ast.unparse(one) for one in call.args)


def _each_call(node: Function, name: str, new: Callable[[ast.Call], ast.expr]) -> int:
    count = 0
    for part in ast.walk(node):
        call = part.value if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call) else None
        if call is not None and ast.unparse(call.func) == f"self.{name}" and len(call.args) == 2:
            part.value = new(call)
            count += 1
    return count


def _each_equality(node: Function, new: Callable[[ast.expr, ast.expr], str]) -> int:
    count = 0
    for at, part in enumerate(node.body):
        test = part.test if isinstance(part, ast.Assert) else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            node.body[at] = ast.parse(new(test.left, test.comparators[0])).body[0]
            count += 1
    return count
