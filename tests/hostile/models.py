"""Models that somebody might name: those that come with attnviz, folders, files, damaged ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from attnviz.traces.models import folder
from attnviz.traces.models.names import names, place_of
from attnviz.traces.models.shipped import card_of
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.trained.place import MINILM
from tests import small_transformers
from tests.hostile import contents, words
from tests.untrained import untrained

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"predicts": "next", "asks": ""},
    {"heads": 2, "kv_heads": 1, "positions": "rotary"},
    {"attention_only": True, "positions": "learned", "norm": "post"},
    {"layers": 1, "positions": "alibi", "variant": "causal"},
    {"layers": 3, "norm": "none", "feed_forward": 3, "scoring": "additive"},
)
TOY = "toy"
SMALL = ("gpt2", "bert", "t5")


@dataclass(frozen=True)
class Named:
    """A model as it is named, the files that it is in, and words that it mostly knows."""

    name: str
    files: dict[str, bytes]
    vocabulary: Vocabulary | None  # None: a transformer's, which takes any text

    def text(self, random: Random) -> str:
        if self.vocabulary is None:
            return words.text(random)
        count = random.choice((1, 2, 4, 6, 8, 8, 8, 9, 20))
        between = "" if self.vocabulary.tokenizer == "chars" else " "
        return between.join(random.choices(self.vocabulary.words, k=count))


def named(random: Random) -> Named:
    """Mostly a whole one."""
    kind = random.random()
    if kind < 0.15:
        return _transformer(random)
    if kind < 0.65:
        name = random.choice(names())
        return Named(name, {}, _vocabulary(name))
    return _by_hand(random) if kind < 0.75 else _folder(random)


@cache
def _vocabulary(name: str) -> Vocabulary:
    return card_of(name).vocabulary


def _by_hand(random: Random) -> Named:
    content = contents.lined(place_of(TOY).read_bytes(), random)
    return Named("mine.toml", {"mine.toml": content}, _vocabulary(TOY))


@cache
def _saved(shape: int) -> tuple[Vocabulary, dict[str, bytes]]:
    model = untrained(**SHAPES[shape])
    return model.vocabulary, folder.contents(model)


def _transformer(random: Random) -> Named:
    """One that was trained; and small ones that transformers wrote, now and then damaged."""
    if random.random() < 0.3:
        return Named(MINILM, {}, None)
    files = dict(_small(random.choice(SMALL)))
    folder, several = "small", random.randrange(10**9)
    if random.random() < 0.3:
        folder = f"small{several}"  # or what was loaded before would be taken again
        name = random.choice([*files])
        files[name] = contents.changed(name, files[name], random)
        if random.random() < 0.2:
            del files[name]
    return Named(folder, {f"{folder}/{name}": each for name, each in files.items()}, None)


@cache
def _small(name: str) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        made = small_transformers.save(small_transformers.KINDS[name], Path(folder))
        return {each.name: each.read_bytes() for each in made.iterdir()}


def _folder(random: Random) -> Named:
    vocabulary, whole = _saved(random.randrange(len(SHAPES)))
    files = dict(whole)
    if random.random() < 0.6:
        name = random.choice([*files])
        files[name] = contents.changed(name, files[name], random)
        if random.random() < 0.05:
            del files[name]
    return Named("mine", {f"mine/{name}": content for name, content in files.items()}, vocabulary)
