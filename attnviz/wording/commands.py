"""The command that makes something again, as it is typed: no defaults, no folders of a machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any

from attnviz.wording.printable import in_quotes

# Options whose values are files or folders.
PATHS = ("file", "out", "embeddings", "given", "trace", "model", "save", "from_")

OTHERWISE = {"source": "from"}  # options whose fields are called something else


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of attnviz, and what was chosen, by the names of the options."""

    name: str  # "run", "example show"
    argument: str | None = None  # the text, or the name of an example
    second: str | None = None  # another text
    options: Mapping[str, Any]

    def also(self, **options: Any) -> Command:
        """With more options, after those that there are."""
        return replace(self, options={**self.options, **options})

    @property
    def line(self) -> str:
        """
        >>> Command(name="run", argument="I am", options={"heads": 2, "causal": False}).line
        "attnviz run 'I am' --heads 2 --no-causal"
        """
        options = [word for item in self.options.items() for word in _spelled(*item)]
        texts = [each for each in (self.argument, self.second) if each is not None]
        if any(each.startswith("-") and each != "-" for each in texts):
            words = [*options, "--", *texts]  # or it would be taken for an option
        else:
            words = [*texts, *options]
        return " ".join(map(quoted, ["attnviz", *self.name.split(), *words]))


def chosen(*groups: Any) -> dict[str, Any]:
    """What differs from its default in some dataclasses whose fields are options."""
    return {
        each.name: getattr(group, each.name)
        for group in groups
        for each in fields(group)
        if getattr(group, each.name) != _default(each)
    }


def option(name: str) -> str:
    """
    >>> option("head_dim"), option("as_"), option("source")
    ('--head-dim', '--as', '--from')
    """
    return f"--{OTHERWISE.get(name, name).rstrip('_').replace('_', '-')}"


def quoted(word: str) -> str:
    """As a shell takes it; what cannot be seen, or is no UTF-8, is spelled out, to the byte.

    >>> quoted("I am"), quoted("a\\x1b[2J")
    ("'I am'", "$'a\\\\033[2J'")
    """
    return shlex.quote(word) if word.isprintable() else in_quotes(word)


def without_folders(path: str) -> str:
    """A path below this folder as it is; of any other only the name, which tells nobody's home.

    >>> without_folders("here/numbers.toml"), without_folders("/home/me/numbers.toml")
    ('here/numbers.toml', 'numbers.toml')
    """
    return Path(path).name if Path(path).is_absolute() or ".." in Path(path).parts else path


def _default(declared: Field[Any]) -> Any:
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return declared.default


def _spelled(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        yield option(name) if value else option(f"no_{name}")
        return
    for one in value if isinstance(value, (list, tuple)) else [value]:
        yield option(name)
        yield place_told(name, str(one)) if name in PATHS else str(one)


def place_told(name: str, path: str) -> str:
    """A path without folders; of a model it is no name of one that comes with attnviz, still.

    >>> place_told("model", "agreement"), place_told("model", "/home/me/agreement")
    ('agreement', './agreement')
    """
    alone = without_folders(path)
    return f"./{alone}" if name == "model" and alone != path else alone
