"""Results as frameworks write them. The forms of dotnet, nextest and surefire are written down from their documentation,
those of jest and mocha from real runs on another machine; pytest, unittest, node, JUnit, cargo, go, rspec and phpunit run
for real in tests/engine/place/proof/test_test_runs.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.checks.frameworks import BY_READER
from handoff.checks.results import REASONS, Case, Report, RunOutput, Unreadable
from handoff.checks.run import read
from handoff.checks.suite import Suite


def _found(tmp_path, reader, *, results=None, output="", files=None):
    for name, text in (files or {}).items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    written = ()
    if results is not None:
        place = tmp_path / "results"
        place.write_bytes(results if isinstance(results, bytes) else results.encode())
        written = (str(place),)
    suite = Suite("s", reader, "", "run", reader)
    top = str(tmp_path / "tree")
    return RunOutput(suite, top, written, output.replace("TOP", top), lambda path: "test" in path.lower() or "spec" in path, lambda name: name == "numpy")  # fmt: skip


def _cases(*args, **named):
    return {case.id: (case.status, case.reason) for case in read(_found(*args, **named))}


GO = r"""{"Action":"run","Package":"example.com/calc","Test":"TestAdd"}
{"Action":"output","Package":"example.com/calc","Test":"TestAdd","Output":"--- PASS: TestAdd (0.00s)\n"}
{"Action":"pass","Package":"example.com/calc","Test":"TestAdd","Elapsed":0.01}
{"Action":"output","Package":"example.com/calc","Test":"TestBad","Output":"    calc_test.go:13: got 3, want 4\n"}
{"Action":"fail","Package":"example.com/calc","Test":"TestBad","Elapsed":0}
{"Action":"skip","Package":"example.com/calc","Test":"TestSkip","Elapsed":0}
{"Action":"pass","Package":"example.com/calc","Test":"TestTable/one","Elapsed":0}
{"Action":"output","Package":"example.com/calc","Test":"TestTable/two","Output":"panic: runtime error: index out of range\n"}
{"Action":"fail","Package":"example.com/calc","Test":"TestTable/two","Elapsed":0}
{"Action":"fail","Package":"example.com/calc","Test":"TestTable","Elapsed":0}
{"Action":"fail","Package":"example.com/calc","Elapsed":0.2}
# example.com/calc/other [example.com/calc/other.test]
other/o_test.go:5:32: undefined: Mul
FAIL	example.com/calc/other [build failed]
# example.com/calc/third
third/t_test.go:5:25: missing ',' in parameter list
FAIL	example.com/calc/third [setup failed]
"""


def test_go_events_and_the_compilers_words_are_read(tmp_path):
    files = {"go.mod": "module example.com/calc\n", "calc_test.go": "package calc\nfunc TestAdd(t *testing.T) {}\n"}
    assert _cases(tmp_path, "go", output=GO, files=files) == {
        "s:calc_test.go::TestAdd": ("passed", ""),
        "s:example.com/calc::TestBad": ("failed", "assertion"),
        "s:example.com/calc::TestSkip": ("skipped", ""),
        "s:example.com/calc::TestTable/one": ("passed", ""),
        "s:example.com/calc::TestTable/two": ("failed", "raised"),
        "s:other/o_test.go": ("error", "missing"),
        "s:third/t_test.go": ("error", "syntax"),
    }


CARGO = """   Compiling calc v0.1.0
     Running unittests src/lib.rs (target/debug/deps/calc-1)

running 0 tests

     Running tests/calc.rs (target/debug/deps/calc-2)

running 4 tests
test adds ... ok
test later ... ignored, not today
test wrong ... FAILED
test falls ... FAILED

failures:

---- wrong stdout ----
thread 'wrong' panicked at tests/calc.rs:9:5:
assertion `left == right` failed
  left: 3
 right: 4
---- falls stdout ----
thread 'falls' panicked at src/lib.rs:9:5:
index out of bounds: the len is 0

failures:
    wrong
    falls

test result: FAILED. 1 passed; 2 failed; 1 ignored
   Doc-tests calc

