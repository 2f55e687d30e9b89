"""A sealed run: the runner started clean by our launcher, its results line by line under a key, complete only with its last mark."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shlex

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks import results
from handoff.checks.readers.json_reports import last_words
from handoff.checks.readers.reasons import python_reason
from handoff.checks.readers.xml_reports import pytest_words
from handoff.checks.results import Flaw
from handoff.checks.runs.broken import CUT_SHORT, FORGED, Broken
from handoff.checks.runs.canaries import FORGIVEN, KILLED, place_canaries
from handoff.checks.support.owned import files_below, helper_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from handoff.checks.readers.found import RunOutput
    from handoff.checks.results import Case
    from handoff.checks.runs.canaries import Canary
    from handoff.checks.suite import Suite

PATCHED, ALTERED, HOOK = "runner-patched", "result-altered", "hook-added"
CHANNEL = "{channel}"
_SEAL = 64
_PYTHONS = ("{python}", "python", "python3")
_SHELL = frozenset(";&|<>$`(){}*?\n") - {"{", "}"}
_OWN = ("--junitxml", "--junit-xml")


class SealedJob(Record):
    """One sealed run: what the launcher is told, and the canaries it will meet."""

    key: bytes
    told: Mapping[str, Any]
    canaries: tuple[Canary, ...]

    def line(self) -> bytes:
        """What the launcher reads from its standard input."""
        return json.dumps({**self.told, "key": self.key.hex()}).encode("ascii") + b"\n"


def runner_words(suite: Suite) -> list[str] | None:
    """The words for pytest where the suite's line is nothing but a call of it; None where it cannot be sealed."""
    if suite.results != "pytest" or set(suite.command.replace("{python}", "").replace("{results}", "")) & _SHELL:
        return None
    try:
        words = shlex.split(suite.command)
    except ValueError:
        return None
    if words[1:3] == ["-m", "pytest"] and words[0] in _PYTHONS:
        words = words[3:]
    elif words[:1] == ["pytest"]:
        words = words[1:]
    else:
        return None
    kept: list[str] = []
    for word in words:
        if word.startswith(_OWN):
            continue
        if word.startswith("junit_family=") and kept[-1:] == ["-o"]:
            kept.pop()
            continue
        kept.append(word)
    return kept if "{results}" not in " ".join(kept) else None


def prepare(
    words: Sequence[str],
    *,
    folder: str,
    top: str,
    scratch: str,
    lender: str,
    owned: Sequence[str],
    runner: str = "pytest",
) -> SealedJob:
    """Canaries in their places, a fresh key, and what the launcher has to know."""
    source = os.path.join(folder, "src")
    told = {
        "runner": runner,
        "tree": top,
        "lender": lender,
        "words": list(words),
        "owned": list(owned),
        "path": [source, folder] if os.path.isdir(source) else [folder],
        "support": helper_names(files_below(folder)),
        "cache": os.path.join(scratch, f"cache-{os.urandom(4).hex()}"),
    }
    return SealedJob(os.urandom(32), told, tuple(place_canaries(folder, classes=runner == "unittest")))


def looking(suite: Suite, job: SealedJob) -> SealedJob:
    """The same job with what is to be looked at inside the runner."""
    return job._replace(told={**job.told, "inside": [list(one) for one in suite.inside]})


def prepare_plain(suite: Suite, job: SealedJob) -> SealedJob:
    """The same start for functions that are to run without a runner: no canaries, no words."""
    for canary in job.canaries:
        os.unlink(os.path.join(str(job.told["path"][-1]), canary.path))
    told = {**job.told, "runner": "plain", "plain": [list(one) for one in suite.plain], "later": suite.later}
    return job._replace(told=told, canaries=())


def open_lines(said: bytes, job: SealedJob, code: int) -> list[dict[str, Any]]:
    """The bodies of the lines, each under its seal and in its order, up to the runner's closing mark."""
    *whole, rest = said.split(b"\n")
    bodies: list[dict[str, Any]] = []
    for number, line in enumerate(whole):
        text = line[_SEAL + 1 :]
        seal = hmac.new(job.key, text, hashlib.sha256).hexdigest().encode("ascii")
        if not hmac.compare_digest(seal, line[:_SEAL]):
            raise Broken(FORGED, "something else than the runner wrote into its results")
        counted, body = json.loads(text)
        if counted != number:
            raise Broken(FORGED, "lines of the results are missing or stand there twice")
        bodies.append(body)
    last = bodies[-1] if bodies else {}
    if last.get("t") != "end" or rest:
        where = next((body["id"] for body in reversed(bodies) if body["t"] == "case"), "")
        after = f" after {where}" if where else ""
        raise Broken(CUT_SHORT, f"the run ended{after} without the runner's last word (exit {code})")
    if last.get("exit", code) != code:
        raise Broken(FORGED, f"the runner ended with {last['exit']}, its process with {code}")
    return bodies


