"""Sources whose functions answer otherwise, for languages whose runner is not asked from inside: each alteration is a tree and a run."""

from __future__ import annotations

import json
import re
from string import Template

from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.sealed import random_word

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from handoff.checks.findings import FileChange

UP, DOWN = "a little more", "a little less"
MORE, LESS = "some more, or something else", "some less, or the other way round"
SIGN, OTHER_SIGN = "its sign alone", "the other sign"
NAMED, BROKEN = "a value that tests name", "an error"
BESIDE, BESIDE_STRANGE = "a value that tests write beside it", "something strange where tests write others beside it"
SCRIPT = re.compile(r"(?<!\.d)\.(?:[cm]?[jt]sx?)$")
GO = re.compile(r"(?<!_test)\.go$")
_SAYS_NOTHING = re.compile(r"\.(?:md|rst|txt|lock)$|(?:^|/)(?:LICENSE|CHANGELOG|README)[^/]*$")
_TOP = re.compile(r"^(?=\S)(?![\s})\];.])", re.MULTILINE)
_FUNCTION = re.compile(r"^export\s+(?:default\s+)?(?:async\s+)?function\s*\*?\s*([A-Za-z_$][\w$]*)")
_VALUE = re.compile(r"^export\s+(?:const|let|var)\s+([A-Za-z_$][\w$]*)")
_CLASS = re.compile(r"^export\s+(?:default\s+)?(?:abstract\s+)?class\s+([A-Za-z_$][\w$]*)")
_PLAIN = re.compile(r"^(?:async\s+)?(?:function\s*\*?|const|let|var|class)\s+([A-Za-z_$][\w$]*)")
_LIST = re.compile(r"^export\s*\{([^}]*)\}(?!\s*from)", re.MULTILINE)
_SET = re.compile(r"^(?:module\.)?exports\.([A-Za-z_$][\w$]*)\s*=(?!=)")
_WHOLE = re.compile(r"^module\.exports\s*=(?!=)", re.MULTILINE)
_QUIET = re.compile(
    r"^(?:import\b|//|/\*|\*|[\"']use strict|export\s+(?:type|interface)\b|(?:const|let|var)\s[^=]*=\s*require\()"
)
_EQUALS = re.compile(r"[!=]==?\s*(-?\d+(?:\.\d+)?|\"[^\"\\\n]*\")")
_LONGEST, _LONGEST_LIST, _MOST_LISTS = 80, 2000, 60
_NUMBERS = re.compile(r"(?<![\w.$])-?\d+(?:\.\d+)?(?![\w.])")
_WORDS = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'")


class Altered(Record):
    """Texts by path in which functions answer otherwise, and whether all that changed is among them."""

    texts: dict[str, str]
    whole: bool


def ways(named: Sequence[str], chance: random.Random) -> list[str]:
    """How answers are altered, in an order drawn anew: both sides, values that tests name, then further off."""
    near = chance.sample([UP, DOWN], 2)
    return [near[0], *([NAMED] if named else []), near[1], MORE, LESS]


def alter(
    changes: Iterable[FileChange], read: dict[str, str], how: str, chance: random.Random, named: Sequence[str] = ()
) -> Altered:
    """The product's files among the changes with altered answers of what changed in them; `read` are their texts now."""
    texts: dict[str, str] = {}
    whole = True
    for change in changes:
        after = read.get(change.path)
        if after is None or _SAYS_NOTHING.search(change.path):
            continue
        make = _script if SCRIPT.search(change.path) else _go if GO.search(change.path) else None
        text, complete = make(change.before or "", after, how, named, chance) if make is not None else ("", False)
        whole = whole and complete
        if text:
            texts[change.path] = text
    return Altered(texts, whole)


def written_beside(texts: Iterable[str]) -> list[str]:
    """Values that stand beside each other in these texts, as lists: written out as one, or compared with in one line."""
    found: dict[str, None] = {}
    for text in (one.replace("'", '"') for one in texts):
        for start in re.finditer(r"\[", text):
            try:
                value, _ = json.JSONDecoder().raw_decode(text, start.start())
            except (ValueError, RecursionError):
                continue
            if isinstance(value, list) and len(value) > 1:
                found[json.dumps(value)] = None
        for line in text.splitlines():
            values = _EQUALS.findall(line) if "||" in line or "&&" in line else []
            if len(set(values)) > 1:
                found[f"[{', '.join(dict.fromkeys(values))}]"] = None
    return [one for one in found if len(one) < _LONGEST_LIST][:_MOST_LISTS]