running 1 test
test src/lib.rs - add (line 3) ... ok
"""


def test_cargos_words_are_read(tmp_path):
    assert _cases(tmp_path, "cargo", output=CARGO) == {
        "s:tests/calc.rs::adds": ("passed", ""),
        "s:tests/calc.rs::later": ("skipped", ""),
        "s:tests/calc.rs::wrong": ("failed", "assertion"),
        "s:tests/calc.rs::falls": ("failed", "raised"),
        "s:doc calc::src/lib.rs - add (line 3)": ("passed", ""),
    }


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("error[E0425]: cannot find function `mul` in crate `calc`", "missing"),
        ("error: expected one of `,`, found `x`", "syntax"),
    ],
)
def test_a_crate_whose_tests_do_not_compile_tells_why(tmp_path, words, reason):
    output = f'{words}\n --> tests/calc.rs:4:22\n  |\nerror: could not compile `calc` (test "calc")\n'
    assert _cases(tmp_path, "cargo", output=output) == {"s:tests/calc.rs": ("error", reason)}


TRX = """<?xml version="1.0"?><TestRun xmlns="urn:trx"><Results>
<UnitTestResult testId="1" testName="Shop.CalcTests.Adds" outcome="Passed" duration="00:00:00.0120000"/>
<UnitTestResult testId="2" testName="Shop.CalcTests.Wrong" outcome="Failed" duration="00:00:01.5"><Output><ErrorInfo>
<Message>Assert.Equal() Failure: Values differ</Message><StackTrace>at X</StackTrace></ErrorInfo></Output></UnitTestResult>
<UnitTestResult testId="3" testName="Shop.CalcTests.Later" outcome="NotExecuted"/></Results>
<TestDefinitions><UnitTest id="1"><TestMethod className="Shop.CalcTests" name="Adds"/></UnitTest>
<UnitTest id="2"><TestMethod className="Shop.CalcTests" name="Wrong"/></UnitTest>
<UnitTest id="3"><TestMethod className="Shop.CalcTests" name="Later"/></UnitTest></TestDefinitions></TestRun>"""


def test_dotnets_files_are_read(tmp_path):
    assert _cases(tmp_path, "trx", results=TRX) == {
        "s:Shop.CalcTests::Adds": ("passed", ""),
        "s:Shop.CalcTests::Wrong": ("failed", "assertion"),
        "s:Shop.CalcTests::Later": ("skipped", ""),
    }
    assert read(_found(tmp_path, "trx", results=TRX))[1].seconds == 1.5


def test_a_solution_that_does_not_build_names_its_file(tmp_path):
    output = "TOP/CalcTests.cs(7,20): error CS0117: 'Calc' does not contain a definition for 'Mul'\n"
    assert _cases(tmp_path, "trx", output=output, files={"CalcTests.cs": ""}) == {
        "s:CalcTests.cs": ("error", "missing")
    }


JEST = {
    "testResults": [
        {
            "name": "TOP/calc.test.js",
            "status": "failed",
            "assertionResults": [
                {"ancestorTitles": [], "title": "adds", "status": "passed", "duration": 4, "failureMessages": []},
                {"ancestorTitles": ["g"], "title": "wrong", "status": "failed", "failureMessages": ["Error: expect(received).toBe(expected) // Object.is equality\n\nExpected: 4\nReceived: 3"]},
                {"ancestorTitles": [], "title": "absent", "status": "failed", "failureMessages": ["TypeError: calc.mul is not a function\n    at Object.mul (TOP/calc.test.js:4:3)"]},
                {"ancestorTitles": [], "title": "falls", "status": "failed", "failureMessages": ["RangeError: x\n    at Object.boom (TOP/calc.js:4:3)\n    at TOP/calc.test.js:9:1"]},
                {"ancestorTitles": [], "title": "own", "status": "failed", "failureMessages": ["TypeError: Cannot read properties of null\n    at TOP/calc.test.js:9:1"]},
                {"ancestorTitles": [], "title": "late", "status": "failed", "failureMessages": ['Error: thrown: "Exceeded timeout of 100 ms for a test.']},
                {"ancestorTitles": [], "title": "skipped", "status": "pending", "failureMessages": []},
            ],
        },
        {"name": "TOP/b.test.js", "status": "failed", "message": "Cannot find module '../mul.js' from 'b.test.js'", "assertionResults": []},
        {"name": "TOP/c.test.js", "status": "failed", "message": "Cannot find module 'nolib' from 'c.test.js'", "assertionResults": []},
        {"name": "TOP/d.test.js", "status": "failed", "message": "Jest encountered an unexpected token\nSyntaxError: TOP/d.test.js", "assertionResults": []},
        {"name": "TOP/e.test.js", "status": "failed", "message": "Failed to load url ../mul.js (resolved id: ../mul.js) in TOP/e.test.js. Does the file exist?", "assertionResults": []},
    ]
}  # fmt: skip


def test_jests_and_vitests_json_is_read(tmp_path):
    text = json.dumps(JEST).replace("TOP", str(tmp_path / "tree"))
    assert _cases(tmp_path, "jest", results=text) == {
        "s:calc.test.js::adds": ("passed", ""),
        "s:calc.test.js::g > wrong": ("failed", "assertion"),
        "s:calc.test.js::absent": ("failed", "missing"),
        "s:calc.test.js::falls": ("failed", "raised"),
        "s:calc.test.js::own": ("failed", "other"),
        "s:calc.test.js::late": ("failed", "timeout"),
        "s:calc.test.js::skipped": ("skipped", ""),
        "s:b.test.js": ("error", "missing"),
        "s:c.test.js": ("error", "collection"),
        "s:d.test.js": ("error", "syntax"),
        "s:e.test.js": ("error", "missing"),
    }


def test_mochas_json_is_read_and_its_silence_explained(tmp_path):
    tests = [
        {"title": "adds", "fullTitle": "g adds", "file": "TOP/test/a.js", "duration": 1, "err": {}},
        {"title": "wrong", "fullTitle": "g wrong", "file": "TOP/test/a.js", "err": {"name": "AssertionError", "message": "3 == 4"}},
        {"title": "later", "fullTitle": "g later", "file": "TOP/test/a.js", "err": {}},
    ]  # fmt: skip
    text = json.dumps({"tests": tests, "pending": tests[2:]}).replace("TOP", str(tmp_path / "tree"))
    assert _cases(tmp_path, "mocha", results=text) == {
        "s:test/a.js::g adds": ("passed", ""),
        "s:test/a.js::g wrong": ("failed", "assertion"),
        "s:test/a.js::g later": ("skipped", ""),
    }
    output = "Exception during run: Error: Cannot find module '../mul.js'\nRequire stack:\n- TOP/test/b.js\n"
    assert _cases(tmp_path, "mocha", output=output, files={"test/b.js": ""}) == {"s:test/b.js": ("error", "missing")}


def test_rspecs_json_is_read(tmp_path):
    examples = [
        {"full_description": "Calc adds", "status": "passed", "file_path": "./spec/calc_spec.rb", "run_time": 0.01},
        {"full_description": "Calc wrong", "status": "failed", "file_path": "./spec/calc_spec.rb", "run_time": 0.01,
         "exception": {"class": "RSpec::Expectations::ExpectationNotMetError", "message": "\nexpected: 4\n     got: 3\n"}},
        {"full_description": "Calc absent", "status": "failed", "file_path": "./spec/calc_spec.rb", "run_time": 0.01,
         "exception": {"class": "NoMethodError", "message": "undefined method `mul' for Calc:Module"}},
        {"full_description": "Calc later", "status": "pending", "file_path": "./spec/calc_spec.rb", "run_time": 0.0},
    ]  # fmt: skip
    text = json.dumps({"examples": examples, "summary": {"errors_outside_of_examples_count": 0}})
    assert _cases(tmp_path, "rspec", results=text) == {
        "s:spec/calc_spec.rb::Calc adds": ("passed", ""),
        "s:spec/calc_spec.rb::Calc wrong": ("failed", "assertion"),
        "s:spec/calc_spec.rb::Calc absent": ("failed", "missing"),
        "s:spec/calc_spec.rb::Calc later": ("skipped", ""),
    }
    broken = {
        "examples": [],
        "summary": {"errors_outside_of_examples_count": 1},
        "messages": ["\nAn error occurred while loading ./spec/b_spec.rb.\nLoadError: cannot load such file -- mul\n", "No examples found."],
    }  # fmt: skip
    assert _cases(tmp_path, "rspec", results=json.dumps(broken)) == {"s:spec/b_spec.rb": ("error", "missing")}


PHP = """<?xml version="1.0"?><testsuites><testsuite name="a"><testsuite name="CalcTest" file="TOP/tests/CalcTest.php">
<testcase name="testAdds" class="CalcTest" classname="CalcTest" file="TOP/tests/CalcTest.php" line="4" time="0.001"/>
<testcase name="testBad" class="CalcTest" classname="CalcTest" file="TOP/tests/CalcTest.php" line="5" time="0.001">
<failure type="PHPUnit\\Framework\\ExpectationFailedException">CalcTest::testBad
Failed asserting that 3 is identical to 4.</failure></testcase>
<testcase name="testNew" class="CalcTest" classname="CalcTest" file="TOP/tests/CalcTest.php" line="6" time="0.001">
<error type="Error">CalcTest::testNew
Error: Call to undefined function mul()</error></testcase>
</testsuite></testsuite></testsuites>"""


def test_phpunits_nested_suites_are_read(tmp_path):
    text = PHP.replace("TOP", str(tmp_path / "tree"))
    assert _cases(tmp_path, "junit", results=text) == {
        "s:tests/CalcTest.php::testAdds": ("passed", ""),
        "s:tests/CalcTest.php::testBad": ("failed", "assertion"),
        "s:tests/CalcTest.php::testNew": ("error", "missing"),
    }
    output = "PHP Fatal error:  Uncaught ParseError: Unclosed '(' on line 1 in TOP/tests/BTest.php:2\n"
    assert _cases(tmp_path / "b", "junit", output=output, files={"tests/BTest.php": ""}) == {
        "s:tests/BTest.php": ("error", "syntax")
    }


SCRIPTS = """<?xml version="1.0"?><testsuites name="jest tests"><testsuite name="calc" tests="3">
<testcase classname="calc adds" name="calc adds" file="test/calc.test.js" time="0.01"/>
<testcase classname="calc subtracts" name="calc subtracts" file="test/calc.test.js" time="0.01">
<failure>TypeError: (0 , _calc.sub) is not a function
    at Object.&lt;anonymous&gt; (TOP/test/calc.test.js:9:10)</failure></testcase>
