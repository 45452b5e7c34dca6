"""Models that somebody might name: those that come with attnviz, folders, files, damaged ones."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from attnviz.traces.models import folder
from attnviz.traces.models.model_names import find_model_path, shipped_names
from attnviz.traces.models.shipped import load_card
from attnviz.traces.models.vocabulary import Vocabulary
from tests.hostile import words
from tests.hostile.damage import damaged
from tests.small_transformers import EVERY, save
from tests.untrained import untrained_model

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"predicts": "next", "asks": ""},
    {"heads": 2, "kv_heads": 1, "positions": "rotary"},
    {"attention_only": True, "positions": "learned", "norm": "post"},
    {"layers": 1, "positions": "alibi", "variant": "causal"},
    {"layers": 3, "norm": "none", "feed_forward": 3, "scoring": "additive"},
)
TOY = "toy"
TRAINED = ("gpt2", "llama", "gemma2", "gpt-oss", "jamba", "bert", "bert", "distilbert", "t5",
           "bart", "bloom", "mamba")  # fmt: skip


@dataclass(frozen=True)
class Named:
    """A model as it is named, the files that it is in, and words that it mostly knows."""

    name: str
    files: dict[str, bytes]
    vocabulary: Vocabulary | None = None  # None: it reads whatever there is
    transformer: bool = False

    def text(self, random: Random) -> str:
        if self.vocabulary is None:
            return words.text(random)
        count = random.choice((1, 2, 4, 6, 8, 8, 8, 9, 20))
        between = "" if self.vocabulary.tokenizer == "chars" else " "
        return between.join(random.choices(self.vocabulary.words, k=count))


def named(random: Random, *, trained: float = 0.25) -> Named:
    """Mostly a whole one; with this chance a transformer."""
    if random.random() < trained:
        return _transformer(random)
    kind = random.random()
    if kind < 0.6:
        name = random.choice(shipped_names())
        return Named(name, {}, _vocabulary(name))
    return _by_hand(random) if kind < 0.75 else _folder(random)


@cache
def _vocabulary(name: str) -> Vocabulary:
    return load_card(name).vocabulary


def _by_hand(random: Random) -> Named:
    content = find_model_path(TOY).read_bytes()
    content = content if random.random() < 0.25 else damaged(".toml", content, random)
    return Named("mine.toml", {"mine.toml": content}, _vocabulary(TOY))


@cache
def _saved(shape: int) -> tuple[Vocabulary, dict[str, bytes]]:
    model = untrained_model(**SHAPES[shape])
    return model.vocabulary, folder.model_files(model)


def _folder(random: Random) -> Named:
    vocabulary, whole = _saved(random.randrange(len(SHAPES)))
    files = dict(whole)
    if random.random() < 0.6:
        name = random.choice([*files])
        files[name] = damaged(name, files[name], random)
        if random.random() < 0.05:
            del files[name]
    return Named("mine", {f"mine/{name}": content for name, content in files.items()}, vocabulary)


@cache
def transformer(name: str) -> dict[str, bytes]:
    """The files of a small one of a kind."""
    with tempfile.TemporaryDirectory() as at:
        folder = save(EVERY[name], Path(at))
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def _transformer(random: Random) -> Named:
    """MiniLM, or a small one of another kind, now and then with a file that is damaged."""
    if random.random() < 0.3:
        return Named("minilm", {}, transformer=True)
    files = dict(transformer(random.choice(TRAINED)))
    if random.random() < 0.2:
        name = random.choice([*files])
        files[name] = damaged(name, files[name], random)
        if random.random() < 0.2:
            del files[name]
    return Named("trained", {f"trained/{name}": each for name, each in files.items()}, None, True)
