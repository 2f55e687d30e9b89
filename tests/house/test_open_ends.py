"""Nothing is left open: no stubs, no promises, no tests that do not run."""

from __future__ import annotations

import ast
import re

from source import dotted, functions, modules_of_tests, package_modules, project_files, read

PROMISES = re.compile(r"\b(TODO|FIXME|XXX|HACK|not yet implemented)\b")
TEXT = (
    ".py",
    ".md",
    ".toml",
    ".sh",
    ".sql",
    ".yml",
    ".yaml",
    ".cfg",
    ".ini",
    ".html",
    ".js",
    ".css",
    "Makefile",
    "run",
)
FORBIDDEN_IN_TESTS = ("unittest.mock", "mock", "pytest_mock")
PASSING_BY = ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail", "pytest.xfail", "pytest.importorskip")


def test_no_file_promises_to_be_finished_later():
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in project_files()
        if name.endswith(TEXT) and name != "tests/house/test_open_ends.py"
        for number, line in enumerate(read(name).splitlines(), 1)
        if PROMISES.search(line)
    ]
    assert not found, "\n".join(found)


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and line.value.value is Ellipsis)
        for line in body
    )


def _declarations(tree: ast.Module) -> set[ast.AST]:
    """Methods of protocols, and overloads: they have no body by nature."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(dotted(base).split(".")[-1] == "Protocol" for base in node.bases):
            found.update(node.body)
        if isinstance(node, ast.FunctionDef) and any(dotted(mark) == "overload" for mark in node.decorator_list):
            found.add(node)
    return found


def _empty_on_purpose(tree: ast.Module) -> set[ast.AST]:
    """Methods of a stand-in for somebody else's class, and closing methods, that say who does the work instead."""
    return {
        method
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        and ast.get_docstring(method)
        and (node.name.startswith("_") or method.name.startswith("__"))
    }


def test_no_function_is_a_stub():
    stubs = []
    for module in package_modules():
        declared = _declarations(module.tree)
        empty_on_purpose = _empty_on_purpose(module.tree)
        stubs += [
            f"{module.name}:{node.lineno} {node.name}"
            for node in functions(module)
            if node not in declared and _is_stub(node) and node not in empty_on_purpose
        ]
        stubs += [
            f"{module.name}:{node.lineno} raises NotImplementedError"
            for node in module.nodes
            if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node)
        ]
    assert not stubs, stubs


def test_no_test_is_passed_by():
    found = [
        f"{module.name}:{node.lineno} {dotted(node)}"
        for module in modules_of_tests()
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and (
            dotted(node) in PASSING_BY or (dotted(node) == "pytest.skip" and module.name != "tests/support/sandbox.py")
        )
    ]
    assert not found, f"something absent goes through sandbox.absent: {found}"


def test_no_test_replaces_our_code():
    found = []
    for module in modules_of_tests():
        for node in module.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                )
                found += [f"{module.name}:{node.lineno} {name}" for name in names if name in FORBIDDEN_IN_TESTS]
            if isinstance(node, ast.Attribute) and dotted(node) in ("monkeypatch.setattr", "mocker.patch"):
                found.append(f"{module.name}:{node.lineno} {dotted(node)}")
    assert not found, f"test with the real thing: {found}"


def test_test_names_are_sentences():
    short = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in modules_of_tests()
        if module.name.rsplit("/", 1)[-1].startswith("test_")
        for node in functions(module)
        if node.name.startswith("test_") and node.name.count("_") < 2
    ]
    assert not short, short


def test_a_suppressed_rule_has_its_reason_or_its_code():
    blanket = [
        f"{module.name}:{number}"
        for module in package_modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        if re.search(r"#\s*noqa(?!:)|#\s*type:\s*ignore(?!\[)", line)
    ]
    assert not blanket, blanket
