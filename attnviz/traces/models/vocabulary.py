"""The words that a small model knows, and those that it answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Literal, get_args

from attnviz.errors import AttnvizError, is_one_word
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens
from attnviz.wording.keywords import with_checked_fields
from attnviz.wording.printable import SPACE_SIGN

Predicts = Literal["next", "here"]  # the token after a position, or the one at it
PREDICTS: tuple[Predicts, ...] = get_args(Predicts)
MAX_LISTED_WORDS = 60  # in an error
ARROW, TYPED_ARROW = "→", "->"  # as people type it


@with_checked_fields
@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The words of a model, with an id each; several spellings may be one word to the model.

    >>> Vocabulary(tokenizer="words", words=("the", "key"), spelled={"keys": "key"}).ids
    {'the': 0, 'key': 1, 'keys': 1}
    """

    tokenizer: str  # "words", "chars", …
    words: tuple[str, ...]  # that it knows; the index of each is its id
    answers: tuple[str, ...] = ()  # that it answers with; (): it predicts nothing
    predicts: Predicts = "next"
    spelled: Mapping[str, str] = field(default_factory=dict)  # other spellings: {"are": "?"}
    asks: str = ""  # a word that is appended to a text without a word that asks for an answer
    asking: tuple[str, ...] = ()  # further words that ask for an answer, beside `spelled`

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word, and of its other spellings."""
        numbers = {word: number for number, word in enumerate(self.words)}
        return numbers | {spelled: numbers[word] for spelled, word in self.spelled.items()}

    @property
    def that_ask(self) -> tuple[str, ...]:
        """The words that ask the model for an answer; () if every word does."""
        spelled = self.spelled if self.predicts == "here" else ()
        return tuple(word for word in (self.asks, *self.asking, *spelled) if word)

    def cut(self, text: str) -> Tokens:
        """Return the tokens of a text with the vocabulary's ids.

        Refuses words that it does not have. If no word of the text asks for an answer, the word in
        `asks` is added at the end. A word that is read as `asks` is labelled so.
        """
        if ARROW in self.ids:
            text = text.replace(TYPED_ARROW, ARROW)
        tokens = self._with_ids(tokenize(text, self.tokenizer, download=False))
        if self.asks and not self.asked(tokens.ids):
            text = f"{text} {self.asks}"
            tokens = self._with_ids(tokenize(text, self.tokenizer, download=False))
        if not self.asks or self.predicts != "here":
            return tokens
        pairs, blank = zip(tokens.labels, tokens.ids, strict=True), self.ids[self.asks]
        return replace(tokens, words=tuple(self.asks if at == blank else it for it, at in pairs))

    def asked(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the positions at which the model is asked for an answer.

        These are the positions of the words in `that_ask`, or all if that is empty. A model that
        predicts next words is asked at every position from the first such word on, until all words
        before it stand there again, as in a sorted list: it never learned what follows.
        """
        if not self.that_ask:
            return tuple(range(len(ids)))
        numbers = {self.ids[word] for word in self.that_ask}
        asking = tuple(position for position, token_id in enumerate(ids) if token_id in numbers)
        if not asking or self.predicts != "next":
            return asking
        count = asking[0]
        is_complete = sorted(ids[:count]) == sorted(ids[count + 1 : 2 * count + 1])
        return tuple(range(count, 2 * count if count and is_complete else len(ids)))

    def as_read(self, tokens: Tokens) -> Tokens:
        """Return the tokens with blanks labelled as the model sees them: `?` in place of `are`.

        Blanks are words with another spelling, of a model that predicts the word at a position; the
        tokens of any other model are returned unchanged.
        """
        if not self.blank_labels:
            return tokens
        pairs = [*zip(tokens.labels, tokens.ids, tokens.spaced, strict=True)]
        labels = tuple(self.blank_labels.get(token_id, label) for label, token_id, _ in pairs)
        text = tokens.text
        if [label.encode() for label in labels] != [piece.strip() for piece in tokens.pieces]:
            spaces = [" " * (spaced and place > 0) for place, (*_, spaced) in enumerate(pairs)]
            text = "".join(map(str.__add__, spaces, labels))
        return replace(tokens, text=text, words=labels)

    @cached_property
    def blank_labels(self) -> dict[int, str]:
        """By id, how the model sees the words that it must predict: `?`; empty for a model that
        predicts next words, or whose blanks are not spelled as answers."""
        if self.predicts != "here" or not self.spelled:
            return {}
        labels = {self.ids[word]: self.words[self.ids[word]] for word in self.spelled}
        return labels | ({self.ids[self.asks]: self.asks} if self.asks else {})

    def blanks(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of blanks: words that the model must predict and cannot see.

        A model that predicts next words has none.
        """
        if self.predicts != "here":
            return ()
        hidden_ids = {self.ids[word] for word in (self.asks, *self.spelled) if word}
        return tuple(position for position, token_id in enumerate(ids) if token_id in hidden_ids)

    def _with_ids(self, tokens: Tokens) -> Tokens:
        """Return the tokens with the vocabulary's ids; refuse a word that it does not have.

        A word that it has only in lower case gets the id of that.
        """
        words = [label if label in self.ids else label.lower() for label in tokens.labels]
        for word, label in zip(words, tokens.labels, strict=True):
            if word not in self.ids:
                error = AttnvizError(f"the model has never seen '{label}'", self._hint_for(word))
                error.word = label
                raise error
        return replace(tokens, ids=tuple(self.ids[word] for word in words))

    def _hint_for(self, word: str) -> str:
        """Return the hint for a word that it does not have: the nearest ones, then all."""
        if self.tokenizer == "chars" and word == SPACE_SIGN:
            return "write the letters without spaces"
        if self.tokenizer == "words" and len(word) > 1 and {*word} <= {*self.ids}:
            return f"put spaces between them: {' '.join(word)}"
        words = [known for known in self.ids if is_one_word(known)]
        nearest = [f"'{known}'" for known in get_close_matches(word, words, n=2)]
        question = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        listed = " ".join(words[:MAX_LISTED_WORDS])
        return f"{question}it knows: {listed}{' …' * (len(self.ids) > MAX_LISTED_WORDS)}"
