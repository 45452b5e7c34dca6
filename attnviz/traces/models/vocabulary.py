"""The words that a model reads, and those that it answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from attnviz.errors import AttnvizError
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens

# What a place of a sentence is asked for: what follows it, or what belongs there.
Predicts = Literal["next", "here"]
PREDICTS: tuple[Predicts, ...] = get_args(Predicts)
MAX_LISTED_WORDS = 60  # words that an error lists


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Words, with a number each; several spellings may be one word to the model.

    >>> from attnviz import Vocabulary
    >>> Vocabulary(tokenizer="words", words=("the", "key"), spelled={"keys": "key"}).ids
    {'the': 0, 'key': 1, 'keys': 1}
    """

    tokenizer: str  # how a text is cut up: "words", "chars", …
    words: tuple[str, ...]  # that it reads; the place of each is its id
    answers: tuple[str, ...] = ()  # that it answers with; none: it predicts nothing
    predicts: Predicts = "next"
    spelled: Mapping[str, str] = field(default_factory=dict)  # other spellings: {"are": "?"}
    asks: str = ""  # a word that is put behind a text in which nothing is asked for
    asking: tuple[str, ...] = ()  # other words that ask for something, beside those in `spelled`

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of each word, and of every other way to spell it."""
        numbers = {word: number for number, word in enumerate(self.words)}
        return numbers | {spelled: numbers[word] for spelled, word in self.spelled.items()}

    @property
    def that_ask(self) -> tuple[str, ...]:
        """The words that ask for something; none, where every one does."""
        spelled = self.spelled if self.predicts == "here" else ()
        return tuple(word for word in (self.asks, *self.asking, *spelled) if word)

    def cut(self, text: str) -> Tokens:
        """A text in the model's words, with their ids; what it asks for stands in the end."""
        tokens = self._with_ids(tokenize(text, self.tokenizer, download=False))
        if not self.asks or self.asked(tokens.ids):
            return tokens
        return self._with_ids(tokenize(f"{text} {self.asks}", self.tokenizer, download=False))

    def asked(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The places that something is asked for: of words that ask; where none do every one.

        Behind a word that asks for what comes next all is asked for.
        """
        words = self.that_ask
        numbers = {self.ids[word] for word in words}
        asking = [position for position, token_id in enumerate(ids) if token_id in numbers]
        if not words:
            return tuple(range(len(ids)))
        if self.predicts == "next":
            return tuple(range(asking[0], len(ids))) if asking else ()
        return tuple(asking)

    def as_read(self, tokens: Tokens) -> Tokens:
        """With a word that stands for an answer as the model reads it: `are` as `?`."""
        if self.predicts != "here" or not self.spelled:
            return tokens
        blank = {self.ids[word]: self.words[self.ids[word]] for word in self.spelled}
        if self.asks:
            blank |= {self.ids[self.asks]: self.asks}
        pairs = zip(tokens.labels, tokens.ids, strict=True)
        labels = tuple(blank.get(token_id, label) for label, token_id in pairs)
        return replace(tokens, words=labels)

    def blanks(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The places of words that stand for an answer, which the model does not see."""
        hidden_ids = {self.ids[word] for word in (self.asks, *self.spelled) if word}
        if self.predicts != "here":
            return ()
        return tuple(position for position, token_id in enumerate(ids) if token_id in hidden_ids)

    def _with_ids(self, tokens: Tokens) -> Tokens:
        ids = [self._find_id(label) for label in tokens.labels]
        unknown = [
            label for label, number in zip(tokens.labels, ids, strict=True) if number is None
        ]
        if unknown:
            raise self._unknown_word_error(unknown[0])
        return replace(tokens, ids=tuple(number for number in ids if number is not None))

    def _find_id(self, label: str) -> int | None:
        """The number of a word, however large its first letter is."""
        return self.ids.get(label, self.ids.get(label.lower()))

    def _unknown_word_error(self, word: str) -> AttnvizError:
        listed_words = " ".join(list(self.ids)[:MAX_LISTED_WORDS])
        more = " …" if len(self.ids) > MAX_LISTED_WORDS else ""
        return AttnvizError(f"the model has never seen '{word}'", f"it knows: {listed_words}{more}")
