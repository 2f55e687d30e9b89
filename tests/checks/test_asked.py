"""What was built, and what a test asks for, as both are read from their texts before anything is asked."""

from __future__ import annotations

from handoff.checks import questions
from handoff.checks.findings import FileChange
from handoff.engine.place.proof.altered_sources import written_beside
from handoff.engine.place.proof.same_questions import held_to


def built(before, after, *, path="shop.py", more=()):
    return questions.built_by(
        [FileChange(path, False, before, after), *more], {"shop.py", "other.py", "words.txt", path}
    )


def test_functions_that_say_something_else_are_what_was_built():
    old = "def same():\n    return 1\n\nclass Cart:\n    def put(self):\n        return 1\n"
    new = old.replace("put(self):\n        return 1", "put(self):\n        return 2") + "\ndef added():\n    return 3\n"
    assert built(old, new).functions == {"shop.py": ["Cart.put", "added"], "other.py": []}


def test_a_name_that_changed_changes_whoever_uses_it_and_data_changes_all():
    found = built("RATE = 1\nKEPT = 2\n", "RATE = 3\nKEPT = 2\n")
    assert (found.uses, found.values) == (("RATE",), {"shop.py": ["RATE"]})
    assert built("import a\n", "import b as a\n").uses == ("a",)
    data = [FileChange("words.txt", False)]
    assert built("", "", more=data).functions == {"shop.py": ["*"], "other.py": ["*"]}
    assert built("", "", more=[FileChange("README.md", False)]).functions["shop.py"] == []
    assert built("", "register(1)\n").functions["other.py"] == ["*"]


def test_a_class_without_functions_is_not_seen_where_a_test_speaks_of_it():
    found = built("", "class Bare:\n    size = 1\n\ndef total():\n    return 1\n")
    assert found.hides({"Bare"})
    assert not found.hides({"total"})
    assert built("", "class Bare:\n    size = 1\n").hides(set())
    assert built("", "int x;", path="fast.c").hides(set())


def pooled(body, head=""):
    text = f"{head}def test_it(want=1):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    found = questions.pool_constants(text, ["test_it"], "POOL")
    return found, [found.constants[key] for key in found.wanted["test_it"]]


def test_constants_leave_the_text_and_those_that_are_asked_for_are_known():
    found, wanted = pooled("assert f(3) == [7, -8] and g() == 'tea'")
    assert wanted == [7, 8, "tea"]
    assert not any(word in found.text for word in ("3", "7", "8", "tea"))
    assert sorted(map(str, found.constants.values())) == ["3", "7", "8", "tea"]
    assert pooled("self.assertEqual(f(2), 5)")[1] == [5]
    assert pooled("wanted = 7\nassert f() == wanted")[1] == [7]
    assert pooled("text = 'a'\nassert back(f(text)) == text")[1] == []


def test_what_a_test_does_not_ask_for_stays_out_of_it():
    assert pooled("with pytest.raises(AssertionError):\n    assert f() == 3")[1] == []
    assert pooled("assert f() == 3 or g() == 4")[1] == []
    assert pooled("assert any(x == 3 for x in f())")[1] == []
    found, _ = pooled('"""words"""\nwith raises(E, match="no"):\n    f(f"{a:>3}")')
    assert found.constants == {}
    assert questions.pool_constants("def (", ["test_it"], "POOL") is None


def test_a_parameter_that_is_only_compared_is_asked_for():
    assert pooled("assert f(2) == want")[0].parameters == {"test_it": ["want"]}
    assert pooled("assert f(want) == want")[0].parameters == {"test_it": []}


def test_values_that_stand_beside_each_other_are_known_and_bounds_are_not():
    lines = [
        "f() in (3, -4)",
        "g() == 5 or g() == 'a'",
        "not (g() != 1 and g() != 2)",
        "7 < h() and h() < 8",
        "k() == [x, 9]",
    ]
    text = "def test_it():\n" + "".join(f"    assert {line}\n" for line in [*lines, "f() in {6: 0, 7: 0}"])
    found = questions.pool_constants(text, ["test_it"], "POOL").beside
    assert sorted(found) == [["1", "2"], ["3", "-4"], ["5", "'a'"], ["6", "7"]]
    script = (
        "assert.ok(['a', \"b\"].includes(f()));\nassert.ok([[1, 2], [1, 3]].map(String).includes(g()));\n[1]; [x, 2];\n"
    )
    assert written_beside([script]) == ['["a", "b"]', "[[1, 2], [1, 3]]", "[1, 2]", "[1, 3]"]
    assert written_beside(["assert.ok(got === 3 || got == 'b');\ngot === 3;\n"]) == ['[3, "b"]']


def test_what_is_lost_is_refused_only_where_it_is_seen_twice():
    one, two = (
        {"where": "shop.py:worth", "how": ["way", "one more"]},
        {"where": "shop.py:worth", "how": ["put", "None"]},
    )
    assert held_to([one, two], {"lost": []}, {"lost": [one, two]}) == [one, two]
    assert held_to([one, two], {"lost": [one]}, {"lost": [one, two]}) == [two], "the old test does not mind it itself"
    assert held_to([one, two], {"lost": []}, {"lost": [one]}) == [one], "the new test minds it after all"
    assert held_to([one, two], {"dropped": [one]}, {"dropped": [one, two]}, "dropped") == [two], "it keeps no name"
    assert held_to([one], None, {"why": "no answer"}) == [one], "a run without an answer excuses nothing"


def test_figures_are_told_and_only_a_code_refuses():
    one = questions.Opinion("", asked=1, of=3, forks=2, seeds=(10, 255))
    assert one.figures() == "1 of 3 questions, 2 forks, seed a-ff"
    assert questions.judge_opinion("t", one) == []
    assert [found.warning for found in questions.judge_opinion("t", one._replace(code="never-entered"))] == [False]
    assert [found.warning for found in questions.judge_opinion("t", None)] == [True]
