"""The clients' own records of their conversations: where they lie and what their lines say of tokens. Nothing in them is changed.

They belong to the clients and change with their versions, so that a line which is not understood is passed by. What a session in a
sandbox puts in their place is only ever read as text: no link is followed, nothing but a file is opened."""

from __future__ import annotations

import os
import stat
from glob import escape, iglob

from handoff.agents.contract import Usage, number, parse_line
from handoff.agents.history.stores.table import store_root
from handoff.base.clock import stamp
from handoff.base.errors import UserError
from handoff.base.files import make_folder, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.store.foreign import empty_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_IN_THE_WORK = "--input-history-file /dev/null --no-gitignore --no-auto-commits --no-dirty-commits --map-tokens 0"
"""What keeps aider from leaving files of its own between those of the task."""
_FILES = {
    "claude": ("projects/*/{id}.jsonl", "projects/*/{id}/subagents/*.jsonl"),
    "codex": ("sessions/*/*/*/rollout-*{id}*.jsonl",),
    "gemini": ("tmp/*/chats/session-*-{short}*.jsonl",),
    "copilot": ("session-state/{id}/events.jsonl",),
    "qwen": ("projects/*/chats/{id}.jsonl",),
}
"""By client: the files of a conversation in its store."""
_APART = {
    "aider": (("aider-chat.md",), ("--chat-history-file", "{path}", *_IN_THE_WORK.split())),
    "opencode": (("opencode/opencode.db", "opencode/share/opencode/opencode.db"), ("env", "OPENCODE_DB={path}")),
}
"""By client: where in its session's folder a conversation lies that is in no store, and the words that name it to the client."""
_NOT_THE_PERSONS = ("permission", "account", "account_state", "control_account", "credential")
"""Tables of opencode in which a session could leave what its client would obey: approvals and logins."""
_SIGNS = (b'"usage"', b'"token_count"', b'"turn_context"', b'"tokens"')
_CHUNK = 1 << 20
_LONGEST = 1 << 26
MOST_CARRIED = 256 * _CHUNK
"""A session in a sandbox writes its record itself, and may write without end."""
_SHORT = 8
_MILLISECONDS = 1000


def places(client: str, environment: Mapping[str, str]) -> list[str]:
    """The files in which a client keeps its conversation, as patterns; none for a client that is not known to keep one."""
    root = store_root(client, environment) if client in _FILES else ""
    return [os.path.join(escape(root), file) for file in _FILES.get(client, ())]


class RecordReader:
    """The records of one session, read as they grow: what was written in it before this session began is not its own."""

    def __init__(self, patterns: list[str], *, began: float) -> None:
        self._patterns = patterns
        self._since = f"{stamp(began)[:-1]}.{int(began % 1 * _MILLISECONDS):03d}Z"
        self._read: dict[str, int] = {}

    def new(self, conversation: str) -> Iterator[Usage]:
        """What was used since the last look."""
        for path in _files_of(self._patterns, conversation):
            for line in self._lines(path):
                for use in uses(line):
                    if not use.at or use.at >= self._since:
                        yield use

    def _lines(self, path: str) -> Iterator[str]:
        rest = b""
        for data in _chunks(path, self._read.get(path, 0)):
            *lines, rest = (rest + data).split(b"\n")
            self._read[path] = self._read.get(path, 0) + sum(len(line) + 1 for line in lines)
            yield from (line.decode("utf-8", "replace") for line in lines if any(sign in line for sign in _SIGNS))
            if len(rest) >= _LONGEST:
                return


def carry(client: str, patterns: list[str], conversation: str, environment: Mapping[str, str]) -> bool:
    """Put a conversation that lies elsewhere into the person's own store, where their client finds it; whether it is there."""
    own = places(client, environment)[:1]
    for path in _files_of(patterns[:1], conversation) if own and not _files_of(own, conversation) else ():
        below = path.split(os.sep)[-len(_FILES[client][0].split("/")) :]
        target = os.path.join(store_root(client, environment), *below)
        _copy(path, target)
    return bool(_files_of(own, conversation))


