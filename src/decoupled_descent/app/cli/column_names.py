"""Names of columns that differ from those of the training in capitals or blanks only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping


def renamed(wanted: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Names of a table, each with the name of the training that it stands for.

    A wanted name that the table lacks is matched if one other name has the same letters. Names
    that are wanted themselves, and names of which several have the same letters, are not matched.

    Example:
        >>> renamed(["age", "town"], ["AGE", "town", "Town "])
        {'AGE': 'age'}
    """
    wanted, names = list(wanted), list(names)
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if name not in wanted:
            alike[_letters(name)].append(name)
    rivals = [_letters(name) for name in wanted]
    return {
        alike[_letters(name)][0]: name
        for name in wanted
        if name not in names
        and len(alike[_letters(name)]) == 1
        and rivals.count(_letters(name)) == 1
    }


def note_on(matched: Mapping[str, str]) -> list[str]:
    """A sentence on names that were matched, if there are any."""
    if not matched:
        return []
    pairs = ", ".join(f"{found!r} is {name!r}" for found, name in list(matched.items())[:5])
    more = f" and {len(matched) - 5} more" if len(matched) > 5 else ""
    return [f"names of columns were matched without regard to capitals and blanks: {pairs}{more}"]


def spellings(name: str) -> list[str]:
    """A name with its usual capitals: those that a table may have instead.

    Example:
        >>> spellings("Price")
        ['Price', 'price', 'PRICE']
    """
    return list(dict.fromkeys([name, name.lower(), name.upper(), name.capitalize(), name.title()]))


def _letters(name: str) -> str:
    return " ".join(name.split()).casefold()
