"""Refuses texts and settings that cannot work, before torch is imported.

Everything is checked again, by the same functions, where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path

from attnviz.attention.variants import refuse_unknown_device
from attnviz.errors import AttnvizError, cmd, model_error, opt
from attnviz.machine import files, memory
from attnviz.machine.files import NameInFile, refuse_name_in_file
from attnviz.tokens.text_part import EXAMPLE, parse_part
from attnviz.tokens.tokenizers import TOKENIZERS, find_tokenizer, refuse_empty_text, tokenize
from attnviz.tokens.tokens import Tokens
from attnviz.traces.models.shipped import load_card
from attnviz.traces.settings import (
    SETTINGS_FOR_TRAINED,
    TRAINED_ONLY_RULES,
    Settings,
    chosen_variant,
    head_width,
    refuse_missing_heads,
    refuse_odd_rotary,
    refuse_uneven_heads,
)
from attnviz.traces.trained import model_location
from attnviz.traces.trained.model_location import (
    is_trained,
    locate_transformer,
    refuse_incomplete_folder,
)
from attnviz.traces.trained.refusals import refuse_unusable_transformers
from attnviz.wings import load_from_wing
from attnviz.wording.commands import given_options, shell_quote
from attnviz.wording.rules import Rule, check_rules
from attnviz.wording.words import counted

SAMPLE_CHARACTERS = 2**20  # of a long text, tokenized to estimate its length
VECTORS_PER_TOKEN = 5  # embedding, query, key, value, context
CSV_LINE_BYTES, NUMBER_BYTES = 45, 4  # of a weight, in a .csv and in a .npz
MEMORY_PER_WEIGHT_FACTOR = 6  # memory needed to compute weights, in multiples of their size
LIVE_RULES = tuple(  # for the settings of a run that a page computes again for other texts
    Rule(
        name,
        when,
        f"{opt.live} makes a page that computes, and {reason} ({{option}})",
        f"leave {opt.live} out; or give {opt.model:agreement}, or no model"
        if name == "model"
        else "leave {option} out, or {opt.live}",
    )
    for name, when, reason in (
        ("model", lambda it: is_trained(it.model), "a trained transformer is too large for a page"),
        ("given", lambda it: it.given, "matrices of a file are for one text"),
        ("embeddings", lambda it: it.embeddings, "the vectors of other words are not in the page"),
        ("memory", lambda it: it.memory, "a second sentence cannot be typed there"),
        ("dropout", lambda it: it.dropout, "dropout draws other numbers for each text"),
        ("stream", lambda it: it.stream, "long texts are computed in parts"),
        ("dtype", lambda it: it.dtype not in ("float32", "float64"), "a page computes in 64 bits"),
        (
            "tokenizer",
            lambda it: it.tokenizer not in TOKENIZERS,
            f"a page can cut texts with {', '.join(TOKENIZERS)} only",
        ),
    )
)


def refuse_unusable_text(
    text: str | None,
    settings: Settings,
    query: str | None = None,
    key: str | None = None,
    *,
    part: str | None = None,
    streams: bool = False,
) -> Tokens | None:
    """Return the tokens of a text; None without one, and for a trained model. Refuse a text that
    cannot be tokenized or is too long for the memory, a --memory text that cannot be tokenized, and
    a query or key token, or a part, that is not in the text.

    `streams`: the command can do without all weights at once. Of a text for a trained model, only
    an empty one is refused: its tokenizer would import torch.
    """
    if part is not None:
        parse_part(part)  # refuses what names no part
    if is_trained(settings.model):  # its tokenizer would import torch
        if text is not None:
            refuse_empty_text(text)
        return None
    tokens = None if text is None else _tokenize_early(text, settings, streams=streams)
    memory_tokens = tokenize_memory(settings)
    if tokens is not None:
        is_given = settings.given is not None  # a file has its own keys, and may have more tokens
        own_key, own_part = (None, None) if is_given else (key, part)
        refuse_missing_tokens(tokens, tokens, query, own_key, own_part, memory_tokens)
    return tokens


def refuse_missing_tokens(
    tokens: Tokens,
    keys: Tokens,
    query: str | None,
    key: str | None,
    part: str | None,
    memory_tokens: Tokens | None = None,
) -> None:
    """Refuse a query that is not among the tokens, a key that is not among the keys, and a part
    that is in neither of them, or not in the second text."""
    if part is not None:
        text_part = parse_part(part)
        text_part.queries(len(tokens))
        text_part.keys(len(keys))
        if memory_tokens is not None:
            text_part.keys(len(memory_tokens), is_memory=True)
        if query is not None:
            text_part.find_query(tokens, query)
    elif query is not None:
        tokens.index(query, "query")
    if key is not None:
        keys.index(key, "key")


def _tokenize_early(text: str, settings: Settings, *, streams: bool) -> Tokens:
    """Return the tokens of a text, by the tokenizer of the settings or their shipped model.

    Refuses a text too long for the free memory, judging a very long one by its beginning.
    """
    if settings.model is not None:
        return load_card(settings.model).cut(text)
    needs_all = not streams or settings.dropout is not None or settings.given is not None
    refuse_oversized = partial(_refuse_oversized, settings=settings, needs_all=needs_all)
    if len(text) > SAMPLE_CHARACTERS:
        sample = tokenize(text[:SAMPLE_CHARACTERS], settings.tokenizer)
        subject = f"the first {SAMPLE_CHARACTERS:,} letters of the text alone make"
        refuse_oversized(len(sample) - 1, subject=subject)  # the sample may cut a token
    tokens = tokenize(text, settings.tokenizer)
    refuse_oversized(len(tokens), subject="the text makes")
    return tokens


def _refuse_oversized(count: int, settings: Settings, subject: str, *, needs_all: bool) -> None:
    """Refuse `count` tokens if their vectors do not fit in the free memory, or the weights of a
    single head if all of them are needed.

    `subject` begins the message: "the text makes".
    """
    number_bytes, free = model_location.BYTES_PER_DTYPE[settings.dtype], memory.free_bytes()
    if free is None:
        return
    token_bytes = VECTORS_PER_TOKEN * settings.width * number_bytes
    numbers, needed, fitting = "vectors", count * token_bytes, free // token_bytes
    if needs_all:
        numbers, needed = "weights", count**2 * number_bytes
        fitting = int((free / number_bytes / MEMORY_PER_WEIGHT_FACTOR) ** 0.5)
    if needed > free:
        raise AttnvizError(
            f"{subject} {count:,} tokens ({settings.tokenizer}); their {numbers} take "
            f"{memory.format_size(needed)}, and there are {memory.format_size(free)} free",
            f"give a text of at most about {fitting:,} tokens",
        )


def refuse_unwritable_weights(text: str | None, settings: Settings) -> None:
    """Refuse to write all weights of a text if they exceed the memory budget, so that they will not
    be in memory either; checks nothing where the model decides how many heads there are.
    """
    if text is None or settings.model is not None or settings.given is not None:
        return
    count = len(tokenize(text, settings.tokenizer))
    heads = chosen_variant(settings).heads * (settings.layers or 1)
    budget = memory.memory_budget(settings.memory_budget, memory.free_bytes())
    refuse_oversized_data(heads, count, count, max(budget, memory.DEFAULT_BUDGET // 4))


def refuse_oversized_data(heads: int, queries: int, keys: int, budget: int) -> None:
    """Refuse to write the weights of so many heads, queries and keys, if they exceed a budget."""
    count = heads * queries * keys
    if count * NUMBER_BYTES <= budget:
        return
    subject = f"the weights of {heads:,} heads" if heads > 1 else "the weights"
    part = f"{EXAMPLE},1:400"
    raise AttnvizError(
        f"{subject} for {queries:,} × {keys:,} tokens are {count:,} numbers: about "
        f"{memory.format_size(count * CSV_LINE_BYTES)} as .csv, "
        f"{memory.format_size(count * NUMBER_BYTES)} as .npz",
        f"write a part of them: {opt.part:{EXAMPLE}}, or {opt.part:{part}} for queries and keys",
    )


def refuse_unequal_lengths(first_tokens: Tokens, second_tokens: Tokens, tokenizer: str) -> None:
    """Refuse sentences with different numbers of tokens: they are compared by position."""
    if len(first_tokens) != len(second_tokens):
        count = counted(len(first_tokens), "token")
        raise AttnvizError(
            f"the first sentence has {count} ({tokenizer}) and the second {len(second_tokens)}, "
            "so they cannot be compared position by position",
            f"give sentences with the same number of tokens; {cmd.run:TEXT --show tokens} "
            "counts them",
        )


def refuse_unequal_texts(text: str | None, other_text: str | None, settings: Settings) -> None:
    """Refuse two texts that have different numbers of tokens; checks nothing if one is missing, if
    matrices are given, or with a trained model, whose tokenizer would import torch.
    """
    if text is None or other_text is None or settings.given is not None:
        return
    if is_trained(settings.model):
        return
    if settings.model is not None:
        card = load_card(settings.model)
        refuse_unequal_lengths(card.cut(text), card.cut(other_text), card.vocabulary.tokenizer)
        return
    tokens = tokenize(text, settings.tokenizer)
    refuse_unequal_lengths(tokens, tokenize(other_text, settings.tokenizer), settings.tokenizer)


def with_model_settings(settings: Settings) -> Settings:
    """Return the settings with the values that a model of attnviz decides.

    They are unchanged without such a model, also with a trained transformer.
    """
    if settings.model is None or is_trained(settings.model):
        return settings
    return load_card(settings.model).merge_settings(settings)


def refuse_impossible_settings(settings: Settings) -> None:
    """Refuse settings that no trace can be computed with: unknown devices, options that the model
    decides, missing files, heads that do not exist or do not divide the width, ….
    """
    refuse_unknown_device(settings.device)
    if is_trained(settings.model):
        refuse_trained_model_options(given_options(settings), settings.model)
        refuse_unusable_model(settings)
        return
    check_rules(settings, TRAINED_ONLY_RULES)
    if settings.model is not None:
        load_card(settings.model).refuse_other_settings(given_options(settings))
        model_settings = with_model_settings(settings)
        refuse_missing_heads(
            model_settings.without, model_settings.layers or 1, chosen_variant(model_settings).heads
        )
    elif settings.given is not None:
        files.refuse_missing_file(Path(settings.given), "take matrices from")
    elif settings.embeddings is not None:
        if model_location.locate_embedding_model(settings.embeddings) is None:
            path = files.split_inner_name(settings.embeddings)[0]
            files.refuse_missing_file(path, "take embeddings from")
    else:  # the width of an embedding is known
        variant = chosen_variant(settings)
        refuse_uneven_heads(variant.heads, variant.kv_heads)
        refuse_odd_rotary(settings, head_width(settings, variant, settings.width))
        refuse_missing_heads(settings.without, settings.layers or 1, variant.heads)


def refuse_download(tokenizer: str) -> None:
    """Refuse a tokenizer whose name comes from a file and that tiktoken would have to download."""
    if isinstance(tokenizer, NameInFile):
        try:
            find_tokenizer(tokenizer, download=False)
        except AttnvizError:
            command = f"{cmd.run:TEXT -t {shell_quote(tokenizer)}}"
            hint = f"to have it downloaded, name it once: {command}"
            refuse_name_in_file(tokenizer, "tokenizer", hint, about="tokenizer")


def refuse_missing_layer(layer: int, count: int) -> None:
    """Refuse a layer number, from 0, that a Trace of `count` layers does not have."""
    if not 0 <= layer < count:
        raise AttnvizError(
            f"there is no layer {layer}: layers count from 0, and there "
            f"{'is 1' if count == 1 else f'are {count}'}",
            f"try {opt.layer:{count - 1}}" if count > 1 else f"stack some with {opt.layers:2}",
            about="layer",
        )


def tokenize_memory(settings: Settings) -> Tokens | None:
    """Return the tokens of the second sentence (--memory); None if there is none.

    Refuses a sentence that cannot be tokenized.
    """
    if settings.memory is None:
        return None
    try:
        return tokenize(settings.memory, settings.tokenizer)
    except AttnvizError as error:
        raise error.with_problem(f"{opt.memory}: {error}") from None


def refuse_trained_model_options(options: Iterable[str], model_name: str | None) -> None:
    """Refuse the first of these settings that the trained model of this name decides itself."""
    for option in options:
        if option in Settings.__dataclass_fields__ and option not in SETTINGS_FOR_TRAINED:
            raise AttnvizError(
                f"{opt[option]} is given, but the trained model '{model_name}' decides that itself",
                f"leave {opt[option]} out, or {opt.model}",
                about=option,
            )


def refuse_ranking_trained(name: str) -> None:
    """Refuse a trained transformer without texts: it has no task whose sentences could be used."""
    if is_trained(name):
        raise model_error(
            f"'{name}' is a trained transformer, whose heads are ranked on your own texts",
            f"give a file with a text on each line: "
            f"{cmd.heads:--model {shell_quote(name)} --texts texts.txt}; for one text, "
            f"{cmd.inspect:TEXT --model {shell_quote(name)} --by effect}",
        )


def refuse_unusable_model(settings: Settings) -> None:
    """Refuse a trained model if transformers is not installed or too old, or if its local folder or
    file is incomplete."""
    refuse_unusable_transformers()
    location = None if settings.model is None else locate_transformer(settings.model)
    if location is not None and location.folder is not None:
        refuse_incomplete_folder(location.folder)
    if location is not None and location.file is not None:
        load_from_wing("refuse_unusable_gguf")(location.file)


def from_first_text(texts: Iterator[str]) -> Iterator[str]:
    """Return these texts, read up to the first that is not blank; refuse them if all are blank."""
    blank = 0
    for text in texts:
        if text.strip():
            return chain(repeat("", blank), [text], texts)
        blank += 1
    raise AttnvizError(
        "all texts are blank" if blank else "there are no texts",
        f"give a file with one text per line: {opt.file:texts.txt}",
        about="texts",
    )