class _Seen:
    """The lines about one test, brought together."""

    def __init__(self) -> None:
        self.status, self.text, self.raw, self.seconds, self.held = "", "", "", 0.0, 0
        self.called: tuple[str, ...] = ()
        self.emptied = 0

    def take(self, body: Mapping[str, Any]) -> None:
        self.seconds += float(body["seconds"])
        outcome, when = body["outcome"], body["when"]
        status = results.PASSED if outcome == "passed" else results.SKIPPED if outcome == "skipped" else results.FAILED
        if status == results.FAILED and when != "call":
            status = results.ERROR
        if _WEIGHT[status] >= _WEIGHT.get(self.status, -1):
            self.status, self.text = status, str(body["text"])
        if when == "call":
            self.raw, self.held = str(body["raw"]), int(body["held"])
            self.called, self.emptied = tuple(body["called"]), int(body["emptied"])


_WEIGHT = {results.PASSED: 0, results.SKIPPED: 1, results.FAILED: 2, results.ERROR: 2}


def read_sealed(bodies: Iterable[Mapping[str, Any]], job: SealedJob, found: RunOutput) -> tuple[list[Case], list[Flaw]]:
    """The cases without our canaries, and what about the run is not as it must be."""
    shorten = last_words if job.told.get("runner") == "unittest" else pytest_words
    seen: dict[str, _Seen] = {}
    loads: list[Mapping[str, Any]] = []
    flaws: list[Flaw] = []
    opinions: list[Case] = []
    for body in bodies:
        if body["t"] == "case":
            seen.setdefault(body["id"], _Seen()).take(body)
        elif body["t"] == "opinion":
            status = results.FAILED if body["kind"] else results.PASSED
            opinions.append(
                results.Case(
                    id=str(body["id"]),
                    file="",
                    name="",
                    status=status,
                    reason=str(body["kind"]),
                    message=str(body["text"]),
                )
            )
        elif body["t"] == "load":
            loads.append(body)
        elif body["t"] == "hooks":
            flaws += [_hook(name) for name in body["names"]]
        elif body["t"] == "patched":
            flaws += [
                Flaw(PATCHED, name, f"{name} of the test runner was replaced while the tests ran")
                for name in body["names"]
            ]
        elif body["t"] == "fault":
            raise Broken(CUT_SHORT, "the runner broke: " + str(body["text"]).strip().rpartition("\n")[2])
    flaws += _canary_flaws(job.canaries, seen)
    ours = {canary.path.replace(os.sep, "/") for canary in job.canaries}
    cases = [_loaded(found, body, shorten) for body in loads if body["id"] not in ours]
    for name, one in seen.items():
        file, _, inner = name.partition("::")
        if file in ours:
            continue
        if one.status == results.PASSED and one.raw:
            flaws.append(Flaw(ALTERED, name, f"{name} raised {one.raw} and was reported as passed"))
        bad = one.status in (results.FAILED, results.ERROR)
        reason = python_reason(one.text, loading=False, foreign=found.foreign, is_test=found.tests) if bad else ""
        message = shorten(one.text) if bad else one.text
        case = found.case(found.path(file), inner, one.status, reason, message, one.seconds)
        cases.append(case._replace(held=one.held, called=one.called, emptied=one.emptied))
    return [*cases, *opinions], flaws


def _loaded(found: RunOutput, body: Mapping[str, Any], shorten: Callable[[str], str]) -> Case:
    """A file, or a class in it, that did not load or skipped itself."""
    file, text = str(body["id"]).partition("::")[0], str(body["text"])
    if body["outcome"] == "skipped":
        return found.case(found.path(file), "", results.SKIPPED, message=text)
    reason = python_reason(text, loading=True, foreign=found.foreign, is_test=found.tests)
    return found.case(found.path(file), "", results.ERROR, reason, shorten(text))


def _hook(name: str) -> Flaw:
    file, hook, _ = name.rsplit(":", 2)
    return Flaw(HOOK, name, f"{file} has the hook {hook}, which decides what becomes of results")


def _canary_flaws(canaries: Sequence[Canary], seen: Mapping[str, _Seen]) -> list[Flaw]:
    """A wrong test that was not called wrong, and canaries that vanished where other tests of their folder ran."""
    flaws = []
    ours = {canary.path.replace(os.sep, "/") for canary in canaries}
    alive = {os.path.dirname(name.partition("::")[0]) for name in seen if name.partition("::")[0] not in ours}
    for canary in canaries:
        at = canary.folder.replace(os.sep, "/")
        path = canary.path.replace(os.sep, "/")
        right, wrong = seen.get(f"{path}::{canary.right}"), seen.get(f"{path}::{canary.wrong}")
        place = at or "the top folder"
        if wrong is not None and wrong.status != results.FAILED:
            flaws.append(Flaw(FORGIVEN, at, f"a test of ours in {place} that is wrong was called {wrong.status}"))
        elif at in alive and (wrong is None or right is None or right.status != results.PASSED):
            flaws.append(Flaw(KILLED, at, f"a test of ours in {place} did not run as it must"))
    return flaws
