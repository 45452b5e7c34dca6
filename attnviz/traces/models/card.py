"""What a model says of itself, without its numbers, and the config.json that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.tokens.tokenizers import find_tokenizer
from attnviz.tokens.tokens import Tokens
from attnviz.traces import structured_text
from attnviz.traces.models.names import CONFIG_FILE, LEARN_SAVE_HINT
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import (
    FEED_FORWARD_FACTOR,
    Settings,
    chosen_variant,
    head_width,
    refuse_uneven_heads,
)
from attnviz.traces.structured_text import build_checked, fits_type
from attnviz.wording.commands import option_name
from attnviz.wording.words import counted

if TYPE_CHECKING:
    pass


RUN_SETTINGS = ("model", "seed", "device", "dtype")  # what no model decides
CHANGEABLE_SETTINGS = (  # of a model that is there: what changes none of its numbers
    "scale",
    "causal",
    "window",
    "temperature",
    "soft_cap",
    "dropout",
    "without",
)
FIXED_SETTING_REASONS = {  # what a model would have to be made with, and why it cannot be given now
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

    def merge_settings(self, requested: Settings) -> Settings:
        """The model's settings, with what is asked for that a model can do without learning it."""
        changes = {name: getattr(requested, name) for name in CHANGEABLE_SETTINGS}
        overrides = {name: value for name, value in changes.items() if value is not None}
        run_settings = {name: getattr(requested, name) for name in RUN_SETTINGS}
        return replace(
            self.settings, tokenizer=self.vocabulary.tokenizer, **run_settings, **overrides
        )

    def refuse_other_settings(self, requested: Mapping[str, Any]) -> None:
        """Refuse settings, by name, that the model has decided otherwise."""
        model_phrase = f"the model '{self.name}'"
        for name, value in requested.items():
            own_value = self._own_value(name)
            if name in (*RUN_SETTINGS, *CHANGEABLE_SETTINGS) or value == own_value:
                continue
            reason = (
                FIXED_SETTING_REASONS[name].format(model_phrase)
                if name in FIXED_SETTING_REASONS
                else ""
            )
            raise AttnvizError(
                f"{option_name(name)} {reason or f'is {value}, but {model_phrase} has {own_value}'}",
                f"leave {option_name(name)} out, or --model",
                about=name,
            )

    def _own_value(self, name: str) -> Any:
        """What a setting is in the model, also where it leaves it to its variant."""
        settings, variant = self.settings, chosen_variant(self.settings)
        own_values = {
            "tokenizer": self.vocabulary.tokenizer,
            "dim": settings.width,
            "heads": variant.heads,
            "kv_heads": variant.kv_heads or variant.heads,
            "head_dim": head_width(settings, variant, settings.width),
            "layers": settings.layers or "no block",
            "feed_forward": settings.feed_forward or FEED_FORWARD_FACTOR * settings.width,
        }
        return own_values.get(name, getattr(settings, name))

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


VOCABULARY_FILE = "vocabulary.json"
MODEL_FORMAT_VERSION = 1
CARD_FIELDS = (
    "name",
    "about",
    "longest",
    "dimensions",
    "heads",
    "facts",
)  # beside settings and words
SETTINGS_NOT_STORED = (  # settings
    *("embeddings", "model", "given", "item", "memory", "without"),
    *("attention", "target", "generate", "truncate", "trust_remote_code"),
)
VOCABULARY_LISTS = ("words", "answers", "asking")  # of a vocabulary
FACT_TYPES: dict[str, Any] = {  # those that attnviz writes, and says something of
    "task": str,
    "asked": str,
    "steps": int,
    "accuracy": float,
    "sentences": int,
    "tokens": list[int],
    "scores": Mapping[str, float],
}
SAVE_KEY = "save"  # in every file of a save the same
SAVE_AGAIN_HINT = "save it again: attnviz learn TASK --save FOLDER"


def read_card(folder: Path) -> Card:
    """What a model says of itself, in the folder that attnviz learn --save wrote."""
    return read_card_and_save(folder)[0]


def read_card_and_save(folder: Path) -> tuple[Card, object]:
    """The same, and which save it is of: None where attnviz did not write that yet."""
    config = _read_json_object(folder / CONFIG_FILE)
    if config.get("format") != MODEL_FORMAT_VERSION:
        raise AttnvizError(
            f"'{folder / CONFIG_FILE}' is not the config of an attnviz model", LEARN_SAVE_HINT
        )
    vocabulary = _read_json_object(folder / VOCABULARY_FILE)
    save = config.get(SAVE_KEY)
    refuse_other_save(folder, save, vocabulary.pop(SAVE_KEY, None))
    words = _check_vocabulary_file(vocabulary, folder / VOCABULARY_FILE)
    try:
        return _parse_card(config, words), save
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _changed_file_error(folder / CONFIG_FILE) from None
    except AttnvizError as error:
        raise AttnvizError(f"'{folder / CONFIG_FILE}': {error}", SAVE_AGAIN_HINT) from None


