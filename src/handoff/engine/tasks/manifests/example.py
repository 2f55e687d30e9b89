"""A complete manifest with a word on every key; it runs as it is printed."""

from __future__ import annotations

EXAMPLE = '''\
# A batch: one task split into parts that run side by side, and the fan-in that brings them together.
# Check and start it with:  handoff batch run split.toml --agents claude=2,codex
# JSON with the same keys is understood too.
schema_version = 2
batch_id = "greeting"          # lowercase letters, digits and '-', 2 to 60 characters
fan_in_task = "greeting-join"  # the task that brings the parts together
split_rationale = "each part is a file of its own"     # words for whoever brings it together
timeout_hours = 3              # after this you are told that it is late
land = "all"                   # all: nothing lands until everything is green; in-order: each part as soon as it is green
check = "test -s greeting/hello.txt && test -s greeting/world.txt"  # the whole; left out: the project's own test suite
# agent = "claude"             # for every part; a part may name another; left out: any that works
# labels = ["gpu"]             # what a machine must have

[amdahl_estimate]
serial_minutes = 5             # what cannot run side by side: bringing it together
estimated_speedup = 1.8        # compared with what was measured: handoff batch report

[[sub_tasks]]
id = "hello"
brief = """
Write greeting/hello.txt: one line that greets the reader.
"""
estimated_minutes = 10
file_ownership = [{ type = "exact", path = "greeting/hello.txt" }]   # one file; nobody else may own it
needs = ["greeting/hello.txt"] # what it must be able to change: checked against what it owns
check = "test -s greeting/hello.txt"                                 # exit 0 means done

[[sub_tasks]]
id = "world"
brief = "Write greeting/world.txt: one line that names whom the greeting is for."
estimated_minutes = 10
file_ownership = [{ type = "glob", path = "greeting/world*.txt" }]   # '*' in a name, '**' over folders
check = "test -s greeting/world.txt"
# race = 3                     # so many do it, each in a clone of its own; the best by evidence lands: ["claude", "codex"] names them

[[sub_tasks]]
id = "guide"
brief = "Write docs/greeting/guide.md: how both files are used."
estimated_minutes = 5
depends_on = ["hello", "world"]                                      # begins with their work in its clone
file_ownership = [{ type = "prefix", path = "docs/greeting/" }]      # a folder, with its '/'
check = "test -s docs/greeting/guide.md"
'''
