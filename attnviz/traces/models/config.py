"""The card of a model in a folder: what config.json and vocabulary.json say, held against itself.

What attnviz wrote is whole; a file that somebody changed is refused with what is odd in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.tokens.tokenizers import named
from attnviz.traces import texts
from attnviz.traces.facts import fits, of_their_types
from attnviz.traces.models.card import Card
from attnviz.traces.models.names import CONFIG, WRITES_ONE
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.settings import Settings, chosen_variant, head_width, refuse_uneven_heads

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
