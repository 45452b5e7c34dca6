"""What a data file may ask for: nothing. A name in it is information until somebody types it.

A trace keeps which model made it, a lesson which tokenizer it wants. Such names are shown, and
written again; but no path is opened, no code is run and no network is used because a file says so.
"""

from __future__ import annotations

from collections.abc import Container

from attnviz.errors import AttnvizError


class NameInFile(str):
    """A name that a data file gave: text like any other, but whoever would load it refuses.

    What somebody types, or hands to the library, is a plain `str`, and takes its place.
    """

    __slots__ = ()


def name_in_file(name: object, known: Container[object] = ()) -> object:
    """A name as a file gives it; one of those that come with attnviz needs no permission.

    >>> type(name_in_file("minilm", ("minilm",))), type(name_in_file("owner/name", ("minilm",)))
    (<class 'str'>, <class 'attnviz.machine.permission.NameInFile'>)
    """
    return NameInFile(name) if isinstance(name, str) and name not in known else name


def refuse_name_in_file(name: str, kind: str, hint: str, *, about: str = "") -> None:
    """Refuse to load what only a file names; everything that loads by a name begins with this."""
    if isinstance(name, NameInFile):
        raise AttnvizError(
            f"the {kind} '{name}' is named in a data file, and attnviz loads only what you name "
            "yourself",
            hint,
            about=about,
        )
