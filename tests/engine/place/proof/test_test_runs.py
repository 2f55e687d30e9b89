"""Suites run for real on exact trees: red, green and refactor in five languages, and every way to cheat."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from handoff.base.errors import UserError
from handoff.checks import judge
from handoff.checks.findings import FLAKY, KNOWN_FAILURE, Baseline
from handoff.engine.place.proof import test_runs as engine
from sandbox import absent
from suites import JAVA, JUNIT_JARS, NODE, PYTHON, RUST, UNITTEST, Project, codes, use_this_python


@pytest.fixture(autouse=True)
def _this_python(_own_home, monkeypatch):
    use_this_python(monkeypatch)


KNOWN: list[Baseline] = []


@pytest.fixture
def project(repo):
    """A Python project whose tests are known to pass: the tree is the same each time, and so is what is known of it."""
    made = Project(repo, PYTHON)
    if not KNOWN:
        made.know()
        KNOWN.append(made.known)
    made.known = KNOWN[0]
    return made


NEW_TEST = """
    def test_multiplies():
        import calc
        assert calc.mul(2, 3) == 6
    """
NEW_CODE = "\ndef mul(a, b):\n    return a * b\n"
TESTS = "tests/test_calc.py"
SKIP = """from pytest import mark


@mark.skip
"""
NEW = "pytest:tests/test_calc.py::test_multiplies"


# --- a cycle ------------------------------------------------------------------------------------------


def test_a_whole_cycle_is_accepted_in_python(project):
    red = project.phase("red", project.add(TESTS, NEW_TEST))
    assert (red.ok, red.new) == (True, (NEW,)), red.findings
    green = project.phase("green", project.add("calc.py", NEW_CODE), new=red.new)
    assert green.ok, green.findings
    tidied = project.read(TESTS).replace("import calc\n        assert", "import calc\n\n        assert")
    refactored = project.phase(
        "refactor", {"calc.py": project.read("calc.py").replace("a * b", "b * a"), TESTS: tidied}
    )
    assert refactored.ok, refactored.findings
    assert NEW in project.known.passing


def test_a_missing_import_at_the_head_of_a_known_test_file_is_red(project):
    text = project.read(TESTS).replace("import add", "import add, mul")
    red = project.phase("red", {TESTS: text + "\ndef test_multiplies():\n    assert mul(2, 3) == 6\n"})
    assert (red.ok, red.new) == (True, (NEW,)), red.findings
    green = project.phase("green", project.add("calc.py", NEW_CODE), new=red.new)
    assert green.ok, green.findings


def test_a_first_test_of_a_module_that_does_not_exist_is_red(repo):
    project = Project(repo, {"pytest.ini": "[pytest]\n"})
    project.know()
    red = project.phase(
        "red", {"tests/test_shop.py": "from shop import buy\n\ndef test_buys():\n    assert buy() == 1\n"}
    )
    assert (red.ok, red.new) == (True, ("pytest:tests/test_shop.py::test_buys",)), red.findings
    green = project.phase("green", {"shop.py": "def buy():\n    return 1\n"}, new=red.new)
    assert green.ok, green.findings


def test_a_whole_cycle_is_accepted_with_unittest(repo):
    project = Project(repo, UNITTEST)
    project.know()
    assert project.known.passing == {"unittest:test_calc.py::Adding::test_adds"}
    more = "\n    def test_multiplies(self):\n        self.assertEqual(calc.mul(2, 3), 6)\n"
    red = project.phase("red", {"test_calc.py": project.read("test_calc.py") + more})
    assert (red.ok, red.new) == (True, ("unittest:test_calc.py::Adding::test_multiplies",)), red.findings
    green = project.phase("green", project.add("calc.py", NEW_CODE), new=red.new)
    assert green.ok, green.findings


def test_a_unittest_file_that_does_not_parse_is_not_red(repo):
    project = Project(repo, UNITTEST)
    project.know()
    judged = project.phase("red", {"test_more.py": "def test_x(:\n"})
    assert codes(judged) == [judge.WRONG_REASON]
    assert "syntax" in judged.findings[0].message


def test_a_whole_cycle_is_accepted_in_javascript(repo):
    if not shutil.which("node"):
        absent("node")
    project = Project(repo, NODE)
    project.know()
    red = project.phase("red", project.add("test/calc.test.js", '\ntest("multiplies", () => {\n  assert.equal(calc.mul(2, 3), 6);\n});\n'))  # fmt: skip
    assert (red.ok, red.new) == (True, ("node:test/calc.test.js::multiplies",)), red.findings
    cheat = project.phase("green", project.add("test/calc.test.js", "// nothing\n"), new=red.new)
    assert codes(cheat) == [judge.TEST_CHANGED, judge.STILL_RED]
    project.write({"test/calc.test.js": project.read("test/calc.test.js").replace("// nothing\n", "")})
    green = project.phase("green", project.add("calc.js", "export const mul = (a, b) => a * b;\n"), new=red.new)
    assert green.ok, green.findings
    weaker = project.read("test/calc.test.js").replace("assert.equal(calc.add(1, 2), 3);", "calc.add(1, 2);")
    judged = project.phase("refactor", {"test/calc.test.js": weaker})
    assert codes(judged) == ["fewer-assertions"]
    assert "adds" in judged.findings[0].message


@pytest.mark.slow
def test_a_whole_cycle_is_accepted_in_java(repo):
    if not shutil.which("javac") or not os.path.exists(f"{JUNIT_JARS}/junit-platform-console.jar"):
        absent("JUnit's console")
    project = Project(repo, JAVA)
    project.know()
    assert project.known.passing == {"junit:src/test/java/CalcTest.java::adds"}
    test = project.read("src/test/java/CalcTest.java").rstrip().removesuffix("}")
    more = "  @Test\n  void multiplies() {\n    assertEquals(6, Calc.mul(2, 3));\n  }\n}\n"
    broken = project.phase("red", {"src/test/java/CalcTest.java": test + more.replace("void", "viod(")})
    assert judge.WRONG_REASON in codes(broken)
    red = project.phase("red", {"src/test/java/CalcTest.java": test + more})
    assert (red.ok, red.new) == (True, ("junit:src/test/java/CalcTest.java::multiplies",)), red.findings
    code = project.read("src/Calc.java").rstrip().removesuffix("}")
    green = project.phase(
        "green", {"src/Calc.java": code + "  public static int mul(int a, int b) { return a * b; }\n}\n"}, new=red.new
    )
    assert green.ok, green.findings


@pytest.mark.slow
def test_a_whole_cycle_is_accepted_in_rust(repo, monkeypatch):
    cargo = shutil.which("cargo")
    rustup = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(cargo or ""))), ".rustup")
    if os.path.isdir(rustup):  # the home of this test has no toolchain of its own
        monkeypatch.setenv("RUSTUP_HOME", rustup)
    if cargo is None or subprocess.run([cargo, "--version"], capture_output=True, check=False).returncode:
        absent("cargo")
    project = Project(repo, RUST)
    project.know()
    assert project.known.passing == {"cargo:tests/calc.rs::adds"}
    red = project.phase("red", project.add("tests/calc.rs", "\n#[test]\nfn multiplies() {\n    assert_eq!(calc::mul(2, 3), 6);\n}\n"))  # fmt: skip
    assert (red.ok, red.new) == (True, ("cargo:tests/calc.rs::multiplies",)), red.findings
    green = project.phase("green", project.add("src/lib.rs", "pub fn mul(a: i32, b: i32) -> i32 {\n    a * b\n}\n"), new=red.new)  # fmt: skip
    assert green.ok, green.findings


OTHERS = {
    "go": (
        "go",
        {
            "go.mod": "module example.com/calc\n\ngo 1.19\n",
            "calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
            "calc_test.go": 'package calc\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal("no")\n\t}\n}\n',
        },
        ("calc_test.go", '\nfunc TestMultiplies(t *testing.T) {\n\tif Mul(2, 3) != 6 {\n\t\tt.Fatal("no")\n\t}\n}\n'),
        ("calc.go", "func Mul(a, b int) int { return a * b }\n"),
        "go:calc_test.go::TestMultiplies",
    ),
    "rspec": (
        "rspec",
        {
            ".rspec": "",
            "calc.rb": "module Calc\n  def self.add(a, b) = a + b\nend\n",
            "spec/calc_spec.rb": 'require_relative "../calc"\n\ndescribe "adding" do\n  it "adds" do\n    expect(Calc.add(1, 2)).to eq(3)\n  end\nend\n',
        },
        (
            "spec/calc_spec.rb",
            '\ndescribe "multiplying" do\n  it "multiplies" do\n    expect(Calc.mul(2, 3)).to eq(6)\n  end\nend\n',
        ),
        ("calc.rb", "module Calc\n  def self.mul(a, b) = a * b\nend\n"),
        "rspec:spec/calc_spec.rb::multiplying multiplies",
    ),
    "phpunit": (
        "phpunit",
        {
            ".gitignore": "vendor\n",
            "phpunit.xml": '<phpunit><testsuites><testsuite name="all"><directory>tests</directory></testsuite></testsuites></phpunit>\n',
            "calc.php": "<?php\nfunction add($a, $b) { return $a + $b; }\n",
            "tests/CalcTest.php": "<?php\nrequire_once __DIR__ . '/../calc.php';\n\nfinal class CalcTest extends PHPUnit\\Framework\\TestCase {\n  public function testAdds(): void { $this->assertSame(3, add(1, 2)); }\n}\n",
        },
        (
            "tests/MulTest.php",
            "<?php\nrequire_once __DIR__ . '/../calc.php';\n\nfinal class MulTest extends PHPUnit\\Framework\\TestCase {\n  public function testMultiplies(): void { $this->assertSame(6, mul(2, 3)); }\n}\n",
        ),
        ("calc.php", "function mul($a, $b) { return $a * $b; }\n"),
        "phpunit:tests/MulTest.php::testMultiplies",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("framework", OTHERS)
def test_a_whole_cycle_is_accepted_in_languages_that_happen_to_be_here(repo, framework, tmp_path, monkeypatch):
    program, files, (tests, more), (code, built), name = OTHERS[framework]
    place = shutil.which(program)
    if place is None:
        absent(program)
    if framework == "phpunit":
        os.makedirs(os.path.join(repo.path, "vendor", "bin"))
        os.symlink(place, os.path.join(repo.path, "vendor", "bin", "phpunit"))
    monkeypatch.setenv("GOCACHE", str(tmp_path / "go"))  # inside the sandbox go would build its library anew each time
    project = Project(repo, files, sandboxed=framework != "go")
    project.know()
    assert len(project.known.passing) == 1
    old = project.read(tests) if tests in files else ""
    red = project.phase("red", {tests: old + more})
    assert (red.ok, red.new) == (True, (name,)), red.findings
    green = project.phase("green", project.add(code, built), new=red.new)
    assert green.ok, green.findings


# --- cheating -----------------------------------------------------------------------------------------


def test_a_test_that_passes_at_once_is_not_red(project):
    judged = project.phase("red", project.add(TESTS, "\ndef test_more():\n    assert add(2, 2) == 4\n"))
    assert codes(judged) == [judge.PASSES_AT_ONCE]
    assert "tests/test_calc.py::test_more" in judged.findings[0].message


def test_a_collection_error_is_not_red(project):
    judged = project.phase("red", project.add(TESTS, "\ndef test_more(no_such_fixture):\n    assert add(2, 2) == 5\n"))
    assert codes(judged) == [judge.WRONG_REASON]
    assert "no_such_fixture" in judged.findings[0].message


def test_a_syntax_error_is_not_red(project):
    judged = project.phase("red", {"tests/test_more.py": "def test_more(\n"})
    assert codes(judged) == [judge.WRONG_REASON]
    assert "tests/test_more.py" in judged.findings[0].message


def test_no_new_test_is_not_red(project):
    judged = project.phase("red", {"tests/notes.txt": "nothing\n"})
    assert codes(judged) == [judge.NOTHING_NEW]


def test_two_new_tests_at_once_are_not_red(project):
    judged = project.phase("red", project.add(TESTS, NEW_TEST + NEW_TEST.replace("multiplies", "squares")))
    assert codes(judged) == [judge.SEVERAL_NEW]


def test_code_written_in_the_test_phase_is_named(project):
    judged = project.phase("red", {**project.add(TESTS, NEW_TEST), "other.py": "x = 1\n"})
    assert codes(judged) == [judge.NOT_A_TEST]
    assert judged.findings[0].names == ("other.py",)


def test_an_unrelated_test_broken_beside_the_new_one_is_named(project):
    text = project.read(TESTS).replace("== 3", "== 4") + NEW_TEST.replace("\n    ", "\n")
    judged = project.phase("red", {TESTS: text})
    assert codes(judged) == [judge.UNRELATED_BROKEN]
    assert judged.findings[0].names == ("pytest:tests/test_calc.py::test_adds",)


def test_a_test_edited_in_green_is_named(project):
    red = project.phase("red", project.add(TESTS, NEW_TEST))
    judged = project.phase("green", {TESTS: project.read(TESTS).replace("== 6", "== 6 or True").replace("calc.mul", "calc.add")}, new=red.new)  # fmt: skip
    assert codes(judged) == [judge.TEST_CHANGED]
    assert judged.findings[0].names == (TESTS,)


def test_a_conftest_that_deselects_the_new_test_is_caught(project):
    red = project.phase("red", project.add(TESTS, NEW_TEST))
    hook = "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'multi' not in i.name]\n"
    judged = project.phase("green", {"conftest.py": hook}, new=red.new)
    assert codes(judged) == ["hook-added", judge.TEST_CHANGED, judge.NEW_NOT_RUN]


def test_a_module_that_python_loads_by_itself_counts_as_a_test(project):
    red = project.phase("red", project.add(TESTS, NEW_TEST))
    trick = "import builtins\nbuiltins.__build_class__\n"
    judged = project.phase("green", {"sitecustomize.py": trick}, new=red.new)
    assert codes(judged) == [judge.TEST_CHANGED, judge.STILL_RED]


def test_settings_that_stop_at_the_first_failure_hide_no_other_test(repo):
    project = Project(repo, {**PYTHON, "pytest.ini": "[pytest]\naddopts = -x --lf\n"})
    project.know()
    red = project.phase("red", {"tests/test_a_new.py": "import calc\n\ndef test_multiplies():\n    assert calc.mul(2, 3) == 6\n"})  # fmt: skip
    assert red.ok, red.findings


def test_done_without_a_change_is_caught(project):
    red = project.phase("red", project.add(TESTS, NEW_TEST))
    assert codes(project.phase("green", {}, new=red.new)) == [judge.NOTHING_CHANGED, judge.STILL_RED]


def test_settings_that_keep_known_tests_from_running_are_caught(project):
    judged = project.phase("refactor", {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-k nothing_at_all"\n'})
    assert judge.DID_NOT_RUN in codes(judged)
    assert "pytest:tests/test_calc.py::test_adds" in judged.findings[0].message


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    assert add(-1, 1) == 0\n", "", "fewer-assertions"),
        ("def test_adds_nothing", SKIP + "def test_adds_nothing", "test-skipped"),
        ("def test_adds_nothing():\n    assert add(0, 0) == 0\n", "", "test-removed"),
        ("assert add(0, 0) == 0", "pass", "test-emptied"),
        ("assert add(0, 0) == 0", "assert True", "tautology"),
    ],
)
def test_a_test_weakened_in_refactor_is_named(project, old, new, code):
    judged = project.phase("refactor", {TESTS: project.read(TESTS).replace(old, new)})
    assert code in codes(judged)
    assert not judged.ok
    assert "test_adds" in next(finding for finding in judged.findings if finding.code == code).message


# --- what was there before ----------------------------------------------------------------------------


def test_known_failures_stay_known_and_a_wavering_test_is_put_aside_with_a_warning(repo, tmp_path):
    count = tmp_path / "count"  # the only thing outside the tree, so that the tests run without the sandbox
    waver = f"""
        import os
        def test_wavers():
            with open({str(count)!r}, "a") as file:
                file.write("x")
            assert os.path.getsize({str(count)!r}) % 2
        def test_always_fails():
            assert 1 == 2
        """
    project = Project(repo, {**PYTHON, "tests/test_old.py": waver}, sandboxed=False)
    findings = project.know(reruns=1)
    assert project.known.flaky == {"pytest:tests/test_old.py::test_wavers"}
    assert project.known.failing == {"pytest:tests/test_old.py::test_always_fails"}
    assert [finding.code for finding in findings] == [KNOWN_FAILURE, FLAKY]
    assert all(finding.warning for finding in findings)
    red = project.phase("red", project.add(TESTS, NEW_TEST))
    assert (red.ok, red.new) == (True, (NEW,)), red.findings


# --- the tree -----------------------------------------------------------------------------------------


def test_the_verdict_is_about_the_tree_and_not_about_the_checkout(project):
    with open(os.path.join(project.repo.path, "calc.py"), "w", encoding="utf-8") as file:
        file.write("def add(a, b):\n    return 0\n")
    before = os.listdir(project.repo.path)
    assert project.run()[0].green
    assert os.listdir(project.repo.path) == before
    assert project.read("calc.py").endswith("return 0\n")


def test_nothing_a_run_left_behind_reaches_the_next_one(project):
    messy = """
        import os
        def test_leaves_things():
            open("left.txt", "w").close()
            open("calc.py", "a").write("def mul(a, b): return 6")
            os.makedirs("deep/er")
            os.chmod("deep", 0)
        """
    dirty = project.write({"tests/test_messy.py": messy})
    assert project.run(dirty)[0].green
    clean = project.write(
        {
            "tests/test_messy.py": "import os\ndef test_clean():\n    assert not os.path.exists('left.txt')\n    assert not os.path.exists('deep')\n    import calc\n    assert not hasattr(calc, 'mul')\n"
        }
    )
    report = project.run(clean)[0]
    assert report.green, report.cases


def test_a_file_changed_behind_gits_back_is_whole_again_in_the_next_run(project):
    sly = """
        import os
        def test_changes_the_code_and_sets_the_clock_back():
            facts = os.stat("calc.py")
            text = open("calc.py").read()
            open("calc.py", "w").write(text.replace("a + b", "a - b"))
            os.utime("calc.py", ns=(facts.st_atime_ns, facts.st_mtime_ns))
            os.rename("tests", "elsewhere")
            os.symlink("elsewhere", "tests")
        """
    assert project.run(project.write({"tests/test_zz_sly.py": sly}))[0].green
    report = project.run()[0]
    assert report.green, report.cases
    assert len(report.cases) == 2


def test_what_tests_write_outside_their_tree_is_held_back_by_the_sandbox(project):
    if not shutil.which("bwrap"):
        absent("bubblewrap")
    target = os.path.join(project.repo.path, "planted")
    evil = project.write({"tests/test_evil.py": f"def test_evil():\n    open({target!r}, 'w').close()\n"})
    report = project.run(evil)[0]
    assert not report.green
    assert not os.path.exists(target)


def test_a_suite_that_takes_too_long_is_ended_and_says_so(project):
    slow = project.write({"tests/test_slow.py": "import time\ndef test_slow():\n    time.sleep(60)\n"})
    report = project.run(slow, timeout=2)[0]
    assert report.timed_out
    assert report.trouble == "no answer within 2 s"
    assert not report.green


def test_two_verdicts_at_the_same_time_use_two_folders(project):
    from handoff.git.workspaces.scratch import Scratch

    home = os.path.join(project.repo.path, os.pardir, "slots")
    with Scratch(home, project.repo.path, os.environ) as one, Scratch(home, project.repo.path, os.environ) as two:
        one.lay_out(project.tree)
        two.lay_out(project.tree)
        assert one.tree != two.tree
        assert sorted(os.listdir(one.tree)) == sorted(os.listdir(two.tree))
        assert ".git" not in os.listdir(one.tree)


def test_scratch_folders_nobody_uses_are_removed_by_keeping_house(project):
    from handoff.engine.place.workspaces import tidy
    from handoff.git.snapshots.take import RetentionRules
    from handoff.git.workspaces.scratch import Scratch

    snapshot_store = _snapshot_store(project)
    home = os.path.join(snapshot_store.place.project, "checks")
    slot = os.path.join(home, "slot-0")
    project.run()  # a slot is made by the first run, and what is known of the tree may come from another test
    assert tidy(project.app, rules=RetentionRules(), snapshot_store=snapshot_store).scratch == ()
    os.utime(slot, (1, 1))
    with Scratch(home, project.repo.path, os.environ):
        assert tidy(project.app, rules=RetentionRules(), snapshot_store=snapshot_store).scratch == ()
    os.utime(slot, (1, 1))
    assert tidy(project.app, rules=RetentionRules(), snapshot_store=snapshot_store, apply=True).scratch == (slot,)
    assert not os.path.exists(slot)
    assert project.run()[0].green


def test_an_unknown_commit_is_an_error_that_says_so(project):
    with pytest.raises(UserError, match="is no commit or tree"):
        project.run("no-such-branch")


def test_a_runner_that_dies_without_results_is_not_green(project):
    gone = project.write({"conftest.py": "import os\nos._exit(0)\n"})
    report = project.run(gone)[0]
    assert not report.green
    assert (report.fault, report.sealed) == ("run-cut-short", False)
    assert report.trouble == "the run ended without the runner's last word (exit 0)"


def test_several_suites_of_a_monorepo_have_a_report_each(repo):
    if not shutil.which("node"):
        absent("node")
    files = {f"api/{name}": text for name, text in PYTHON.items()}
    files |= {f"web/{name}": text for name, text in NODE.items()}
    project = Project(repo, {**files, "api/pytest.ini": "[pytest]\n"})
    python, node = project.run()
    assert [case.id for case in python.cases] == [
        "api/pytest:api/tests/test_calc.py::test_adds",
        "api/pytest:api/tests/test_calc.py::test_adds_nothing",
    ]
    assert [case.id for case in node.cases] == ["web/node:web/test/calc.test.js::adds"]
    assert python.green
    assert node.green


def test_only_what_shall_be_kept_stays_from_run_to_run(repo):
    config = '[checks.count]\ncommand = "mkdir -p cache other; echo x >>cache/runs; echo x >>other/runs; cat cache/runs other/runs"\nkeep = ["cache/"]\n'
    project = Project(repo, {".handoff/config.toml": config})
    assert [project.run()[0].tail.split() for _ in range(3)] == [["x"] * 2, ["x"] * 3, ["x"] * 4]


def test_a_session_is_judged_with_the_persons_dependencies_and_not_with_its_own(project):
    from handoff.engine.place.workspaces import add_workspace
    from handoff.git.workspaces import WorkspaceRequest

    project.repo.commit("calc")
    made = add_workspace(project.app, order=WorkspaceRequest("one"), snapshot_store=_snapshot_store(project))
    tree = made.workspace.tree
    for top, status in ((project.repo.path, 0), (tree, 7)):
        os.makedirs(os.path.join(top, ".venv", "bin"))
        path = os.path.join(top, ".venv", "bin", "python")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n[ {status} = 0 ] || exit {status}\nexec {sys.executable} "$@"\n')
        os.chmod(path, 0o755)
    report = engine.verdict(project.app, repository=tree, tree="HEAD", suites=project.suites)[0]
    assert report.green, report


def _snapshot_store(project):
    from handoff.engine.safety.snapshots import open_snapshot_store

    return open_snapshot_store(project.app, folder=project.repo.path)


def test_a_snapshot_can_be_judged_though_it_is_no_commit(project):
    from handoff.engine.safety.snapshots import snapshot
    from handoff.git.snapshots.take import SnapshotRequest

    with open(os.path.join(project.repo.path, "calc.py"), "w", encoding="utf-8") as file:
        file.write("def add(a, b):\n    return 0\n")
    kept = snapshot(project.app, snapshot_store=_snapshot_store(project), request=SnapshotRequest("now"))
    assert not project.run(kept.sha)[0].green
    assert project.run()[0].green


def test_an_exit_code_that_the_results_do_not_explain_is_not_green(project):
    odd = project.write({"conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 3\n"})
    report = project.run(odd)[0]
    assert not report.green
    assert report.trouble == "pytest ended with 3 although none of its 2 tests failed"


def test_dependencies_of_the_persons_checkout_are_borrowed(repo):
    if not shutil.which("node"):
        absent("node")
    files = {**NODE, ".gitignore": "node_modules\n"}
    files["test/calc.test.js"] = (
        'import assert from "node:assert";\nimport { test } from "node:test";\nimport one from "one";\ntest("borrowed", () => assert.equal(one, 1));\n'
    )
    project = Project(repo, files)
    folder = os.path.join(repo.path, "node_modules", "one")
    os.makedirs(folder)
    for name, text in (("package.json", '{"name": "one", "main": "index.js"}'), ("index.js", "module.exports = 1;")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    report = project.run()[0]
    assert report.green, (report.tail, report.cases)


def test_a_tool_may_keep_its_cache_in_borrowed_node_modules_and_the_persons_stay_as_they_are(repo):
    repo.write("package.json", "{}\n")
    repo.write(".gitignore", "node_modules/\n")
    repo.write(
        ".handoff/config.toml",
        '[checks.web]\ncommand = "mkdir -p node_modules/.cache/nyc && touch node_modules/.cache/nyc/a && grep -q 1 node_modules/tool/x"\n'
        'links = ["node_modules"]\n',
    )
    repo.commit("a script project")
    repo.write("node_modules/tool/x", "1\n")
    repo.write("node_modules/.cache/nyc/mine", "")
    made = Project(repo, {})
    (report,) = made.run()
    assert report.green, report.tail
    assert os.listdir(os.path.join(repo.path, "node_modules", ".cache", "nyc")) == ["mine"]


def test_what_hypothesis_asserts_about_itself_is_neither_rewritten_nor_counted(repo, monkeypatch):
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    project = Project(repo, PYTHON)
    test = """
    import hypothesis
    from hypothesis import strategies as st

    @hypothesis.settings(max_examples=5, database=None)
    @hypothesis.given(st.integers())
    def test_a_property(number):
        assert number == number

    def test_rewriting(request):
        marked = request.config.pluginmanager.rewrite_hook._must_rewrite
        assert marked and not [name for name in marked if name.startswith("hypothesis")]
    """
    (report,) = project.run(project.write({"tests/test_property.py": test}))
    assert report.green, report.tail
    assert [case.held for case in report.cases if "test_a_property" in case.id] == [5]
