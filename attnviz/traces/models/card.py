"""What a model says of itself, without its numbers, and the config.json that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.tokens.tokenizers import named
from attnviz.tokens.tokens import Tokens
from attnviz.traces import texts
from attnviz.traces.models.names import CONFIG, WRITES_ONE
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import (
    FEED_FORWARD,
    Settings,
    chosen_variant,
    head_width,
    refuse_uneven_heads,
)
from attnviz.traces.texts import fits, of_their_types
from attnviz.wording.commands import option
from attnviz.wording.words import counted

if TYPE_CHECKING:
    pass


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


VOCABULARY = "vocabulary.json"
FORMAT = 1
SAID = ("name", "about", "longest", "dimensions", "heads", "facts")  # beside settings and words
NOT_OF_A_MODEL = (  # settings
    *("embeddings", "model", "given", "item", "memory", "without"),
    *("attention", "target", "generate", "truncate", "trust_remote_code"),
)
LISTS = ("words", "answers", "asking")  # of a vocabulary
FACTS: dict[str, Any] = {  # those that attnviz writes, and says something of
    "task": str,
    "asked": str,
    "steps": int,
    "accuracy": float,
    "sentences": int,
    "tokens": list[int],
    "scores": Mapping[str, float],
}
SAVE = "save"  # in every file of a save the same
AGAIN = "save it again: attnviz learn TASK --save FOLDER"


def read_card(folder: Path) -> Card:
    """What a model says of itself, in the folder that attnviz learn --save wrote."""
    return read_card_and_save(folder)[0]


def read_card_and_save(folder: Path) -> tuple[Card, object]:
    """The same, and which save it is of: None where attnviz did not write that yet."""
    config = _object(folder / CONFIG)
    if config.get("format") != FORMAT:
        raise AttnvizError(f"'{folder / CONFIG}' is not the config of an attnviz model", WRITES_ONE)
    told = _object(folder / VOCABULARY)
    save = config.get(SAVE)
    refuse_other_save(folder, save, told.pop(SAVE, None))
    words = _vocabulary(told, folder / VOCABULARY)
    try:
        return _card(config, words), save
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _changed(folder / CONFIG) from None
    except AttnvizError as error:
        raise AttnvizError(f"'{folder / CONFIG}': {error}", AGAIN) from None


def refuse_other_save(folder: Path, save: object, other: object, hint: str = AGAIN) -> None:
    """Refuse files of two saves in one folder.

    They are renamed one after the other when all are whole; who is killed in between, or reads
    meanwhile, has some of each. All may be read then, and nothing else tells that they are of
    two models.
    """
    if save != other:
        raise AttnvizError(
            f"the last save into '{folder}' was interrupted, or a file there was changed: its "
            "files do not belong together",
            hint,
        )


def facts_of_card(card: Card) -> dict[str, Any]:
    """What the config says, but for the words."""
    return {**{name: getattr(card, name) for name in SAID}, "settings": asdict(card.settings)}


def card_of_facts(config: Mapping[str, Any], vocabulary: Mapping[str, Any]) -> Card:
    """The card of such facts; whatever is odd in them is a ValueError or a TypeError."""
    return _card(config, _words(vocabulary))


def refuse_no_model(path: Path) -> None:
    """Refuse a folder without one of the files that a model has."""
    if not files.is_file(path):
        raise AttnvizError(
            f"there is no model in '{path.parent}': it has no file {path.name}", WRITES_ONE
        )


def _object(path: Path) -> dict[str, Any]:
    refuse_no_model(path)
    text = texts.read(path, "model")
    try:
        return texts.json_object(text, path)
    except AttnvizError as error:
        raise AttnvizError(str(error), AGAIN) from None


def _changed(path: Path) -> AttnvizError:
    return AttnvizError(
        f"'{path}' is not as attnviz wrote it: something in it is missing or of another kind",
        AGAIN,
    )


def _card(config: Mapping[str, Any], words: Vocabulary) -> Card:
    settings = of_their_types(Settings, config["settings"])
    said: dict[str, Any] = {name: config[name] for name in SAID}
    said["dimensions"] = tuple(said["dimensions"])
    card = of_their_types(Card, {**said, "settings": settings, "vocabulary": words})
    variant = chosen_variant(settings)
    refuse_uneven_heads(variant.heads, variant.kv_heads)
    head_width(settings, variant, settings.width)
    _refuse_odd_words_in(card)
    return card


def _refuse_odd_words_in(card: Card) -> None:
    """Lists of words, and numbers that fit each other, where their types alone cannot tell."""
    told = (*card.dimensions, *card.heads, *card.heads.values())
    placed = card.settings.positions == "learned"
    odd = (
        not all(isinstance(each, str) for each in told),
        len(card.dimensions) not in (0, card.settings.width),
        placed is (card.longest is None) or (card.longest or 1) < 1,
        any(getattr(card.settings, name) not in (None, False) for name in NOT_OF_A_MODEL),
        not all(fits(card.facts[name], FACTS[name]) for name in {*FACTS} & {*card.facts}),
    )
    if any(odd):
        raise ValueError(odd)


def _vocabulary(found: Mapping[str, Any], path: Path) -> Vocabulary:
    """The words, each once; and other spellings of them, of which each is one."""
    try:
        words = _words(found)
    except (TypeError, ValueError):
        raise _changed(path) from None
    named(words.tokenizer, download=False)
    return words


def _words(found: Mapping[str, Any]) -> Vocabulary:
    lists = {name: tuple(each) for name, each in found.items() if isinstance(each, (list, tuple))}
    words = of_their_types(Vocabulary, {**found, **lists})
    _refuse_odd_vocabulary(words, found)
    return words


def _refuse_odd_vocabulary(words: Vocabulary, found: Mapping[str, Any]) -> None:
    spelled, known = words.spelled, {*words.words}
    lists = (words.words, words.answers, words.asking)
    texts = (*(word for each in lists for word in each), *spelled, *spelled.values())
    odd = (
        not all(isinstance(each, (list, tuple)) for name, each in found.items() if name in LISTS),
        not all(isinstance(each, str) and each for each in texts),
        len(known) != len(words.words) or not known,
        len({*words.answers}) != len(words.answers),
        not {*spelled.values(), *words.asking} <= {*known, *spelled},
        bool(words.asks) and words.asks not in {*known, *spelled},
    )
    if any(odd):
        raise ValueError(odd)
