"""Refuses what cannot work before anything is computed, and before torch is imported.

Whoever made a mistake need not wait for torch to hear of it. Everything here is checked again
where it is used, by the same functions.
"""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

from attnviz.attention.variants import refuse_unknown_device
from attnviz.errors import AttnvizError
from attnviz.machine import files, memory
from attnviz.machine.files import NameInFile, refuse_name_in_file
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokenizers import named, refuse_nothing, tokenize
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.shipped import card_of
from attnviz.traces.settings import (
    Settings,
    chosen_variant,
    head_width,
    refuse_missing_heads,
    refuse_odd_rotary,
    refuse_uneven_heads,
)
from attnviz.traces.trained import place
from attnviz.traces.trained.place import found, is_trained, refuse_unfit
from attnviz.traces.trained.refusals import missing_extra
from attnviz.wording.commands import chosen, option, quoted
from attnviz.wording.words import counted

BEGINNING = 2**20  # letters of a long text, by which it is judged
BYTES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}
WEIGHTS_AND_MORE = 6  # times the weights: what is needed on the way to them


def refuse_text(
    text: str | None, settings: Settings, query: str | None = None, key: str | None = None
) -> None:
    """A text that cannot be cut up, or in which a query or a key is not."""
    if is_trained(settings.model):  # whose tokenizer comes with transformers, and torch
        if text is not None:
            refuse_nothing(text)
        return
    tokens = None if text is None else _cut(text, settings)
    memory_of(settings)
    if tokens is not None and query is not None:
        find_query(tokens, query)
    if tokens is not None and key is not None and settings.given is None:  # whose keys are its own
        find_query(tokens, key, "--key")


def _cut(text: str, settings: Settings) -> Tokens:
    """The tokens of a text; of one that is too long for any memory only its beginning is cut."""
    if settings.model is not None:
        return card_of(settings.model).cut(text)
    if len(text) > BEGINNING:
        count = len(tokenize(text[:BEGINNING], settings.tokenizer)) - 1  # the last may go on
        _refuse_too_many(count, settings, f"the first {BEGINNING:,} letters of the text alone make")
    tokens = tokenize(text, settings.tokenizer)
    _refuse_too_many(len(tokens), settings, "the text makes")
    return tokens


def _refuse_too_many(count: int, settings: Settings, makes: str) -> None:
    """Tokens of which not even the weights of one head fit; all else is counted with torch."""
    of_a_cell, free = BYTES[settings.dtype], memory.free()
    if free is not None and count**2 * of_a_cell > free:
        raise AttnvizError(
            f"{makes} {count:,} tokens ({settings.tokenizer}); their weights take "
            f"{memory.size(count**2 * of_a_cell)}, and there are {memory.size(free)} free",
            f"give a text of at most about {int((free / of_a_cell / WEIGHTS_AND_MORE) ** 0.5):,} "
            "tokens",
        )


def refuse_other_text(first: Tokens, second: Tokens, tokenizer: str) -> None:
    """A second sentence that cannot be held against the first place by place."""
    if len(first) != len(second):
        raise AttnvizError(
            f"the first sentence has {counted(len(first), 'token')} ({tokenizer}) and the second "
            f"{len(second)}, so they cannot be compared position by position",
            "give sentences with the same number of tokens; attnviz run TEXT --show tokens "
            "counts them",
        )


def refuse_other(text: str | None, other: str | None, settings: Settings) -> None:
    """The same, of texts that are not yet cut up."""
    if text is None or other is None or settings.given is not None:
        return
    if is_trained(settings.model):
        return
    if settings.model is not None:
        card = card_of(settings.model)
        refuse_other_text(card.cut(text), card.cut(other), card.vocabulary.tokenizer)
        return
    tokens = tokenize(text, settings.tokenizer)
    refuse_other_text(tokens, tokenize(other, settings.tokenizer), settings.tokenizer)


def decided(settings: Settings) -> Settings:
    """With what a model has decided, if one is asked for."""
    if settings.model is None or is_trained(settings.model):
        return settings
    return card_of(settings.model).chosen(settings)