def refuse_other_save(
    folder: Path, save: object, other_save: object, hint: str = SAVE_AGAIN_HINT
) -> None:
    """Refuse files of two saves in one folder.

    They are renamed one after the other when all are whole; who is killed in between, or reads
    meanwhile, has some of each. All may be read then, and nothing else tells that they are of
    two models.
    """
    if save != other_save:
        raise AttnvizError(
            f"the last save into '{folder}' was interrupted, or a file there was changed: its "
            "files do not belong together",
            hint,
        )


def facts_of_card(card: Card) -> dict[str, Any]:
    """What the config says, but for the words."""
    return {
        **{name: getattr(card, name) for name in CARD_FIELDS},
        "settings": asdict(card.settings),
    }


def card_of_facts(config: Mapping[str, Any], vocabulary: Mapping[str, Any]) -> Card:
    """The card of such facts; whatever is odd in them is a ValueError or a TypeError."""
    return _parse_card(config, _build_vocabulary(vocabulary))


def refuse_missing_model_file(path: Path) -> None:
    """Refuse a folder without one of the files that a model has."""
    if not files.is_file(path):
        raise AttnvizError(
            f"there is no model in '{path.parent}': it has no file {path.name}", LEARN_SAVE_HINT
        )


def _read_json_object(path: Path) -> dict[str, Any]:
    refuse_missing_model_file(path)
    text = structured_text.read_text_file(path, "model")
    try:
        return structured_text.parse_json_object(text, path)
    except AttnvizError as error:
        raise AttnvizError(str(error), SAVE_AGAIN_HINT) from None


def _changed_file_error(path: Path) -> AttnvizError:
    return AttnvizError(
        f"'{path}' is not as attnviz wrote it: something in it is missing or of another kind",
        SAVE_AGAIN_HINT,
    )


def _parse_card(config: Mapping[str, Any], words: Vocabulary) -> Card:
    settings = build_checked(Settings, config["settings"])
    card_fields: dict[str, Any] = {name: config[name] for name in CARD_FIELDS}
    card_fields["dimensions"] = tuple(card_fields["dimensions"])
    card = build_checked(Card, {**card_fields, "settings": settings, "vocabulary": words})
    variant = chosen_variant(settings)
    refuse_uneven_heads(variant.heads, variant.kv_heads)
    head_width(settings, variant, settings.width)
    _refuse_odd_card(card)
    return card


def _refuse_odd_card(card: Card) -> None:
    """Lists of words, and numbers that fit each other, where their types alone cannot tell."""
    strings = (*card.dimensions, *card.heads, *card.heads.values())
    has_learned_positions = card.settings.positions == "learned"
    failures = (
        not all(isinstance(string, str) for string in strings),
        len(card.dimensions) not in (0, card.settings.width),
        has_learned_positions is (card.longest is None) or (card.longest or 1) < 1,
        any(getattr(card.settings, name) not in (None, False) for name in SETTINGS_NOT_STORED),
        not all(
            fits_type(card.facts[name], FACT_TYPES[name]) for name in {*FACT_TYPES} & {*card.facts}
        ),
    )
    if any(failures):
        raise ValueError(failures)


def _check_vocabulary_file(values: Mapping[str, Any], path: Path) -> Vocabulary:
    """The words, each once; and other spellings of them, of which each is one."""
    try:
        words = _build_vocabulary(values)
    except (TypeError, ValueError):
        raise _changed_file_error(path) from None
    find_tokenizer(words.tokenizer, download=False)
    return words


def _build_vocabulary(values: Mapping[str, Any]) -> Vocabulary:
    lists = {
        name: tuple(items) for name, items in values.items() if isinstance(items, (list, tuple))
    }
    words = build_checked(Vocabulary, {**values, **lists})
    _refuse_odd_vocabulary(words, values)
    return words


def _refuse_odd_vocabulary(words: Vocabulary, values: Mapping[str, Any]) -> None:
    spelled, known_words = words.spelled, {*words.words}
    lists = (words.words, words.answers, words.asking)
    strings = (*(word for item in lists for word in item), *spelled, *spelled.values())
    failures = (
        not all(
            isinstance(item, (list, tuple))
            for name, item in values.items()
            if name in VOCABULARY_LISTS
        ),
        not all(isinstance(item, str) and item for item in strings),
        len(known_words) != len(words.words) or not known_words,
        len({*words.answers}) != len(words.answers),
        not {*spelled.values(), *words.asking} <= {*known_words, *spelled},
        bool(words.asks) and words.asks not in {*known_words, *spelled},
    )
    if any(failures):
        raise ValueError(failures)
