"""Who commits and with which words: idents, message, trailers, the commit object's bytes."""

from __future__ import annotations

import os
import time

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing.objects import commit_bytes
from handoff.git.plumbing.refs import ident_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.git.plumbing.objects import Repository

_CRUD = " .,:;<>\"\\'\n\t"


class People(Record):
    """Author and committer, each with moment and zone as a commit has them."""

    author: str
    committer: str


def people(repo: Repository, now: float) -> People:
    """The idents git would use; git is asked only where they are not plain settings."""
    return People(_ident(repo, "author", now), _ident(repo, "committer", now))


def _ident(repo: Repository, role: str, now: float) -> str:
    environment, settings = repo.environment, repo.settings
    upper = f"GIT_{role.upper()}_"
    name = environment.get(upper + "NAME") or settings.get(f"{role}.name") or settings.get("user.name")
    email = environment.get(upper + "EMAIL") or settings.get(f"{role}.email") or settings.get("user.email")
    plain = name and email and name == name.strip(_CRUD) and email == email.strip(_CRUD)
    if plain and not environment.get(upper + "DATE") and not set("<>\n") & set(name + email):
        return f"{name} <{email}> {int(now)} {_offset(now)}"
    answer = repo.git("var", f"{upper}IDENT")
    if answer.code:
        raise UserError(
            "git does not know who commits: your name and e-mail are not set.",
            'Set them: git config user.name "Your Name" && git config user.email you@example.com',
        )
    return answer.text.rstrip("\n")


def _offset(moment: float) -> str:
    """The local zone as git writes it: +0200."""
    seconds = time.localtime(moment).tm_gmtoff
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{abs(seconds) // 3600:02d}{abs(seconds) % 3600 // 60:02d}"


def write_message(repo: Repository, parts: Sequence[str], *, signoff: str, trailers: Sequence[str]) -> str:
    """Several parts as paragraphs, tidied as git tidies them, with trailers at the end."""
    text = tidy(repo, "\n\n".join(part.strip("\n") for part in parts))
    lines = list(trailers)
    if signoff:
        lines.append(f"Signed-off-by: {signoff[: signoff.rindex('>') + 1]}")
    if lines:
        words = [word for line in lines for word in ("--trailer", line)]
        text = repo.ask("interpret-trailers", "--no-divider", *words, stdin=text.encode("utf-8", "surrogateescape"))
    return text


def tidy(repo: Repository, text: str, *, edited: bool = False) -> str:
    """git's clean-up of a message: trailing blanks, empty lines at the ends, runs of empty lines."""
    mode = repo.settings.get("commit.cleanup", "default")
    if mode == "verbatim":
        return text
    lines = [line.rstrip() for line in text.split("\n")]
    if mode == "strip" and not edited:
        lines = [line for line in lines if not line.startswith(repo.settings.get("core.commentchar", "#")[:1] or "#")]
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return "\n".join(kept) + "\n" if kept else ""


def check_message(text: str) -> None:
    """An empty message ends the commit, as with git."""
    body = [line for line in text.split("\n") if line.strip() and not line.startswith("Signed-off-by: ")]
    if not body:
        raise UserError("The commit message is empty; nothing was committed.", "Give one: -m 'what and why'")
    if "\0" in text:
        raise UserError("The commit message holds a NUL byte.", "Remove it.")


def write_commit(
    repo: Repository, tree: str, parents: Sequence[str], who: People, message: str, *, sign: str | None
) -> str:
    """Write the commit; a signed one is made by git, which knows the person's keys. `sign` is a key, or empty for the usual."""
    if sign is None:
        encoding = repo.settings.get("i18n.commitencoding", "utf-8")
        data = commit_bytes(
            tree,
            parents,
            message,
            author=who.author,
            committer=who.committer,
            encoding="" if encoding.lower() in ("utf-8", "utf8") else encoding,
        )
        return repo.write("commit", data)
    words = [word for parent in parents for word in ("-p", parent)]
    answer = repo.git(
        *("commit-tree", f"-S{sign}", *words, "-F", "-", tree),
        stdin=message.encode("utf-8", "surrogateescape"),
        **ident_variables("AUTHOR", who.author),
        **ident_variables("COMMITTER", who.committer),
    )
    if answer.code:
        raise UserError(
            f"The commit could not be signed: {answer.error_text}", "Check user.signingkey, or use --no-gpg-sign."
        )
    return answer.text.strip()


def author_of(commit: bytes) -> str:
    """The author line of a commit object."""
    for line in commit.split(b"\n\n", 1)[0].split(b"\n"):
        if line.startswith(b"author "):
            return line[7:].decode("utf-8", "surrogateescape")
    return ""


def words_of(commit: bytes) -> str:
    """The message of a commit object."""
    return commit.partition(b"\n\n")[2].decode("utf-8", "surrogateescape")


def read_message_file(path: str, cwd: str, stdin: bytes) -> str:
    """The text of `-F`; `-` is standard input."""
    if path == "-":
        return stdin.decode("utf-8", "surrogateescape")
    try:
        with open(os.path.join(cwd, path), "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UserError(f"Cannot read the message from {path}: {error.strerror}.") from error