<testcase classname="calc waits" name="calc waits" file="test/calc.test.js" time="0.01">
<failure>Error: thrown: "Exceeded timeout of 5000 ms for a test."</failure></testcase>
<testcase classname="test.test_x" name="test_y" time="0.01">
<failure message="AttributeError">Traceback (most recent call last)
  File "test/test_x.py", line 3, in test_y
AttributeError: module 'calc' has no attribute 'sub'</failure></testcase>
</testsuite></testsuites>"""


def test_junit_files_of_any_language_say_what_is_missing_in_its_own_words(tmp_path):
    found = _cases(tmp_path, "junit", results=SCRIPTS.replace("TOP", str(tmp_path / "tree")))
    assert list(found.values()) == [("passed", ""), ("failed", "missing"), ("failed", "timeout"), ("failed", "missing")]


SUREFIRE = """<?xml version="1.0"?><testsuite name="shop.CalcTest" tests="4" time="0.1">
<testcase name="adds" classname="shop.CalcTest" time="0.02"/>
<testcase name="table(int)[1]" classname="shop.CalcTest" time="0.02"/>
<testcase name="wrong" classname="shop.CalcTest" time="0.01"><failure message="expected: &lt;4&gt; but was: &lt;3&gt;"
 type="org.opentest4j.AssertionFailedError">org.opentest4j.AssertionFailedError: expected
 at shop.CalcTest.wrong(CalcTest.java:9)</failure></testcase>
