"""What the text of a test shows: assertions, skips, empty bodies and truths that cannot fail, in eight languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.checks.assertions.assertions import find_weakened, read_tests
from handoff.checks.assertions.scan import LANGUAGES, blank_out

PYTHON = '''
import pytest, unittest

def test_two():
    """Says something."""
    assert f(1) == 2
    with pytest.raises(ValueError):
        f(0)

@pytest.mark.skip
def test_skipped():
    assert f(1)

@pytest.mark.parametrize("x", [1, 2])
async def test_table(x):
    assert f(x)

def test_nothing():
    """Only words."""

def test_truths():
    x = 1
    assert True
    assert x == x
    assert (f(1), "a tuple is always true")
    assert 1 == 1

def test_asks_twice():
    assert f(1) == f(1)

def test_leaves():
    return
    assert f(1)

def test_skips_itself():
    pytest.skip("not today")
    assert f(1)

class TestGroup(unittest.TestCase):
    def test_inner(self):
        self.assertEqual(f(1), 2)
        self.assertTrue(True)

    @unittest.expectedFailure
    def test_expected(self):
        self.assertIn(1, [f(1)])

def helper():
    assert 0
'''


def test_python_tests_are_read_by_their_syntax():
    found = read_tests("tests/test_x.py", PYTHON)
    assert "helper" not in found
    shown = {name: (facts.assertions, facts.skipped, facts.empty, facts.trivial) for name, facts in found.items()}
    assert shown == {
        "test_two": (2, False, False, 0),
        "test_skipped": (1, True, False, 0),
        "test_table": (2, False, False, 0),
        "test_nothing": (0, False, True, 0),
        "test_truths": (0, False, False, 4),
        "test_asks_twice": (0, False, False, 1),
        "test_leaves": (0, False, True, 0),
        "test_skips_itself": (1, True, False, 0),
        "TestGroup::test_inner": (1, False, False, 1),
        "TestGroup::test_expected": (1, True, False, 0),
    }


ALWAYS = """
    assert add(1, 2) == add(1, 2)
    x = add(1, 2); assert x == add(1, 2)
    expected = add(1, 2); result = add(1, 2); assert result == expected
    self.assertEqual(add(1, 2), add(1, 2))
    self.assertTrue(add(1, 2) == add(1, 2))
    self.assertFalse(add(1, 2) != add(1, 2))
    assert add(1, 2) in [add(1, 2)]
    assert not add(1, 2) != add(1, 2)
    assert add(1, 2) == pytest.approx(add(1, 2))
    assert_allclose(f(x), f(x))
    x = 3; assert x == 3
    assert isinstance(add(1, 2), object)
    assert len(f()) >= 0
"""
SOMETIMES = """
    before = count(); do(); assert count() == before
    before = count(); result = do(); assert count() == before
    items = []; add(items); assert items == []
    x = 1; x = g(x); assert x == 1
    n = 0; n += 1; assert n == 1
    assert f("a") == f("b")
    assert next(i) != next(i)
    x = 1; assert f(x) == 1
