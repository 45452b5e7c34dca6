"""The card of a model: all that is known of it but its tensors; stored as config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError, cmd, opt
from attnviz.machine import files
from attnviz.tokens.tokenizers import find_tokenizer
from attnviz.tokens.tokens import Tokens
from attnviz.traces import structured_text
from attnviz.traces.models.model_names import CONFIG_FILE, LEARN_SAVE_HINT
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import (
    LONG_TEXT_SETTINGS,
    TRAINED_ONLY_SETTINGS,
    Settings,
    chosen_variant,
    head_width,
    refuse_uneven_heads,
)
from attnviz.traces.structured_text import build_checked, fits_type
from attnviz.wording.words import counted

RUN_SETTINGS = ("model", "seed", "device", "dtype", *LONG_TEXT_SETTINGS)  # no model decides them
CHANGEABLE_SETTINGS = (  # may differ from the model's own: its tensors stay the same
    "scale",
    "causal",
    "window",
    "temperature",
    "soft_cap",
    "dropout",
    "without",
)
FIXED_SETTING_REASONS = {  # why a setting cannot be given for an existing model
    "embeddings": "names vectors, but {} has its own",
    "given": "names matrices, but {} has its own",
    "item": "chooses one of a batch of matrices, but {} has its own",
    "memory": "is a second sentence, but {} reads only one",
    "attention_only": "leaves feed-forward out, but {} was trained with it",
}
VOCABULARY_FILE = "vocabulary.json"
VOCABULARY_LISTS = ("words", "answers", "asking")
MODEL_FORMAT_VERSION = 1
CARD_FIELDS = ("name", "about", "longest", "dimensions", "heads", "facts")  # stored as they are
SETTINGS_NOT_STORED = (
    *("embeddings", "model", "given", "item", "memory", "without"),
    *TRAINED_ONLY_SETTINGS,
    *LONG_TEXT_SETTINGS,
)
FACT_TYPES: dict[str, Any] = {  # of the facts that attnviz writes and reports
    "task": str,
    "asked": str,
    "steps": int,
    "accuracy": float,
    "sentences": int,
    "tokens": list[int],
    "scores": Mapping[str, float],
}
SAVE_KEY = "save"  # has the same value in all files of one save
SAVE_AGAIN_HINT = f"save it again: {cmd.learn:TASK --save FOLDER}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Card:
    """A model without its tensors: its name, settings, vocabulary, and what its heads do."""

    name: str
    about: str = ""  # what it does, in a sentence
    settings: Settings
    vocabulary: Vocabulary
    longest: int | None = None  # number of tokens it has positions for; None: not limited
    dimensions: tuple[str, ...] = ()  # what the numbers of a vector mean, if written by hand
    heads: Mapping[str, str] = field(default_factory=dict)  # "L0H1": what it looks for
    asks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns of queries, keys
    hands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # columns of values
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was made: task, seed, steps, …

    @property
    def by_hand(self) -> bool:
        """Whether the model was written by hand.

        Only then does each number of a vector have a meaning.
        """
        return bool(self.dimensions)

    def merge_settings(self, requested: Settings) -> Settings:
        """Return the model's own settings, with the requested values of those that may be changed.

        `RUN_SETTINGS` (such as the seed) are always the requested ones, `CHANGEABLE_SETTINGS` (such
        as the temperature) where the request is not None. All other requests are ignored.
        """
        changes = {name: getattr(requested, name) for name in CHANGEABLE_SETTINGS}
        changes = {name: value for name, value in changes.items() if value is not None}
        changes |= {name: getattr(requested, name) for name in RUN_SETTINGS}
        return replace(self.settings, tokenizer=self.vocabulary.tokenizer, **changes)

    def refuse_other_settings(self, requested: Mapping[str, Any]) -> None:
        """Refuse a requested value of a fixed setting, such as `heads`, other than the model's own.

        Settings that may differ (`RUN_SETTINGS` and `CHANGEABLE_SETTINGS`) are not checked.
        """
        owner = f"the model '{self.name}'"
        for name, value in requested.items():
            own_value = self._own_value(name)
            if name in (*RUN_SETTINGS, *CHANGEABLE_SETTINGS) or value == own_value:
                continue
            problem = f"{opt[name]:is {value}}, but {owner} has {own_value}"
            if name in FIXED_SETTING_REASONS and value:
                problem = f"{opt[name]} {FIXED_SETTING_REASONS[name].format(owner)}"
            raise AttnvizError(problem, f"leave {opt[name]} out, or {opt.model}", about=name)

    def _own_value(self, name: str) -> Any:
        """Return the value of a setting that the model in fact uses.

        Where its settings leave that open, it is the variant's or the default; "no block" for
        `layers`.
        """
        settings, variant = self.settings, chosen_variant(self.settings)
        own_values = {
            "tokenizer": self.vocabulary.tokenizer,
            "dim": settings.width,
            "heads": variant.heads,
            "kv_heads": variant.kv_heads or variant.heads,
            "head_dim": head_width(settings, variant, settings.width),
            "layers": settings.layers or "no block",
            "feed_forward": settings.hidden_width,
        }
        return own_values.get(name, getattr(settings, name))

    def cut(self, text: str) -> Tokens:
        """Return the tokens of a text, and at its end a word that asks for an answer if needed.

        Refuses words that the model does not know, and more tokens than it has positions for.
        """
        tokens = self.vocabulary.cut(text)
        if self.longest is not None and len(tokens) > self.longest:
            raise AttnvizError(
                f"the text has {counted(len(tokens), 'token')} ({self.vocabulary.tokenizer}), but "
                f"the model '{self.name}' only has positions for {self.longest}",
                "give a shorter text",
            )
        return tokens


def read_card_and_save(folder: Path) -> tuple[Card, object]:
    """Return a model's card, and the mark that all files of one save share (None without a mark).

    Refuses missing files, files of different saves, and contents that attnviz did not write. Reads
    no tensors.
    """
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
    """Refuse a folder in which two files have different save marks, `save` and `other_save`.

    The files of a save are renamed one after the other. A process that is killed in between, or
    reads meanwhile, leaves or sees files of two models, each readable by itself.
    """
    if save != other_save:
        raise AttnvizError(
            f"the last save into '{folder}' was interrupted, or a file there was changed: its "
            "files do not belong together",
            hint,
        )


def facts_of_card(card: Card) -> dict[str, Any]:
    """Return a card as JSON data for config.json.

    The vocabulary, `asks` and `hands` are left out.
    """
    facts = {name: getattr(card, name) for name in CARD_FIELDS}
    return facts | {"settings": asdict(card.settings)}


def card_of_facts(config: Mapping[str, Any], vocabulary: Mapping[str, Any]) -> Card:
    """Return the card that JSON data of a config and of a vocabulary describe.

    Data that does not fit raises KeyError, TypeError, ValueError or AttnvizError.
    """
    return _parse_card(config, _build_vocabulary(vocabulary))


def refuse_missing_model_file(path: Path) -> None:
    """Refuse the path of a model's file, such as FOLDER/config.json, if no file is there."""
    if not files.is_file(path):
        raise AttnvizError(
            f"there is no model in '{path.parent}': it has no file {path.name}", LEARN_SAVE_HINT
        )