<testcase name="falls" classname="shop.CalcTest" time="0.01"><error message="/ by zero" type="java.lang.ArithmeticException">java.lang.ArithmeticException: / by zero
	at shop.Calc.div(Calc.java:9)
	at shop.CalcTest.falls(CalcTest.java:12)</error></testcase>
<testcase name="own" classname="shop.CalcTest" time="0.01"><error message="x" type="java.lang.NullPointerException">java.lang.NullPointerException: x
	at shop.CalcTest.own(CalcTest.java:12)</error></testcase>
<testcase name="later" classname="shop.CalcTest"><skipped message="x"/></testcase></testsuite>"""
MAVEN = """[ERROR] COMPILATION ERROR :
[ERROR] TOP/src/test/java/shop/CalcTest.java:[11,29] cannot find symbol
  symbol:   method mul(int,int)
  location: class shop.Calc
[ERROR] Failed to execute goal
"""


def test_mavens_reports_and_the_compilers_errors_are_read(tmp_path):
    files = {"src/test/java/shop/CalcTest.java": "class CalcTest {}"}
    assert _cases(tmp_path, "java", results=SUREFIRE, files=files) == {
        "s:src/test/java/shop/CalcTest.java::adds": ("passed", ""),
        "s:src/test/java/shop/CalcTest.java::table[1]": ("passed", ""),
        "s:src/test/java/shop/CalcTest.java::wrong": ("failed", "assertion"),
        "s:src/test/java/shop/CalcTest.java::falls": ("error", "raised"),
        "s:src/test/java/shop/CalcTest.java::own": ("error", "other"),
        "s:src/test/java/shop/CalcTest.java::later": ("skipped", ""),
    }
    assert _cases(tmp_path, "java", output=MAVEN, files=files) == {
        "s:src/test/java/shop/CalcTest.java": ("error", "missing")
    }
    wrong = MAVEN.replace("cannot find symbol", "';' expected")
    assert _cases(tmp_path, "java", output=wrong, files=files) == {
        "s:src/test/java/shop/CalcTest.java": ("error", "syntax")
    }


def test_two_tests_of_one_name_are_told_apart(tmp_path):
    one = '<testcase name="a" classname="X"/>'
    assert list(_cases(tmp_path, "junit", results=f"<testsuite>{one}{one}{one}</testsuite>")) == ["s:X::a", "s:X::a#2", "s:X::a#3"]  # fmt: skip


def _pytest(body):
    return f'<testsuites><testsuite><testcase classname="" name="test_a" file="test_a.py"><error message="collection failure">{body}</error></testcase></testsuite></testsuites>'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("E   ModuleNotFoundError: No module named 'shop'", "missing"),
        ("E   ModuleNotFoundError: No module named 'shop.cart'", "missing"),
        ("E   ModuleNotFoundError: No module named 'numpy'", "collection"),
        ("E   ImportError: cannot import name 'x' from 'shop' (/t/shop.py)", "missing"),
        ("E   ImportError: cannot import name 'x' from 'attr' (/v/site-packages/attr/__init__.py)", "collection"),
        ("E   AttributeError: module 'shop' has no attribute 'buy'", "missing"),
        ("E     File &quot;test_a.py&quot;, line 1\nE       def x(\nE   SyntaxError: '(' was never closed", "syntax"),
        ("E   NameError: name 'pytest' is not defined", "collection"),
        ("E   assert 0", "collection"),
    ],
)
def test_a_python_file_that_does_not_load_tells_why(tmp_path, body, reason):
    assert _cases(tmp_path, "pytest", results=_pytest(body)) == {"s:test_a.py": ("error", reason)}


@given(st.sampled_from([name for name in BY_READER if name != "exit"]), st.binary(max_size=200), st.text(max_size=200))
def test_rubbish_is_never_taken_for_results(tmp_path_factory, reader, data, output):
    folder = tmp_path_factory.mktemp("rubbish")
    try:
        cases = read(_found(folder, reader, results=data, output=output))
    except Unreadable:
        return
    assert not any(case.status == "passed" for case in cases)


@pytest.mark.parametrize(
    "value", ["[]", "{}", "null", "3", '{"testResults": 3}', '[{"a": 1}]', '{"tests": [3]}', '{"examples": {}}']
)
@pytest.mark.parametrize("reader", ["unittest", "node", "jest", "mocha", "rspec"])
def test_json_of_another_shape_is_never_taken_for_results(tmp_path, reader, value):
    try:
        cases = read(_found(tmp_path, reader, results=value))
    except Unreadable:
        return
    assert cases == ()


def test_a_report_survives_being_written_down(tmp_path):
    cases = read(_found(tmp_path, "trx", results=TRX))
    report = Report("s", "run", 1, 0.5, "tail", cases, tests=("tests/",))
    back = json.loads(json.dumps(report.record()))
    back = {**back, "cases": tuple(Case(**case) for case in back["cases"]), "tests": tuple(back["tests"]), "flaws": ()}
    assert Report(**back) == report
    assert all(case.reason in REASONS for case in cases if case.bad)