"""


@pytest.mark.parametrize("line", [*ALWAYS.strip().splitlines(), *SOMETIMES.strip().splitlines()])
def test_the_same_question_on_both_sides_is_no_assertion(line):
    (facts,) = read_tests("test_x.py", f"def test_a():\n    {line.strip()}\n").values()
    assert (facts.assertions, facts.trivial) == ((0, 1) if line in ALWAYS else (1, 0))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.test.ts", 'it("a", () => { expect(add(1, "x")).toBe(add(1, "OTHER")); });'),
        ("a.test.js", 'it("a", () => { assert.strictEqual(add(1, "x"), add(1, "OTHER")); });'),
        ("T.java", 'class T { @Test void a() { assertEquals(add(1, "x"), add(1, "OTHER")); } }'),
        ("a_test.go", 'func TestA(t *testing.T) {\n if Add(1, "x") != Add(1, "OTHER") {\n t.Error(1)\n }\n}'),
        ("a.rs", '#[test]\nfn a() { assert_eq!(add(1, "x"), add(1, "OTHER")); }'),
        ("T.cs", 'class T { [Fact] public void A() { Assert.Equal(Add(1, "x"), Add(1, "OTHER")); } }'),
        ("T.php", '<?php class T { function testA() { $this->assertSame(add(1, "x"), add(1, "OTHER")); } }'),
        ("a_spec.rb", 'it "a" do\n  expect(add(1, "x")).to eq(add(1, "OTHER"))\nend\n'),
    ],
)
def test_the_same_holds_in_other_languages_and_strings_are_compared_as_they_are(name, text):
    (same,) = read_tests(name, text.replace("OTHER", "x")).values()
    assert (same.assertions, same.trivial) == (0, 1)
    (other,) = read_tests(name, text.replace("OTHER", "y")).values()
    assert (other.assertions, other.trivial) == (1, 0)


def test_tests_that_stand_in_a_condition_are_tests_too():
    text = "if f():\n    def test_a():\n        assert f()\nelse:\n    def test_b():\n        assert g()\n"
    assert list(read_tests("test_x.py", text)) == ["test_a", "test_b"]


def test_a_module_that_marks_itself_skips_all_its_tests():
    found = read_tests("test_x.py", "import pytest\npytestmark = pytest.mark.skip\n\ndef test_a():\n    assert f()\n")
    assert found["test_a"].skipped


EXAMPLES = {
    "calc.test.ts": """
        describe("adding", () => {
          it("adds", () => { expect(add(1, 2)).toBe(3); assert.ok(add(1, 1)); });
          it.skip("skipped", () => { expect(add(1, 2)).toBe(3); });
          test("nothing", () => {});
          test('text', async () => { const s = "expect(1) // }"; /* expect(2) */ expect(s).toBe(`}`); });
          test("truth", () => { expect(true).toBe(true); });
          test.each([[1, 2]])("table", (a, b) => { expect(a).toBe(b); });
        });
        xdescribe("later", () => { it("hidden", () => { expect(f()).toBe(1); }); });
        """,
    "CalcTest.java": """
        class CalcTest {
          @Test void adds() { assertEquals(3, add(1, 2)); assertTrue(add(1, 1) > 1); }
          @Disabled("later")
          @Test
          void skipped() { assertEquals(3, add(1, 2)); }
          @Test void nothing() { }
          @Test public void text() throws Exception { String s = "assertEquals( }"; assertNotNull(s); }
          @Test void truth() { assertTrue(true); }
          void helper() { assertEquals(1, 1 + f()); }
        }
        """,
    "calc_test.go": """
        package calc

        func TestAdds(t *testing.T) {
            if Add(1, 2) != 3 { t.Errorf("got } %d", Add(1, 2)) }
            assert.Equal(t, 3, Add(1, 2))
        }
        func TestSkipped(t *testing.T) { t.Skip("later"); t.Error("x") }
        func TestNothing(t *testing.T) {}
        func helper(t *testing.T) { t.Fatal("x") }
        """,
    "calc.rs": """
        #[test]
        fn adds() { assert_eq!(add(1, 2), 3); assert!(add(1, 1) > 1); }
        #[test]
        #[ignore]
        fn skipped() { assert!(f()); }
        #[test]
        fn nothing() {}
        #[test]
        fn truth() { assert!(true); }
        fn helper() { assert!(f()); }
        """,
    "CalcTests.cs": """
        public class CalcTests {
          [Fact] public void Adds() { Assert.Equal(3, Add(1, 2)); Assert.True(Add(1, 1) > 1); }
          [Fact(Skip = "later")] public void Skipped() { Assert.Equal(3, Add(1, 2)); }
          [Fact] public void Nothing() { }
          [Fact] public void Truth() { Assert.True(true); }
        }
        """,
    "CalcTest.php": """<?php
        class CalcTest extends TestCase {
          public function testAdds(): void { $this->assertSame(3, add(1, 2)); $this->assertTrue(add(1, 1) > 1); }
          public function testSkipped(): void { $this->markTestSkipped("later"); $this->assertSame(1, f()); }
          public function testNothing(): void { }
          public function testTruth(): void { $this->assertTrue(true); }
        }
        """,
    "calc_spec.rb": """
describe "adding" do
  it "adds" do
    expect(add(1, 2)).to eq(3)
    expect(add(1, 1)).to be > 1  # expect more
  end
  xit "skipped" do
    expect(add(1, 2)).to eq(3)
  end
  it "nothing" do
  end
