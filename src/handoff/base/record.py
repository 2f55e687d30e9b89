"""Records: named, immutable tuples that cost nothing to import.

`typing.NamedTuple` would do the same, but importing `typing` and building two dozen named tuples takes a third of the
time a light command may take to start. The type checker sees the real NamedTuple.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "Record"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    from collections import _tuplegetter

    class Record(tuple):
        """Fields are the annotations of the class, defaults the values assigned to them."""

        __slots__ = ()
        _fields = ()
        _defaults = ()

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            if cls._fields:  # a subclass of a record adds behaviour, not fields
                return
            fields = tuple(cls.__dict__.get("__annotations__") or cls.__annotations__)
            cls._defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
            for index, name in enumerate(fields):
                setattr(cls, name, _tuplegetter(index, name))
            cls._fields = cls.__match_args__ = fields

        def __new__(cls, *values, **named):
            fields = cls._fields
            if named or len(values) != len(fields):
                values = cls._complete(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _complete(cls, values, named):
            fields, defaults = cls._fields, cls._defaults
            if len(named) == len(fields) and not values:
                try:  # a whole row of the database: forty fields, many times a second
                    return list(map(named.__getitem__, fields))
                except KeyError:
                    pass  # one of them is not ours, as is told below
            if len(values) > len(fields):
                raise TypeError(f"{cls.__name__} takes {len(fields)} values, not {len(values)}")
            whole = list(values)
            for name in fields[len(values) :]:
                if name in named:
                    whole.append(named.pop(name))
                elif name in defaults:
                    whole.append(defaults[name])
                else:
                    raise TypeError(f"{cls.__name__} needs a value for '{name}'")
            if named:
                raise TypeError(f"{cls.__name__} has no field '{next(iter(named))}' left to set")
            return whole

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **named):
            for name in named:
                if name not in self._fields:
                    raise ValueError(f"{type(self).__name__} has no field '{name}'")
            return type(self)(*(named.get(name, old) for name, old in zip(self._fields, self, strict=True)))

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            inside = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({inside})"

        def __getnewargs__(self):
            return tuple(self)
