"""What a model says of itself: all but its numbers, so that nobody waits for torch to hear it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import FEED_FORWARD, Settings, chosen_variant, head_width
from attnviz.wording.commands import option
from attnviz.wording.words import counted

ASKED_ALONE = ("model", "seed", "device", "dtype")  # what no model decides
CAN_BE_ASKED = (  # of a model that is there: what changes none of its numbers
    "scale",
    "causal",
    "window",
    "temperature",
    "soft_cap",
    "dropout",
    "without",
)
ITS_OWN = {  # what a model would have to be made with, and why it cannot be given now
    "embeddings": "names vectors, but {} has its own",
    "given": "names matrices, but {} has its own",
    "item": "chooses one of a batch of matrices, but {} has its own",
    "memory": "is a second sentence, but {} reads only one",
    "attention_only": "leaves feed-forward out, but {} was trained with it",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Card:
    """Words, settings, and what people should know of a model."""

    name: str
    about: str = ""  # what it does, in a sentence
    settings: Settings
    vocabulary: Vocabulary
    longest: int | None = None  # how many tokens it has positions for; None: any number
    dimensions: tuple[str, ...] = ()  # what the numbers of a vector mean, where somebody said it
    heads: Mapping[str, str] = field(default_factory=dict)  # "L0H1": what it looks for
    asks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of its queries and keys,
    hands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # and of its values
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was made: task, seed, steps, …

    @property
    def by_hand(self) -> bool:
        """Whether somebody wrote it: only then do the numbers of a vector mean something each."""
        return bool(self.dimensions)

    def chosen(self, asked: Settings) -> Settings:
        """The model's settings, with what is asked for that a model can do without learning it."""
        changes = {name: getattr(asked, name) for name in CAN_BE_ASKED}
        own = {name: each for name, each in changes.items() if each is not None}
        alone = {name: getattr(asked, name) for name in ASKED_ALONE}
        return replace(self.settings, tokenizer=self.vocabulary.tokenizer, **alone, **own)

    def refuse_others(self, asked: Mapping[str, Any]) -> None:
        """Refuse settings, by name, that the model has decided otherwise."""
        called = f"the model '{self.name}'"
        for name, value in asked.items():
            decided = self._decided(name)
            if name in (*ASKED_ALONE, *CAN_BE_ASKED) or value == decided:
                continue
            why = ITS_OWN[name].format(called) if name in ITS_OWN else ""
            raise AttnvizError(
                f"{option(name)} {why or f'is {value}, but {called} has {decided}'}",
                f"leave {option(name)} out, or --model",
                about=name,
            )

    def _decided(self, name: str) -> Any:
        """What a setting is in the model, also where it leaves it to its variant."""
        settings, variant = self.settings, chosen_variant(self.settings)
        told = {
            "tokenizer": self.vocabulary.tokenizer,
            "dim": settings.width,
            "heads": variant.heads,
            "kv_heads": variant.kv_heads or variant.heads,
            "head_dim": head_width(settings, variant, settings.width),
            "layers": settings.layers or "no block",
            "feed_forward": settings.feed_forward or FEED_FORWARD * settings.width,
        }
        return told.get(name, getattr(settings, name))

    def cut(self, text: str) -> Tokens:
        """A text in the model's words, of as many as it has positions for."""
        tokens = self.vocabulary.cut(text)
        if self.longest is not None and len(tokens) > self.longest:
            raise AttnvizError(
                f"the text has {counted(len(tokens), 'token')} ({self.vocabulary.tokenizer}), but "
                f"the model '{self.name}' only has positions for {self.longest}",
                "give a shorter text",
            )
        return tokens
