"""A manifest is trusted whole or not at all, and each fault says where it is and how to fix it."""

from __future__ import annotations

import copy
import json

import pytest

from handoff.base.errors import UserError
from handoff.engine.work.tasks.manifests import plain_path, read_manifest

GOOD = {
    "schema_version": 2,
    "batch_id": "login-split",
    "fan_in_task": "login-join",
    "next_after_fanin": "release",
    "split_rationale": "three folders",
    "amdahl_estimate": {"estimated_speedup": 2.1, "serial_minutes": 10},
    "timeout_hours": 2,
    "sub_tasks": [
        {
            "id": "form",
            "brief": "Build the form.",
            "estimated_minutes": 30,
            "file_ownership": [{"type": "prefix", "path": "src/form/"}],
            "depends_on": [],
        },
        {"id": "api", "brief": "Build the API.", "file_ownership": [{"type": "glob", "path": "src/api/*.py"}]},
        {
            "id": "docs",
            "brief": "Write it down.",
            "file_ownership": [{"type": "exact", "path": "docs/login.md"}],
            "depends_on": ["form", "api"],
        },
    ],
}


def write(tmp_path, value, name="m.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return str(path)


def with_change(change):
    value = copy.deepcopy(GOOD)
    change(value)
    return value


def line_of(path, needle):
    with open(path, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if needle in line)


def test_a_manifest_of_the_reference_is_read_as_it_stands(tmp_path):
    manifest = read_manifest(write(tmp_path, GOOD))
    assert (manifest.batch_id, manifest.fan_in_task, manifest.timeout_hours) == ("login-split", "login-join", 2.0)
    assert [sub.id for sub in manifest.sub_tasks] == ["form", "api", "docs"]
    assert manifest.sub_tasks[2].depends_on == ("form", "api")
    assert manifest.sub_tasks[0].owns[0] == "src/form/"
    assert manifest.unknown == ()


def test_the_same_manifest_may_be_written_in_toml(tmp_path):
    path = write(
        tmp_path,
        """schema_version = 2
batch_id = "login-split"
fan_in_task = "login-join"

[[sub_tasks]]
id = "form"
brief = "Build the form."
file_ownership = [{ type = "prefix", path = "src/form/" }]

[[sub_tasks]]
id = "api"
brief = "Build the API."
[[sub_tasks.file_ownership]]
type = "exact"
path = "src/api.py"
""",
        "m.toml",
    )
    manifest = read_manifest(path)
    assert [sub.id for sub in manifest.sub_tasks] == ["form", "api"]
    assert manifest.sub_tasks[1].owns == ("src/api.py",)


def sub(index, key, value):
    def change(manifest):
        manifest["sub_tasks"][index][key] = value

    return change


def top(key, value):
    def change(manifest):
        manifest[key] = value

    return change


def without(*place):
    def change(manifest):
        for step in place[:-1]:
            manifest = manifest[step]
        del manifest[place[-1]]

    return change


def owns(path, kind="exact"):
    return sub(1, "file_ownership", [{"type": kind, "path": path}])


FAULTS = [
    (top("schema_version", 1), "schema_version: it must be 2"),
    (top("schema_version", True), "schema_version: it must be 2"),
    (without("schema_version"), "schema_version: it must be 2"),
    (without("batch_id"), "batch_id: it is missing"),
    (top("batch_id", 7), "batch_id: it is a number, not a text"),
    (top("batch_id", "Big Batch"), "batch_id: 'Big Batch' cannot name a batch"),
    (top("fan_in_task", "../../../x"), "fan_in_task: '../../../x' cannot name a task"),
    (without("fan_in_task"), "fan_in_task: it is missing"),
    (top("fan_in_task", "api"), "sub_tasks[1].id: 'api' is also the fan_in_task"),
    (top("timeout_hours", 0), "timeout_hours: 0 is out of range"),
    (top("timeout_hours", "3"), "timeout_hours: it is a text, not a number"),
    (top("amdahl_estimate", [1]), "amdahl_estimate: it is a list, not an object"),
    (top("workspace", "/no/such/folder"), "workspace: there is no folder /no/such/folder"),
    (top("sub_tasks", {}), "sub_tasks: it is an object, not a list"),
    (without("sub_tasks"), "sub_tasks: it is missing"),
    (top("sub_task", []), "sub_task: unknown key"),
    (sub(1, "depend_on", []), "sub_tasks[1].depend_on: unknown key"),
    (without("sub_tasks", 1, "id"), "sub_tasks[1].id: it is missing"),
    (sub(1, "id", "form"), "sub_tasks[1].id: 'form' is already the id of sub_tasks[0]"),
    (sub(1, "id", "form-done"), "sub_tasks[1].id: 'form-done' cannot be kept apart from the report of 'form'"),
    (sub(1, "id", "x"), "sub_tasks[1].id: 'x' cannot name a sub-task"),
    (without("sub_tasks", 1, "brief"), "sub_tasks[1].brief: it is missing"),
    (sub(1, "brief", "  "), "sub_tasks[1].brief: it is empty"),
    (sub(1, "estimated_minutes", -1), "sub_tasks[1].estimated_minutes: -1 is out of range"),
    (without("sub_tasks", 1, "file_ownership"), "sub_tasks[1].file_ownership: it is missing"),
    (sub(1, "file_ownership", []), "sub_tasks[1].file_ownership: it is empty"),
    (sub(1, "file_ownership", "src/"), "sub_tasks[1].file_ownership: it is a text, not a list"),
    (sub(1, "file_ownership", ["src/"]), "sub_tasks[1].file_ownership[0]: it is a text, not an object"),
    (sub(1, "file_ownership", [{"path": "a"}]), "sub_tasks[1].file_ownership[0].type: it is missing"),
    (owns("a", "folder"), "sub_tasks[1].file_ownership[0].type: 'folder' is not a type of ownership"),
    (owns("../../x"), "sub_tasks[1].file_ownership[0].path: '../../x' leaves its folder"),
    (owns("a/../b"), "sub_tasks[1].file_ownership[0].path: 'a/../b' leaves its folder"),
    (owns("/etc/passwd"), "sub_tasks[1].file_ownership[0].path: '/etc/passwd' is an absolute path"),
    (owns(""), "sub_tasks[1].file_ownership[0].path: it is empty"),
    (owns(3), "sub_tasks[1].file_ownership[0].path: it is a number, not a text"),
    (owns("src", "prefix"), "sub_tasks[1].file_ownership[0].path: the prefix 'src' does not end with '/'"),
    (owns("src/", "exact"), "sub_tasks[1].file_ownership[0].path: 'src/' is a folder"),
    (owns(".git/hooks/x"), "sub_tasks[1].file_ownership[0].path: '.git/hooks/x' is git's own folder"),
    (sub(1, "depends_on", ["nobody"]), "sub_tasks[1].depends_on: there is no sub-task 'nobody'"),
    (sub(1, "depends_on", ["api"]), "sub_tasks[1].depends_on: a sub-task cannot wait for itself"),
    (sub(1, "depends_on", "form"), "sub_tasks[1].depends_on: it is not a list"),
    (sub(0, "depends_on", ["docs"]), "these wait for each other: form -> docs -> form"),
]


@pytest.mark.parametrize(("change", "told"), FAULTS, ids=[told for _, told in FAULTS])
def test_a_fault_names_its_place_and_a_fix(tmp_path, change, told):
    path = write(tmp_path, with_change(change))
    with pytest.raises(UserError) as caught:
        read_manifest(path)
    assert told in caught.value.message
    assert caught.value.message.startswith(path + ":")
    assert caught.value.hint
    assert "othing was written" in caught.value.hint


def test_the_line_of_a_fault_is_the_line_in_the_file(tmp_path):
    path = write(tmp_path, with_change(owns("../../x")))
    with pytest.raises(UserError, match=f":{line_of(path, '../../x')}: "):
        read_manifest(path)


def test_the_line_of_a_fault_is_found_in_toml_too(tmp_path):
    text = (
        'schema_version = 2\nbatch_id = "b1"\nfan_in_task = "join"\n'
        '[[sub_tasks]]\nid = "one"\nbrief = "x"\nfile_ownership = [{ type = "exact", path = "a" }]\n'
        '[[sub_tasks]]\nid = "two"\nbrief = "x"\n[[sub_tasks.file_ownership]]\ntype = "exact"\npath = "../b"\n'
    )
    path = write(tmp_path, text, "m.toml")
    with pytest.raises(UserError, match=f"m.toml:{line_of(path, '../b')}: "):
        read_manifest(path)


def test_all_faults_are_told_at_once(tmp_path):
    manifest = with_change(top("batch_id", 7))
    manifest["sub_tasks"][0]["brief"] = ""
    manifest["sub_tasks"][2]["id"] = "B"
    with pytest.raises(UserError) as caught:
        read_manifest(write(tmp_path, manifest))
    for told in ("has 3 faults", "batch_id: ", "sub_tasks[0].brief: ", "sub_tasks[2].id: "):
        assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "holds a list"),
        ("", "not valid JSON"),
        ('{"a": 1,}', ":1: not valid JSON"),
        ('{"batch_id": "a1", "batch_id": "b1"}', "the key 'batch_id' stands twice"),
        ('{"timeout_hours": NaN}', "NaN is not a number"),
        ("[" * 200_000, "nested too deeply"),
    ],
)
def test_text_that_is_no_manifest_is_an_error_with_a_hint(tmp_path, text, told):
    with pytest.raises(UserError) as caught:
        read_manifest(write(tmp_path, text))
    assert told in caught.value.message
    assert caught.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no\.json"):
        read_manifest(str(tmp_path / "no.json"))


