"""The project's own files, read as text and as syntax trees, for the tests of the house."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "src", "handoff")
_NOT_OURS = {".git", ".venv", "__pycache__", "build", "dist", "node_modules"}


class Module(NamedTuple):
    """One Python file: its name inside the package or the project, its text, its tree, and every node of it."""

    name: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @classmethod
    def of(cls, name: str, text: str) -> Module:
        tree = ast.parse(text, name)
        return cls(name, text, tree, tuple(ast.walk(tree)))


def read(name: str) -> str:
    """A file of the project as text."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


@cache
def package_modules() -> tuple[Module, ...]:
    """Every Python file of the package, named like `base/process.py`."""
    return tuple(_modules(PACKAGE, PACKAGE))


@cache
def modules_of_tests() -> tuple[Module, ...]:
    """Every Python file under tests/, named from the top of the project."""
    return tuple(_modules(os.path.join(ROOT, "tests"), ROOT))


def _modules(folder: str, base: str) -> Iterator[Module]:
    for path in sorted(_walk(folder)):
        if path.endswith(".py"):
            with open(path, encoding="utf-8") as file:
                yield Module.of(os.path.relpath(path, base), file.read())


@cache
def project_files() -> tuple[str, ...]:
    """What git knows or would add; in an unpacked archive, every file that is not somebody's output."""
    listing = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, capture_output=True, check=False)
    if done.returncode == 0:
        names = done.stdout.decode("utf-8", "surrogateescape").split("\0")
        return tuple(sorted(name for name in names if name and os.path.isfile(os.path.join(ROOT, name))))
    return tuple(sorted(os.path.relpath(path, ROOT) for path in _walk(ROOT)))


def _walk(folder: str) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_OURS and not name.startswith(".venv")]
        for name in names:
            yield os.path.join(at, name)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, inner ones too."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(module: Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything a module imports, wherever the import stands."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def dotted(node: ast.expr) -> str:
    """`os.environ` for the expression that says so; nothing for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = dotted(node.value)
        return f"{front}.{node.attr}" if front else ""
    return ""


PROGRAM = "\0handoff"
"""Stands in a literal where the name goes by which the person calls us."""


def literals(tree: ast.AST) -> list[tuple[int, str]]:
    """Every text of a module but its docstrings: our name where it is put in, `X` for everything else that is."""
    notes = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts = {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in node.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = [
                str(one.value) if isinstance(one, ast.Constant)
                else PROGRAM if ast.unparse(one.value).rpartition(".")[2] in ("program", "plain") else "X"
                for one in node.values
            ]  # fmt: skip
            found.append((node.lineno, re.sub(r"(?<=[a-z])X", " X", "".join(words))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (notes | parts):
            found.append((node.lineno, node.value))
    return found
