"""The command that makes something again, as it is typed: no defaults, no folders of a machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any

from attnviz.wording.printable import in_quotes, out_of_quotes

# Options whose values are files or folders.
PATHS = ("file", "out", "embeddings", "given", "trace", "model", "save", "from_")

# The commands that make traces, and what can be chosen of them; but for what runs Python.
OF_TRACES = ("run", "inspect", "steps", "compare", "example show")
FLAGS = (
    "attention_only", "causal", "curves", "footnote", "full", "hide_first", "hide_special", "json",
    "log", "mean", "no_pager", "numbers", "predict", "quiet", "renormalise", "scale", "transparent",
    "truncate", "verify", "words",
)  # fmt: skip
CHOICES = (
    "activation", "as_", "attention", "by", "colors", "device", "digits", "dim", "dpi", "dropout",
    "dtype", "embeddings", "feed_forward", "file", "generate", "given", "head", "head_dim", "heads",
    "item", "key", "kv_heads", "layer", "layers", "limit", "memory", "merge", "model", "norm",
    "out", "position_base", "positions", "query", "reference", "repeats", "scoring",
    "seconds_per_step", "seed", "show", "size", "soft_cap", "source", "step", "target",
    "temperature", "text_size", "theme", "title", "to", "tokenizer", "toward", "trace", "values",
    "variant", "weigh", "window", "without",
)  # fmt: skip
_WORD = re.compile(  # as `quoted` spells it, and the space behind it
    r"""([\w@%+=:,./-]+|'[^']*'(?:"'"'[^']*')*|\$'[^\\']*(?:\\.[^\\']*)*')(?: |\Z)""", re.ASCII
)

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


def command_in(line: str) -> Command | None:
    """The command of attnviz that a line holds, if it is nothing but one.

    What a file says of how it was made is a stranger's text, which people copy into a shell. So it
    has to be, letter for letter, what attnviz itself writes: a command that makes traces, options
    that there are, each word quoted. Then a shell finds nothing to do in it but to run attnviz.
    Its files, those that are read and those that are written, are below the folder that it runs
    in; and it runs no Python, for which there are --trust-remote-code and --learn alone. It may
    name a model of a hub, which is downloaded by whoever runs it.

    >>> command_in("attnviz run 'I am' --heads 2").options
    {'heads': ['2']}
    >>> [command_in(f"attnviz run 'I am'{more}") for more in ("; ls", " | sh", " --out ../x.png")]
    [None, None, None]
    """
    words = _words(line)
    start = 3 if words[1:2] == ["example"] else 2
    name, rest = " ".join(words[1:start]), iter(words[start:])
    options: dict[str, Any] = {}
    texts: list[str] = []
    for word in rest:
        if word == "--":
            texts.extend(rest)
        elif not word.startswith("--"):
            texts.append(word)
        elif word in _FLAGS:
            options |= _FLAGS[word]
        elif word in _CHOICES:
            options.setdefault(_CHOICES[word], []).append(next(rest, ""))
        else:
            return None
    argument, second = [*texts, None, None][:2]
    found = Command(name=name, argument=argument, second=second, options=options)
    return found if name in OF_TRACES and found.line == line else None


def _words(line: str) -> list[str]:
    """The words of a line that `quoted` spelled; of any other those up to what it did not."""
    found, place = [], 0
    while match := _WORD.match(line, place):
        place, spelled = match.end(), match[1]
        if spelled.startswith("$"):
            found.append(out_of_quotes(spelled))
        else:
            found.append(spelled.replace("'\"'\"'", "\0").replace("'", "").replace("\0", "'"))
    return found


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


_CHOICES = {option(name): name for name in CHOICES}
_FLAGS = {option(f"no_{name}"): {name: False} for name in FLAGS} | {
    option(name): {name: True} for name in FLAGS
}


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
