"""`handoff check`: the project's test suites, run on an exact tree, with a verdict for each test."""

from __future__ import annotations

from handoff.agents.sandbox.sandbox import NOTHING
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.checks.suite import plain_command
from handoff.engine.place.proof import test_runs as engine
from handoff.engine.place.proof.sandboxes import present_layer
from handoff.surfaces.cli.command import Command, flag, option

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from handoff.checks.results import Report
    from handoff.checks.suite import Suite
    from handoff.surfaces.cli.command import Context, Parser

_SHOWN = 50


def _arguments(parser: Parser) -> None:
    option(parser, "--suite NAME", "run this suite only (may be repeated)", [])
    option(parser, "--tree COMMIT", "run on this commit or tree instead of the files as they are now")
    flag(parser, "--list", "only show which suites there are and how they are run")
    flag(parser, "--all", "show every test, not only those that are not green")
    option(parser, "--timeout SECONDS", "how long a suite may take (default: check_timeout)", 0.0)
    flag(parser, "--no-sandbox", "run them without the sandbox that keeps their code inside its folder")


def _check(ctx: Context, arguments: Namespace) -> int:
    if arguments.list:
        found = engine.chosen(engine.suites_here(ctx.app), arguments.suite)
        ctx.out.data([suite.record() for suite in found])
        _list(ctx, found)
        return 0
    tree, reports = engine.check(
        ctx.app,
        names=arguments.suite,
        tree=arguments.tree,
        timeout=arguments.timeout,
        sandboxed=not arguments.no_sandbox,
    )
    if arguments.no_sandbox or present_layer(ctx.app) == NOTHING:
        ctx.out.warning("the tests ran with all your rights: no sandbox kept them inside their folder.")
    green = all(report.green for report in reports)
    ctx.out.data({"green": green, "tree": tree, "suites": [report.record() for report in reports]})
    for report in reports:
        _show(ctx, report, everything=arguments.all)
    total = sum(len(report.cases) for report in reports)
    if green:
        ctx.out.line(
            f"Green: {number_of(total, 'test')}" + (f" in {len(reports)} suites." if len(reports) > 1 else "."), "good"
        )
    else:
        bad = sum(case.bad for report in reports for case in report.cases)
        ctx.out.line(f"Red: {bad} of {number_of(total, 'test')}." if bad else "Red.", "bad")
    return 0 if green else 1


def _list(ctx: Context, suites: Sequence[Suite]) -> None:
    for suite in suites:
        ctx.out.line(suite.name, "strong")
        ctx.out.line(f"  in {suite.folder or '.'}: {plain_command(suite.command)}")
        how = "its exit code alone" if suite.results == "exit" else f"the reader '{suite.results}'"
        ctx.out.line(f"  judged by {how}; tests: {' '.join(suite.tests) or 'not known'}")


def _show(ctx: Context, report: Report, *, everything: bool) -> None:
    counts = ", ".join(f"{number} {status}" for status, number in report.counts().items() if number)
    ctx.out.line(f"{report.suite}: {counts or 'no tests by name'} in {report.seconds:.1f} s", "strong")
    styles = {"passed": "good", "failed": "bad", "error": "bad", "skipped": "dim"}
    shown = [case for case in report.cases if everything or case.bad]
    for case in shown[: None if everything else _SHOWN]:
        why = f" ({case.reason})" if case.reason else ""
        ctx.out.line(f"  {ctx.out.style(case.status, styles[case.status])}{why} {case.id.partition(':')[2]}")
        for line in case.message.splitlines()[:3] if case.bad else ():
            ctx.out.line(f"      {line}", "dim")
    if len(shown) > _SHOWN and not everything:
        ctx.out.line(f"  and {len(shown) - _SHOWN} more; --all shows them")
    if report.trouble:
        ctx.out.line(f"  {report.trouble}", "bad")
        for line in report.tail.splitlines()[-15:]:
            ctx.out.line(f"      {line}", "dim")


_EPILOG = """Suites are found by the files of your project, or named in .handoff/config.toml:

  [checks.unit]
  command = "pytest --junitxml={results}"
  tests = ["tests/"]

The tests run in a clean folder that holds exactly the tree, inside the sandbox; your checkout is not touched."""

COMMANDS = {"check": Command(_arguments, _check, epilog=_EPILOG)}