def carry_apart(client: str, words: list[str], folder: str, target: str) -> list[str]:
    """The words with the conversation that a client keeps in its session's folder alone, copied where no session can write.

    What the person went on with there stays; nothing where the session kept none."""
    files, more = _APART.get(client, ((), ()))
    for name in files:
        copy = os.path.join(target, os.path.basename(name))
        if not os.path.exists(copy) and _copy(os.path.join(folder, name), copy) and copy.endswith(".db"):
            _copy(os.path.join(folder, f"{name}-wal"), f"{copy}-wal")
            empty_tables(copy, _NOT_THE_PERSONS)
        if os.path.exists(copy):
            told = [word.replace("{path}", copy) for word in more]
            return [*told, *words] if told[0] == "env" else [*words, *told]
    return []


def _copy(path: str, target: str) -> bool:
    text = bytearray()
    for data in _chunks(path, 0):
        text += data
        if len(text) > MOST_CARRIED:
            most = f"has more than {MOST_CARRIED // _CHUNK} MB"
            raise UserError(f"The record of its conversation {most}, so it is not opened.", f"It lies in {path}")
    if text:
        make_folder(os.path.dirname(target), mode=0o700)
        write_atomic(target, bytes(text), mode=0o600)
    return bool(text)


def _files_of(patterns: list[str], conversation: str) -> list[str]:
    bare = "".join(char for char in conversation if char.isalnum() or char in "-_")
    named = [pattern.replace("{id}", bare).replace("{short}", bare[:_SHORT]) for pattern in patterns if bare]
    return [path for pattern in named for path in iglob(pattern)]


def _chunks(path: str, since: int) -> Iterator[bytes]:
    """What stands in a record from there on. What a session in a sandbox made may be a pipe that nobody writes into, or lead elsewhere."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):
            os.lseek(file, since, os.SEEK_SET)
            while data := os.read(file, _CHUNK):
                yield data
    finally:
        os.close(file)


def uses(line: str) -> tuple[Usage, ...]:
    """What a line of a record says of tokens. Each client has lines of a shape that no other one has."""
    try:
        row = parse_line(line)
        for read in (_claude, _codex, _gemini, _copilot):
            found = read(row)
            if found is not None:
                return (found,)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()  # another version's
    return ()


def of_claude(told: Mapping[str, Any], **more: Any) -> Usage:
    """The usage of one answer, as Claude's API writes it."""
    written = _count(told, "cache_creation_input_tokens")
    return Usage(
        input=_count(told, "input_tokens") + written,
        cached=_count(told, "cache_read_input_tokens"),
        output=_count(told, "output_tokens"),
        reasoning=_count(told.get("output_tokens_details") or {}, "thinking_tokens"),
        written=written,
        **more,
    )


def of_openai(told: Mapping[str, Any], names: str, **more: Any) -> Usage:
    """Counts of which the input holds what was cached and the output what was reasoned, by the names of these four."""
    whole, cached, output, reasoning = (_count(told, name) for name in names.split())
    return Usage(input=max(0, whole - cached), cached=cached, output=output, reasoning=reasoning, **more)


def _count(told: Mapping[str, Any], name: str) -> int:
    return max(0, int(number(told.get(name))))


def _claude(row: dict[str, Any]) -> Usage | None:
    if row.get("type") != "assistant" or "message" not in row:
        return None
    message = row["message"]
    return of_claude(message["usage"], model=message["model"], key=message["id"], at=row["timestamp"])


def _codex(row: dict[str, Any]) -> Usage | None:
    body = row.get("payload")
    if not isinstance(body, dict):
        return None
    if row["type"] == "turn_context":
        return Usage(model=str(body["model"]), at=row["timestamp"])
    if body.get("type") != "token_count":
        return None
    told, so_far = body["info"]["last_token_usage"], body["info"]["total_token_usage"]
    names = "input_tokens cached_input_tokens output_tokens reasoning_output_tokens"
    # The same count is written again whenever a limit of the provider changes.
    return of_openai(told, names, key=str(so_far["total_tokens"]), at=row["timestamp"])


def _gemini(row: dict[str, Any]) -> Usage | None:
    if row.get("type") != "gemini" or not row.get("tokens"):
        return None
    told, thought = row["tokens"], _count(row["tokens"], "thoughts")
    found = of_openai(told, "input cached output thoughts", model=row["model"], key=row["id"], at=row["timestamp"])
    return found._replace(output=found.output + thought)


def _copilot(row: dict[str, Any]) -> Usage | None:
    if row.get("type") != "session.usage_record":
        return None
    told = row["data"]["usage"]
    names = "inputTokens cacheReadTokens outputTokens reasoningTokens"
    return of_openai(told, names, model=told["model"], key=row["id"], at=row["timestamp"])