end
""",
}
SHOWN = {
    "calc.test.ts": {
        "adding > adds": (2, False, False, 0),
        "adding > skipped": (1, True, False, 0),
        "adding > nothing": (0, False, True, 0),
        "adding > text": (1, False, False, 0),
        "adding > truth": (0, False, False, 1),
        "adding > table": (1, False, False, 0),
        "later > hidden": (1, True, False, 0),
    },
    "CalcTest.java": {
        "adds": (2, False, False, 0),
        "skipped": (1, True, False, 0),
        "nothing": (0, False, True, 0),
        "text": (1, False, False, 0),
        "truth": (0, False, False, 1),
    },
    "calc_test.go": {
        "TestAdds": (2, False, False, 0),
        "TestSkipped": (1, True, False, 0),
        "TestNothing": (0, False, True, 0),
    },
    "calc.rs": {
        "adds": (2, False, False, 0),
        "skipped": (1, True, False, 0),
        "nothing": (0, False, True, 0),
        "truth": (0, False, False, 1),
    },
    "CalcTests.cs": {
        "Adds": (2, False, False, 0),
        "Skipped": (1, True, False, 0),
        "Nothing": (0, False, True, 0),
        "Truth": (0, False, False, 1),
    },
    "CalcTest.php": {
        "testAdds": (2, False, False, 0),
        "testSkipped": (1, True, False, 0),
        "testNothing": (0, False, True, 0),
        "testTruth": (0, False, False, 1),
    },
    "calc_spec.rb": {
        "adding > adds": (2, False, False, 0),
        "adding > skipped": (1, True, False, 0),
        "adding > nothing": (0, False, True, 0),
    },
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_tests_of_other_languages_are_found_by_a_scanner(name):
    found = read_tests(name, EXAMPLES[name])
    assert {test: (one.assertions, one.skipped, one.empty, one.trivial) for test, one in found.items()} == SHOWN[name]


def test_a_file_of_an_unknown_language_has_no_tests():
    assert read_tests("notes.txt", "def test_x(): assert 1") == {}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_assertion_taken_away_is_told(name):
    before = EXAMPLES[name]
    first = next(test for test, facts in SHOWN[name].items() if facts[0] == 2)
    after = {
        "calc.test.ts": before.replace("assert.ok(add(1, 1));", ""),
        "CalcTest.java": before.replace("assertTrue(add(1, 1) > 1);", "add(1, 1);"),
        "calc_test.go": before.replace("assert.Equal(t, 3, Add(1, 2))", "// assert.Equal(t, 3, Add(1, 2))"),
        "calc.rs": before.replace("assert!(add(1, 1) > 1);", ""),
        "CalcTests.cs": before.replace("Assert.True(Add(1, 1) > 1);", "/* Assert.True(Add(1, 1) > 1); */"),
        "CalcTest.php": before.replace("$this->assertTrue(add(1, 1) > 1);", ""),
        "calc_spec.rb": before.replace("    expect(add(1, 1)).to be > 1", "    add(1, 1)"),
    }[name]
    (one,) = find_weakened({name: (before, after)})
    assert (one.code, one.test) == ("fewer-assertions", first)
    assert "2 before, 1 now" in one.message


def test_a_test_that_moves_to_another_file_is_not_removed():
    one = "def test_a():\n    assert f()\n"
    assert find_weakened({"test_a.py": (one, None), "test_b.py": (None, one)}) == ()
    (lost,) = find_weakened({"test_a.py": (one, None), "test_b.py": (None, "def test_a():\n    f()\n")})
    assert lost.code == "fewer-assertions"


def test_a_file_that_is_deleted_takes_its_tests_with_it():
    (lost,) = find_weakened({"test_a.py": ("def test_a():\n    assert f()\n", None)})
    assert (lost.code, lost.test) == ("test-removed", "test_a")


@given(
    st.sampled_from(sorted(EXAMPLES)), st.text(alphabet="\"'`/*#\\\n(){}; aexpect", max_size=60), st.integers(0, 2000)
)
def test_whatever_stands_in_a_file_it_is_never_weaker_than_itself(name, noise, place):
    text = EXAMPLES[name][:place] + noise + EXAMPLES[name][place:]
    assert find_weakened({name: (text, text)}) == ()
    language = LANGUAGES["." + name.rpartition(".")[2]]
    blank = blank_out(text, language)
    assert len(blank) == len(text)
    assert [at for at, char in enumerate(text) if char == "\n"] == [at for at, char in enumerate(blank) if char == "\n"]


@pytest.mark.parametrize(
    "helper",
    [
        "const holds = (got) => assert.strictEqual(got, 3);",
        "const holds = got => {\n  assert.strictEqual(got, 3);\n};",
        "function holds(got) {\n  assert.strictEqual(got, 3);\n}",
        "const holds = async function (got) {\n  assert.strictEqual(got, 3);\n};",
    ],
)
def test_an_assertion_that_moves_into_a_helper_of_the_same_script_is_not_lost(helper):
    before = 'test("a", () => { assert.strictEqual(add(1, 2), 3); });\n'
    after = f'{helper}\ntest("a", () => {{ holds(add(1, 2)); }});\n'
    assert find_weakened({"a.test.js": (before, after)}) == ()
    gone = after.replace("assert.strictEqual(got, 3)", "got")
    assert [one.code for one in find_weakened({"a.test.js": (before, gone)})] == ["fewer-assertions"]
