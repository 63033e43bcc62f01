"""What a ticket keeps of a context that is any Python object: a copy, so that nobody can change what will be learned.

People fill one buffer again and again, and go on working with their dictionaries. Feedback may come days later, and is
learned with the context as it was when the decision was made.
"""

from __future__ import annotations

import copy
import datetime
from typing import Any

import numpy as np

from belated.errors import InvalidArgument

#: What cannot change, and is kept as it is.
FIXED = frozenset((type(None), bool, int, float, complex, str, bytes, frozenset, datetime.date, datetime.datetime))


def kept(value: Any, name: str = "context") -> Any:
    """A copy that shares nothing changeable with what was given.

    Text and numbers are kept as they are. Dictionaries, lists, tuples and arrays are copied, within each other as well,
    which takes about a microsecond for ten features. All else is copied by `copy.deepcopy`: some ten microseconds for a
    sparse row, and for an object with many others behind it as long as it takes to copy them all. An object that never
    changes says so to Python: `def __deepcopy__(self, memo): return self`.

    >>> row = {"age": 31, "tags": ["new"]}
    >>> mine = kept(row)
    >>> row["tags"].append("late")
    >>> mine
    {'age': 31, 'tags': ['new']}
    """
    kind = type(value)
    if kind in FIXED or isinstance(value, np.generic):
        return value
    if kind is dict:
        mine = value.copy()
        for key, item in mine.items():
            if type(item) not in FIXED:
                mine[key] = kept(item, name)  # no key is added: this may be done on the way
        return mine
    if kind is list:
        return [item if type(item) in FIXED else kept(item, name) for item in value]
    if kind is tuple:
        return tuple([item if type(item) in FIXED else kept(item, name) for item in value])
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise InvalidArgument(
            f"{name} must be something that can be copied, because it is kept until its feedback comes, got an object "
            f"of {kind.__module__}.{kind.__qualname__}: {error}"
        ) from error