def test_a_foreign_key_is_kept_and_told_but_does_not_stop(tmp_path):
    manifest = read_manifest(write(tmp_path, with_change(top("x_ticket", "T-9"))))
    assert manifest.unknown == ("x_ticket",)
    assert manifest.raw["x_ticket"] == "T-9"


def test_a_part_that_only_reads_owns_nothing(tmp_path):
    def change(manifest):
        manifest["sub_tasks"][1] = {"id": "api", "brief": "Look.", "read_only": True}

    assert read_manifest(write(tmp_path, with_change(change))).sub_tasks[1].owns == ()


def test_a_circle_of_ten_thousand_parts_is_named(tmp_path):
    parts = [
        {
            "id": f"p-{i}",
            "brief": "x",
            "file_ownership": [{"type": "exact", "path": f"f{i}"}],
            "depends_on": [f"p-{i + 1}"],
        }
        for i in range(10_000)
    ]
    parts[-1]["depends_on"] = ["p-9990"]
    with pytest.raises(UserError, match=r"p-9990 -> p-9991 -> .* -> p-9990"):
        read_manifest(write(tmp_path, with_change(top("sub_tasks", parts))))
    parts[-1]["depends_on"] = []
    assert len(read_manifest(write(tmp_path, with_change(top("sub_tasks", parts)))).sub_tasks) == 10_000


@pytest.mark.parametrize(("path", "plain"), [("./a//b", "a/b"), ("a/./b/", "a/b/"), ("a", "a"), ("./", "")])
def test_a_path_has_one_spelling(path, plain):
    assert plain_path(path) == plain