def _read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a model's file; refuse a missing file and anything else in it."""
    refuse_missing_model_file(path)
    text = structured_text.read_text_file(path, "model")
    try:
        return structured_text.parse_json_object(text, path)
    except AttnvizError as error:
        raise AttnvizError(str(error), SAVE_AGAIN_HINT) from None


def _changed_file_error(path: Path) -> AttnvizError:
    """Return the error for a model's file with contents that attnviz cannot have written."""
    return AttnvizError(
        f"'{path}' is not as attnviz wrote it: something in it is missing or of another kind",
        SAVE_AGAIN_HINT,
    )


def _parse_card(config: Mapping[str, Any], words: Vocabulary) -> Card:
    """Return the card of the data in config.json and of a vocabulary.

    Raises for data that does not fit.
    """
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
    """Raise ValueError for a card whose values do not fit each other or are never stored."""
    strings = (*card.dimensions, *card.heads, *card.heads.values())
    has_learned_positions = card.settings.positions == "learned"
    known_facts = {*FACT_TYPES} & {*card.facts}
    failures = (
        not all(isinstance(string, str) for string in strings),
        len(card.dimensions) not in (0, card.settings.width),
        has_learned_positions is (card.longest is None) or (card.longest or 1) < 1,
        any(
            getattr(card.settings, name) != getattr(Settings, name) for name in SETTINGS_NOT_STORED
        ),
        not all(fits_type(card.facts[name], FACT_TYPES[name]) for name in known_facts),
    )
    if any(failures):
        raise ValueError(failures)


def _check_vocabulary_file(values: Mapping[str, Any], path: Path) -> Vocabulary:
    """Return the vocabulary that the data of vocabulary.json describes.

    Refuses data that attnviz did not write, and a tokenizer that is unknown or not on this machine.
    """
    try:
        words = _build_vocabulary(values)
    except (TypeError, ValueError):
        raise _changed_file_error(path) from None
    find_tokenizer(words.tokenizer, download=False)
    return words


def _build_vocabulary(values: Mapping[str, Any]) -> Vocabulary:
    """Return the vocabulary of JSON data.

    Raises TypeError or ValueError for data that does not fit.
    """
    lists = {name: tuple(item) for name, item in values.items() if isinstance(item, (list, tuple))}
    words = build_checked(Vocabulary, {**values, **lists})
    _refuse_odd_vocabulary(words, values)
    return words


def _refuse_odd_vocabulary(words: Vocabulary, values: Mapping[str, Any]) -> None:
    """Raise ValueError for empty or repeated words, and for spellings of unknown words."""
    spelled, known_words = words.spelled, {*words.words}
    strings = (*words.words, *words.answers, *words.asking, *spelled, *spelled.values())
    lists = [values[name] for name in VOCABULARY_LISTS if name in values]
    failures = (
        not all(isinstance(item, (list, tuple)) for item in lists),
        not all(isinstance(item, str) and item for item in strings),
        len(known_words) != len(words.words) or not known_words,
        len({*words.answers}) != len(words.answers),
        not {*spelled.values(), *words.asking} <= {*known_words, *spelled},
        bool(words.asks) and words.asks not in {*known_words, *spelled},
    )
    if any(failures):
        raise ValueError(failures)