def refuse_settings(settings: Settings) -> None:
    """Settings that no trace can be made with."""
    refuse_unknown_device(settings.device)
    if is_trained(settings.model):
        refuse_decided(settings)
        refuse_unusable(settings)
        return
    refuse_untrained(settings)
    if settings.model is not None:
        card_of(settings.model).refuse_others(chosen(settings))
        own = decided(settings)
        refuse_missing_heads(own.without, own.layers or 1, chosen_variant(own).heads)
    elif settings.given is not None:
        files.refuse_missing(Path(settings.given), "take matrices from")
    elif settings.embeddings is not None:
        _refuse_missing_vectors(settings.embeddings)
    else:  # heads and the width of an embedding is known
        variant = chosen_variant(settings)
        refuse_uneven_heads(variant.heads, variant.kv_heads)
        refuse_odd_rotary(settings, head_width(settings, variant, settings.width))
        refuse_missing_heads(settings.without, settings.layers or 1, variant.heads)


def _refuse_missing_vectors(name: str) -> None:
    """Neither a file of vectors, nor a model that has some."""
    if place.place_of_table(name) is None:
        files.refuse_missing(files.file_and_name(name)[0], "take embeddings from")


def refuse_download(tokenizer: str) -> None:
    """Refuse a tokenizer that a file names, where tiktoken would fetch it."""
    if isinstance(tokenizer, NameInFile):
        try:
            named(tokenizer, download=False)
        except AttnvizError:
            hint = f"to have it downloaded, name it once: attnviz run TEXT -t {quoted(tokenizer)}"
            refuse_name_in_file(tokenizer, "tokenizer", hint, about="tokenizer")


def refuse_missing_layer(layer: int, count: int) -> None:
    """Refuse a layer that there is not."""
    if not 0 <= layer < count:
        raise AttnvizError(
            f"there is no layer {layer}: layers count from 0, and there "
            f"{'is 1' if count == 1 else f'are {count}'}",
            f"try --layer {count - 1}" if count > 1 else "stack some with --layers 2",
            about="layer",
        )


def memory_of(settings: Settings) -> Tokens | None:
    """The tokens of the second sentence, if there is one."""
    if settings.memory is None:
        return None
    try:
        return tokenize(settings.memory, settings.tokenizer)
    except AttnvizError as error:
        raise error.told(f"--memory: {error}") from None


OF_A_TRAINED_MODEL = ("attention", "target", "generate", "truncate", "trust_remote_code")
CAN_BE_ASKED = ("model", "without", "device", "dtype", "seed", *OF_A_TRAINED_MODEL)


def refuse_decided(settings: Settings) -> None:
    """Refuse settings that a trained model has of its own."""
    for name in chosen(settings):
        if name not in CAN_BE_ASKED:
            raise AttnvizError(
                f"{option(name)} is given, but the trained model '{settings.model}' decides that "
                "itself",
                f"leave {option(name)} out, or --model",
                about=name,
            )


def refuse_ranking(name: str) -> None:
    """Refuse to rank heads by right answers: of a trained transformer none are known."""
    if is_trained(name):
        raise AttnvizError(
            f"'{name}' is a trained transformer, but attnviz heads only ranks models that learned "
            "a task",
            f'try: attnviz inspect "the animal was tired" --model {quoted(name)} --by effect',
            about="model",
        )


def refuse_unusable(settings: Settings) -> None:
    """Refuse a model that cannot be loaded, as far as its files tell."""
    if find_spec("transformers") is None:
        raise missing_extra()
    place = None if settings.model is None else found(settings.model)
    if place is not None and place.folder is not None:
        refuse_unfit(place.folder)


def refuse_untrained(settings: Settings) -> None:
    """Refuse what trained models alone can be asked for."""
    defaults = {each.name: each.default for each in fields(Settings)}
    for name in OF_A_TRAINED_MODEL:
        if getattr(settings, name) != defaults[name]:
            raise AttnvizError(
                f"{option(name)} is about trained models, and no trained model is given",
                "give --model minilm, a folder, or a name on a hub",
                about=name,
            )