def named_values(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Numbers and words that stand in the new texts and in no old one."""
    return sorted(_values(new) - _values(old))[:60]


def _values(texts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        found |= set(_NUMBERS.findall(text))
        found |= {f'"{one or other}"' for one, other in _WORDS.findall(text) if len(one or other) < _LONGEST}
    return found


# --- JavaScript and TypeScript --------------------------------------------------------------------


# What an answer becomes: near by where it has a kind, an error where it has none, and no error where there was one.
_WRAP = Template("""
;const $put = [];
const $near = (got, deep) => {
  const said = JSON.stringify(got);
  for (const group of $put.length ? [] : $groups) {
    const other = group.find((one) => typeof one === typeof got && JSON.stringify(one) !== said);
    if (other !== undefined && group.some((one) => JSON.stringify(one) === said)) $put.push(other);
  }
  if ($broken && $beside && $put.length && typeof got === "number") return got * 3 + 1009;
  if ($broken && $beside && $put.length && typeof got === "string") return got + "zq";
  if ($broken && (!$beside || $put.length)) throw new Error("altered");
  if ($beside) return $put.length ? $put[0] : got;
  if ($sign) return typeof got === "number" && got ? $sign * Math.sign(got) : got;
  const named = $named.filter((one) => typeof one === typeof got && one !== got);
  if (named.length) return named[$seed % named.length];
  const some = Math.max(3, Math.round(Math.abs(got) / 50));
  if (typeof got === "number") return $more ? got + some : $less ? got - some : got + $step;
  if (typeof got === "bigint") return got + BigInt($step);
  if (typeof got === "boolean") return !got;
  const round = $less ? [...got].reverse().join("") : "";
  if (typeof got === "string") return $more ? "zq" : round && round !== got ? round : $step > 0 ? got + "q" : got.slice(0, -1) || "q";
  const every = $more;
  if (deep < 4 && Array.isArray(got)) {
    if (!got.length) return [0];
    if ($less) return got.slice(0, -1);
    const at = $seed % got.length;
    return got.map((one, number) => (every || number === at ? $near(one, deep + 1) : one));
  }
  if (deep < 4 && got && typeof got === "object" && [Object.prototype, null].includes(Object.getPrototypeOf(got))) {
    const keys = Object.keys(got);
    if (!keys.length) return { ...got, q: 0 };
    const chosen = keys[$seed % keys.length];
    const kept = keys.filter((key) => !$less || key !== chosen);
    return Object.fromEntries(kept.map((key) => [key, every || (!$less && key === chosen) ? $near(got[key], deep + 1) : got[key]]));
  }
  throw new Error("altered");
};
const $wrap = (made) => {
  if (typeof made !== "function") return made;
  if (/^class\\b/.test(Function.prototype.toString.call(made))) {
    for (const part of [made.prototype, made]) for (const name of Object.getOwnPropertyNames(part)) {
      const held = Object.getOwnPropertyDescriptor(part, name);
      if (name === "constructor" || !held.configurable) continue;
      if (typeof held.value === "function") Object.defineProperty(part, name, { ...held, value: $wrap(held.value) });
      if (typeof held.get === "function") Object.defineProperty(part, name, { ...held, get: $wrap(held.get) });
    }
    return made;
  }
  return new Proxy(made, {
    apply(target, self, given) {
      let got;
      if ($broken && !$beside) throw new Error("altered");
      try {
        got = Reflect.apply(target, self, given);
      } catch {
        return undefined;
      }
      if (got && typeof got.then === "function") return got.then((one) => $near(one, 0), () => undefined);
      return $near(got, 0);
    },
  });
};
""")


def _script(before: str, after: str, how: str, named: Sequence[str], chance: random.Random) -> tuple[str, bool]:
    old = set(_chunks(before))
    changed = [one for one in _chunks(after) if one not in old]
    exported = {name.split(" as ")[0].strip() for listed in _LIST.findall(after) for name in listed.split(",")}
    bound, put, complete = set(), set(), True
    for chunk in changed:
        if found := _FUNCTION.match(chunk) or _VALUE.match(chunk) or _CLASS.match(chunk):
            bound.add(found[1])
        elif found := _SET.match(chunk):
            put.add(found[1])
        elif (found := _PLAIN.match(chunk)) and found[1] in exported:
            bound.add(found[1])
        elif not _QUIET.match(chunk) and not _LIST.match(chunk):
            complete = False
    wide = bool(_WHOLE.search(after))
    if not (bound or put or wide):
        return "", False
    names = {name: "_" + random_word() for name in ("near", "wrap", "put")}
    given = ", ".join(one for one in named) if how in (NAMED, BESIDE, BESIDE_STRANGE) else ""
    filled = _WRAP.substitute(
        names,
        broken=str(how in (BROKEN, BESIDE_STRANGE)).lower(),
        beside=str(how in (BESIDE, BESIDE_STRANGE)).lower(),
        groups=f"[{given if how != NAMED else ''}]",
        more=str(how == MORE).lower(),
        less=str(how == LESS).lower(),
        sign={SIGN: "1", OTHER_SIGN: "-1"}.get(how, "0"),
        step="1" if how != DOWN else "-1",
        seed=str(chance.randrange(10**6)),
        named=f"[{given if how == NAMED else ''}]",
    )
    text = after
    for name in bound:
        text = re.sub(rf"^((?:export\s+)?)const(\s+{re.escape(name)}\b)", r"\1let\2", text, flags=re.MULTILINE)
        filled += f"// @ts-ignore\n{name} = {names['wrap']}({name});\n"
    filled += "".join(f"exports.{name} = {names['wrap']}(exports.{name});\n" for name in sorted(put))
    if wide and not put and not bound:
        each = f"for (const name of Object.keys(module.exports)) module.exports[name] = {names['wrap']}(module.exports[name])"
        filled += f"if (typeof module.exports === 'function') module.exports = {names['wrap']}(module.exports);\nelse {each};\n"
    return text + filled, complete and not wide


def _chunks(text: str) -> list[str]:
    """Statements at the top of a file, each with the lines that belong to it."""
    return [one.rstrip() for one in _TOP.split(text) if one.strip()]


# --- Go -------------------------------------------------------------------------------------------


_GO_FUNCTION = re.compile(
    r"^func (?P<on>\((?P<self>\w+)\s+[^)]*\)\s*)?(?P<name>\w+)\((?P<given>[^()]*)\)\s*(?P<kind>[\w.\[\]*]+)\s*\{"
)
_GO_NUMBERS = re.compile(r"^(?:u?int(?:8|16|32|64)?|float(?:32|64)|byte|rune)$")
_GO_ANSWERS = {
    "string": {UP: 'got + "q"', DOWN: '"q" + got', MORE: '"zq"', LESS: "got[:len(got)/2]"},
    "bool": dict.fromkeys((UP, DOWN, MORE, LESS), "!got"),
    "error": dict.fromkeys((UP, DOWN, MORE, LESS), "nil"),
    "number": {UP: "got + 1", DOWN: "got - 1", MORE: "got + 3", LESS: "got - 3"},
}
_GO_SIGNS = {
    SIGN: "if got > 0 {\n\t\treturn got / got\n\t}\n\tif got < 0 {\n\t\treturn 0 - got/got\n\t}\n\treturn got",
    OTHER_SIGN: "if got > 0 {\n\t\treturn 0 - got/got\n\t}\n\tif got < 0 {\n\t\treturn got / got\n\t}\n\treturn got",
}


def _go(before: str, after: str, how: str, named: Sequence[str], chance: random.Random) -> tuple[str, bool]:
    """Functions with one answer of a plain kind get another name, and one of their old name alters what they answer."""
    old = set(_chunks(before))
    text, more, complete = after, "", True
    for chunk in (one for one in _chunks(after) if one not in old):
        found = _GO_FUNCTION.match(chunk)
        said = _go_answer(found["kind"], how, named, chance) if found is not None else ""
        if found is None or not said or "..." in found["given"] or found["name"] in ("main", "init"):
            complete = complete and chunk.startswith(("import", "package", "//"))
            continue
        own, on = f"{random_word()}X", found["on"] or ""
        call = f"{found['self']}.{own}" if on else own
        words = ", ".join(one.split()[0] for one in found["given"].split(",") if one.strip())
        head = f"func {on}{found['name']}({found['given']})"
        more += f"\n{head} {found['kind']} {{\n\tgot := {call}({words})\n\t_ = got\n\t{said}\n}}\n"
        text = text.replace(head, f"func {on}{own}({found['given']})", 1)
    return (text + more if more else ""), complete


def _go_answer(kind: str, how: str, named: Sequence[str], chance: random.Random) -> str:
    """What stands in the place of an answer of this kind; nothing where it has no other."""
    if how == BROKEN:
        return 'panic("altered")'
    number = bool(_GO_NUMBERS.match(kind))
    answers = _GO_ANSWERS.get("number" if number else kind)
    if answers is None:
        return ""
    if how in _GO_SIGNS:
        return _GO_SIGNS[how] if number else "return got"
    fitting = (
        [one for one in named if one.startswith('"') == (kind == "string")]
        if kind in ("string", "int", "float64")
        else []
    )
    fitting = [one for one in fitting if kind != "int" or "." not in one]
    return f"return {chance.choice(fitting) if how == NAMED and fitting else answers.get(how, answers[UP])}"
