"""Values as text, and other values of their kind. Stands alone."""

from __future__ import annotations

import contextlib
import copy
import enum
import itertools
import math
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import Any

    Ways = list[tuple[str, Any]]

_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_MOST_ITEMS, _MOST_CHARS, _DEEPEST, _MOST_UNLIKE = 60, 4000, 4, 8


def shown(value: Any, depth: int = 0) -> str:
    """A value as text without asking it anything: plain values as they are, of others the kind and what they hold."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)[:_MOST_CHARS]
    if depth >= _DEEPEST:
        return f"<{kind.__name__}>"
    if kind in (list, tuple, set, frozenset):
        parts = [shown(one, depth + 1) for one in list(value)[:_MOST_ITEMS]]
        return f"{kind.__name__}({', '.join(sorted(parts) if kind in (set, frozenset) else parts)})"
    if kind is dict:
        items = list(value.items())[:_MOST_ITEMS]
        return "{" + ", ".join(f"{shown(key, depth + 1)}: {shown(one, depth + 1)}" for key, one in items) + "}"
    held = _held(value)
    parts = [f"{name}={shown(one, depth + 1)}" for name, one in sorted(held.items())[:_MOST_ITEMS]]
    base = next((one for one in _PLAIN[:6] if isinstance(value, one)), None)
    if base is not None:
        parts.append(base.__repr__(value)[:_MOST_CHARS])
    return f"<{' '.join([kind.__name__, *parts])}>"[:_MOST_CHARS]


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an object, and of nothing that is code."""
    if isinstance(value, type) or callable(value) or type(value).__module__ == "builtins":
        return {}
    try:
        held = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        held = {}
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                held[name] = object.__getattribute__(value, name)
            except AttributeError:
                continue
    return {name: one for name, one in held.items() if isinstance(name, str)}


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value can be written down as text and read again."""
    if type(value) in _PLAIN:
        return True
    if type(value) in (list, tuple) and depth < _DEEPEST and len(value) <= _MOST_ITEMS:
        return all(is_plain(one, depth + 1) for one in value)
    return (
        type(value) is dict
        and depth < _DEEPEST
        and len(value) <= _MOST_ITEMS
        and all(is_plain(key, _DEEPEST) and is_plain(one, depth + 1) for key, one in value.items())
    )


def pours(value: Any, depth: int = 0) -> bool:
    """Whether a value is, or holds, what can be gone through only once."""
    if hasattr(value, "__next__"):
        return True
    inner = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    return depth < _DEEPEST and any(pours(one, depth + 1) for one in list(inner)[:_MOST_ITEMS])


def ways_of(value: Any, chance: random.Random, depth: int = 0) -> Ways:
    """Other values of the same kind, near by and on both sides; none where the kind has no other."""
    try:
        return _ways(value, chance, depth)
    except Exception:  # noqa: BLE001 - a value that cannot be altered is not asked about
        return []


def _ways(value: Any, chance: random.Random, depth: int) -> Ways:
    kind = type(value)
    if kind is bool:
        return [("negated", not value)]
    if isinstance(value, enum.Enum):
        others = [one for one in kind if one is not value]
        return [("another member", chance.choice(others))] if others else []
    if isinstance(value, int):
        number = int.__index__(value)
        near = {"one more": number + 1, "one less": number - 1, "two more": number + 2, "two less": number - 2}
        turned = int(str(abs(number))[::-1])
        more = [("negated", -number)] if number else []
        more += [("digits turned", turned)] if turned != abs(number) else []
        return [*near.items(), ("far", number * 10 + 7), *more]
    if isinstance(value, float):
        return _float_ways(float.__float__(value), chance)
    if isinstance(value, (str, bytes, bytearray)):
        return _text_ways(value, chance)
    if kind in (list, tuple, set, frozenset):
        items = list(value) if kind in (list, tuple) else sorted(value, key=shown)
        found = [(label, kind(one)) for label, one in _list_ways(items, chance, depth)]
        return [one for one in found if kind in (list, tuple) or one[0] not in ("turned", "doubled")]
    if isinstance(value, dict):
        return _dict_ways(value, chance, depth)
    return _other_ways(value, chance, depth)


def _other_ways(value: Any, chance: random.Random, depth: int) -> Ways:
    kind: Any = type(value)
    if isinstance(value, tuple) and hasattr(kind, "_replace"):
        return [
            (f"{name}: {label}", kind._replace(value, **{name: one}))
            for name in kind._fields
            for label, one in ways_of(getattr(value, name), chance, depth + 1)[:3]
        ]
    if hasattr(value, "__next__") and hasattr(value, "__iter__") and not hasattr(value, "fileno"):
        items = list(itertools.islice(value, _MOST_ITEMS))
        return [(label, itertools.chain(one, value)) for label, one in _list_ways(items, chance, depth)]
    return _object_ways(value, chance, depth)


def kin_of(value: Any, chance: random.Random) -> Any:
    """Quite another value that looks alike: letters and digits of the same kinds, round where it is; None where there is none."""
    if isinstance(value, (bytes, bytearray)):
        found = kin_of(value.decode("latin-1"), chance)
        return None if found is None else found.encode("latin-1")
    text = value if type(value) is str else repr(value)
    if type(value) not in (int, float, str) or (
        type(value) is float and not text.replace(".", "").strip("-").isdigit()
    ):
        return None
    if type(value) is str:
        made: Any = "".join(_letter_like(one, chance) for one in text)
    else:
        head = text.rstrip("0.")
        same = "".join(_letter_like(one, chance) for one in head) + text[len(head) :]
        longer = str(chance.randint(1, 9)) + text.removeprefix("-")
        made = type(value)(longer if value == 0 or chance.random() < 0.5 else same)  # noqa: PLR2004 - one or the other
    return None if made == value else made


def fits_all(value: Any, likes: list[Any], chance: random.Random) -> bool:
    """Whether a value says that it agrees with all that look like one of these, or like itself, whatever is drawn."""
    for one in [*(kind(value) for kind in (int, float, str) if isinstance(value, kind)), *likes]:
        others = [kin_of(one, chance) for _ in range(_MOST_UNLIKE)]
        if len(set(others)) > 1 and None not in others and any(_agrees(value, others, how) for how in _AGREEING):
            return True
    return False


def _agrees(value: Any, others: list[Any], how: Callable[[Any, Any], Any]) -> bool:
    try:
        return all(how(value, other) is True for other in others)
    except Exception:  # noqa: BLE001 - what cannot be compared agrees with nothing
        return False


def _against(name: str) -> Callable[[Any, Any], Any]:
    """Whether a value of a kind of its own says yes where the kind that it is made from says no."""

    def says(value: Any, other: Any) -> bool:
        base = next(kind for kind in (str, bytes, list, tuple, dict, set, frozenset) if isinstance(value, kind))
        return not getattr(base, name)(value, other) and bool(getattr(type(value), name)(value, other))

    return says


# How a test asks whether two values agree.
_AGREEING: tuple[Callable[[Any, Any], Any], ...] = (
    lambda value, other: value == other,
    lambda value, other: bool(abs(other - value) <= abs(other) / 1000),
    lambda value, other: bool(abs(value - other) <= abs(other) / 1000),
    lambda value, other: bool(value < other and value > other),
    *(_against(name) for name in ("__contains__", "startswith", "endswith")),
)


def _letter_like(one: str, chance: random.Random) -> str:
    kinds = ("bcdfghklmnprstvz", "BCDFGHKLMNPRSTVZ", "aeiou", "AEIOU", "123456789")
    found = next((kind for kind in kinds if one in kind), kinds[0] if one.islower() else "")
    return chance.choice([other for other in found if other != one]) if found else one


def _float_ways(number: float, chance: random.Random) -> Ways:
    if not math.isfinite(number) or number == 0:
        return [("more", chance.uniform(0.4, 9)), ("less", -chance.uniform(0.4, 9))]
    found: Ways = []
    for label, low, high in (("a good part", 0.05, 0.5), ("a little", 0.004, 0.02)):
        found += [(f"{label} more", number * (1 + chance.uniform(low, high)))]
        found += [(f"{label} less", number * (1 - chance.uniform(low, high)))]
    return [*found, ("negated", -number), ("far", number * 10 + 7)]


def _text_ways(value: Any, chance: random.Random) -> Ways:
    empty: Any = b"" if isinstance(value, (bytes, bytearray)) else ""
    found: Ways = [("one more", value + (b"q" if isinstance(value, (bytes, bytearray)) else "q"))]
    if value:
        at = chance.randrange(len(value))
        letters = [value[i : i + 1] for i in range(len(value))]
        pool = "abcdeghkmnpstuvwxyz" if isinstance(value, str) else b"abcdeghkmnpstuvwxyz"
        other = chance.choice([pool[i : i + 1] for i in range(len(pool)) if pool[i : i + 1] != letters[at].lower()])
        found = [("a letter", empty.join([*letters[:at], other, *letters[at + 1 :]])), *found]
        found.append(("one letter less", empty.join([*letters[:at], *letters[at + 1 :]])))
        if value.swapcase() != value:
            found.append(("case", value.swapcase()))
        if value[::-1] != value:
            found.append(("turned", value[::-1]))
    return found


def _list_ways(items: list[Any], chance: random.Random, depth: int) -> Ways:
    if not items:
        return [("an item more", [0])]
    found: Ways = []
    if depth < _DEEPEST:
        order = list(range(len(items)))
        chance.shuffle(order)
        for at in order[:5]:
            for label, one in ways_of(items[at], chance, depth + 1)[:3]:
                found.append((f"item: {label}", [*items[:at], one, *items[at + 1 :]]))
            if found:
                break
    at = chance.randrange(len(items))
    found += [("an item less", [*items[:at], *items[at + 1 :]]), ("doubled", [*items, items[at]])]
    return [*found, ("turned", items[::-1])] if len(items) > 1 and shown(items) != shown(items[::-1]) else found


def _dict_ways(value: Any, chance: random.Random, depth: int) -> Ways:
    if not value:
        found = _copy(value)
        found["q"] = 0
        return [("an item more", found)]
    ways: Ways = []
    keys = list(value)
    chance.shuffle(keys)
    for key in keys[:5] if depth < _DEEPEST else ():
        for label, one in ways_of(value[key], chance, depth + 1)[:3]:
            other = _copy(value)
            other[key] = one
            ways.append((f"item: {label}", other))
        if ways:
            break
    less = _copy(value)
    del less[keys[0]]
    return [*ways, ("an item less", less)]


def _object_ways(value: Any, chance: random.Random, depth: int) -> Ways:
    """A number or a moment of another kind moved on; of an object a copy with one attribute altered."""
    if callable(value) or isinstance(value, type) or depth >= _DEEPEST:
        return []
    if hasattr(value, "isoformat") or hasattr(value, "total_seconds"):
        import datetime as dt

        step = dt.timedelta(days=1) if hasattr(value, "year") else dt.timedelta(seconds=61)
        return [("later", value + step), ("earlier", value - step)]
    if hasattr(value, "__fspath__"):
        return [("a name", type(value)(os.fspath(value) + "q"))]
    held = _held(value)
    names = sorted(held)
    chance.shuffle(names)
    found: Ways = []
    for name in names[:8]:
        for label, one in ways_of(held[name], chance, depth + 1)[:3]:
            other = _copy(value)
            object.__setattr__(other, name, one)
            found.append((f"{name}: {label}", other))
    if not found and hasattr(value, "__add__") and not held:
        found = [("one more", value + 1), ("one less", value - 1)]
    return found


def _copy(value: Any) -> Any:
    """A copy that leaves nothing behind: `copy` notes the slots of a class on that class, where `dir` shows them."""
    kind = type(value)
    noted = "__slotnames__" in vars(kind)
    try:
        return copy.copy(value)
    finally:
        if not noted and "__slotnames__" in vars(kind):
            del kind.__slotnames__


def strange(value: Any) -> Any:
    """A value of the same kind that nobody has in mind; None for kinds that have none."""
    if isinstance(value, (int, float)):
        return value * 3 + 1009
    ends: dict[type, Any] = {str: "zq", bytes: b"zq", list: ["zq"], tuple: ("zq",)}
    return value + ends[type(value)] if type(value) in ends else None


def number_of(one: dict[str, Any]) -> Any:
    """The number a question was answered with; None where it was anything else."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            value = kind(one["plain"] or "")
            return value if math.isfinite(value) else None
    return None


def is_asked_for(value: Any) -> bool:
    return isinstance(value, (int, float, str, bytes)) and not isinstance(value, bool)


class Pool:
    """The constants of the new tests, which stand neither in their text nor in their code; it fills after collection."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.seen: dict[str, Any] = {}

    def fill(self, values: dict[str, Any]) -> None:
        self._values = {key: bytes(one[0]) if isinstance(one, list) else one for key, one in values.items()}

    def __getitem__(self, key: str) -> Any:
        value = self.seen[key] = self._values[key]
        return value

    def move(self, key: str, other: Callable[[Any], Any]) -> bool:
        """Another value in the place of one of them."""
        made = other(self._values[key])
        self._values[key] = self._values[key] if made is None else made
        return made is not None
