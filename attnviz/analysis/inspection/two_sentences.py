"""Compares two Traces head by head: two sentences, or one sentence in two models.

A token's row of weights is compared with the row of its counterpart in the other Trace. The
weights on tokens without a counterpart are added up to one number, so that rows still sum to 1.

Heads of one sentence are ranked by how far their rows are apart on average: between two models,
almost every head has some weight that changes from 0 to 1. Heads of two sentences are ranked by the
largest change of a link between tokens that both share, without special tokens. If no such link
changes, as in a decoder before the word that differs, all links count.

Models that cut one sentence into different tokens are compared by word, if both have the same
words: weights are summed over the tokens of a word that is read, and averaged over those of a word
that reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.maps import build_maps, merge_into_groups
from attnviz.analysis.measures import divergence, normalize_rows
from attnviz.cells import CELLS_PER_BAND, FULL_SLICE
from attnviz.errors import AttnvizError, model_error, naming_in_errors, opt
from attnviz.heads.head import Head
from attnviz.machine import files
from attnviz.tokens.grouping import group_by_word, word_tokens
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace
from attnviz.traces.inputs import refuse_changes_to_trace
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.result import RanksHeads, Rows, Showable
from attnviz.traces.settings import SettingKeywords, Settings, settings_refused
from attnviz.traces.trace import Trace
from attnviz.traces.trained.forward_pass import PreparedInput
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.model_in_memory import take_model_in_memory
from attnviz.traces.trained.pieces import cut_text
from attnviz.traces.trained.tracing import (
    UNTRUSTED_SETTINGS,
    checking_input,
    reload_model,
    with_given_model,
)
from attnviz.wording.commands import shell_quote
from attnviz.wording.keywords import replace_choices, with_checked_arguments, with_checked_settings
from attnviz.wording.numbers import share_text
from attnviz.wording.words import and_list, bidi_isolated, counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

PairRows = Float[np.ndarray, "pair key"]
PairBand = tuple[int, PairRows, PairRows]  # the number of the first pair, and rows of both maps
ModelChoice = Any  # whatever `trace` takes as a model
DEFAULT_SENTENCE_NAMES = ("first sentence", "second sentence")
DEFAULT_RUN_NAMES = ("first run", "second run")  # of one sentence
DEFAULT_WEIGHT_NAMES = ("first weights", "second weights")  # of one sentence, computed elsewhere
DEFAULT_NAMES = (DEFAULT_SENTENCE_NAMES, DEFAULT_RUN_NAMES, DEFAULT_WEIGHT_NAMES)
MIN_SHOWN_CHANGE = 5e-4  # smaller changes of weights or bits are written as 0


@dataclass(frozen=True, kw_only=True)
class WeightChange:
    """One weight in both sentences; `query` and `key` are positions in the first, from 0."""

    query: int
    key: int
    before: float
    after: float
    row: int  # the number of the pair of query tokens
    column: int  # of the pair of keys

    @property
    def size(self) -> float:
        return abs(self.after - self.before)


@dataclass(frozen=True, eq=False, repr=False)
class HeadComparison:
    """A head on both sentences: the divergence of its rows, and the weights that change most."""

    first: Head
    second: Head
    divergence: float  # the mean over token pairs, in bits
    largest: WeightChange
    largest_shared: WeightChange | None  # the largest between shared tokens that are not special

    @property
    def name(self) -> str:
        return self.first.name

    def __repr__(self) -> str:
        """Return a line like `<L4H9: weight .10 → .45, 0.123 bits apart>`.

        The weight is the one that changes most between tokens that both sentences share.
        """
        change = self.largest_shared or self.largest
        weights = f"{share_text(change.before)} → {share_text(change.after)}"
        return f"<{self.name}: weight {weights}, {self.divergence:.3f} bits apart>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TraceComparison(RanksHeads, Showable):
    """Two Traces compared head by head; the head that differs most comes first."""

    first: Trace
    second: Trace
    names: tuple[str, str] = DEFAULT_SENTENCE_NAMES
    rows: TokenPairs  # of queries
    columns: TokenPairs  # of keys
    heads: tuple[HeadComparison, ...]
    options: InspectOptions
    query: int | None = None  # the only pair whose rows are compared; None compares all

    def __repr__(self) -> str:
        """Return a line like `<TraceComparison of minilm and tuned: 72 heads, first L4H9>`."""
        heads = f"{counted(len(self.heads), 'head')}, first {self.heads[0].name}"
        return f"<TraceComparison of {and_list(self.names)}: {heads}>"

    @property
    def ranking(self) -> Rows[HeadComparison]:
        """The heads, starting with the one that differs most."""
        return Rows(self.heads)

    @cached_property
    def is_one_sentence(self) -> bool:
        """Whether both Traces are of one sentence: heads are then ranked by their divergence."""
        return is_one_sentence(self.first, self.second)

    @cached_property
    def shared(self) -> bool:
        """Whether heads of two sentences are ranked by links between tokens that both share: only
        if any changes."""
        changes = [head.largest_shared for head in self.heads if head.largest_shared]
        is_any_changed = any(change.size >= MIN_SHOWN_CHANGE for change in changes)
        return is_any_changed and not self.is_one_sentence

    @with_checked_arguments
    def link(self, head: HeadComparison) -> WeightChange:
        """Return the change that stands for a head: the largest between shared tokens if `shared`,
        otherwise the largest of all."""
        return head.largest_shared if self.shared and head.largest_shared else head.largest

    @property
    def changes(self) -> bool:
        """Whether any head attends differently in the two Traces."""
        return any(head.largest.size or head.divergence for head in self.heads)


@with_checked_settings(lambda keywords: {"model", *settings_refused({"model": MINILM})})
def compare_models(
    text: str | Path,
    a: ModelChoice,
    b: ModelChoice,
    settings: Settings | None = None,
    *,
    names: tuple[str, str] | None = None,
    layer: int | str | None = None,
    head: int | str | None = None,
    query: int | str | None = None,
    command: str | None = None,
    **changes: Unpack[SettingKeywords],
) -> TraceComparison:
    """Compare two models on one sentence: `compare_models("it was tired", "minilm", "step-9")`

    `a` and `b` are models that `trace` takes: names, folders, models in memory, or pairs of one and
    its tokenizer; `tokenizer` is that of both, or a list of two. Heads are ranked by the mean
    divergence of their rows. If the models cut the sentence into different tokens, they are
    compared by word. `names` are what the models are called: by default their own names, with
    folders where these are equal. `layer` and `head` choose heads, `query` compares one token's
    rows only, and keywords replace fields of the settings. Refuses models that find different
    words in the sentence, and models with different heads, unless a head that both have is chosen.

    >>> from attnviz import compare_models
    >>> found = compare_models("the keys near the cabinet", "agreement", "agreement")
    >>> found.view().closing[0]
    'No head differs: all 4 heads have the same weights in both.'
    """
    if "model" in changes:
        problem = "the models are 'a' and 'b', but 'model' is given, too"
        raise model_error(problem, "leave 'model' out")
    if a is None or b is None:
        raise AttnvizError(
            f"{'a' if a is None else 'b'} is None, and should be a model",
            'give two models: compare_models(text, "minilm", "run/step-9")',
        )
    keywords: dict[str, Any] = {**changes}
    tokenizer = keywords.pop("tokenizer", None)
    is_list = isinstance(tokenizer, list | tuple)
    tokenizers = tokenizer if is_list else (tokenizer, tokenizer)
    if len(tokenizers) != 2:
        raise AttnvizError(
            f"tokenizer has {counted(len(tokenizers), 'item')}, and there are two models",
            "give one for both models, or two: tokenizer=[first, second]",
            about="tokenizer",
        )
    models = []
    for model, own in zip((a, b), tokenizers, strict=True):
        is_pair = isinstance(model, list | tuple) and len(model) == 2
        models.append(tuple(model) if is_pair else (model, own))
    named = [isinstance(model, str | os.PathLike) for model, _ in models]
    traces: list[Trace] = []
    for (model, own), is_named in zip(models, named, strict=True):
        # A name brings its own tokenizer; beside a model in memory, one `tokenizer` is that one's.
        has_tokenizer = own is not None and (not is_named or all(named) or is_list)
        more = {**keywords, "tokenizer": own} if has_tokenizer else keywords
        with (
            naming_in_errors(str(model)) if is_named and a != b else nullcontext(),
            checking_query(None if traces else query),  # the other may have more special tokens
        ):
            traces.append(trace(text, settings, model=model, command=command, **more))
    return compare_two_traces(*traces, names=names, layer=layer, head=head, query=query)


@with_checked_settings(settings_refused, model=MINILM)
def compare_sentences(
    first: str | Path | Trace,
    second: str | Path | Trace,
    settings: Settings | None = None,
    *,
    names: tuple[str, str] | None = None,
    layer: int | str | None = None,
    head: int | str | None = None,
    query: int | str | None = None,
    command: str | None = None,
    **changes: Unpack[SettingKeywords],
) -> TraceComparison:
    """Compare two sentences in a model: `compare_sentences("too tired", "too wide")`

    Keywords replace fields of the settings, such as `model`, which is MiniLM by default; beside a
    Trace, a text is read by the Trace's model. `names`, `layer`, `head` and `query` are those of
    `compare_models`. Refuses equal texts, sentences without a common token, and Traces with
    different heads.

    >>> from attnviz import compare_sentences
    >>> found = compare_sentences("The animal was too tired", "The animal was too wide")
    >>> found.heads[0].name  # the head with the link that changes most
    'L4H9'
    """
    finished_traces = [source for source in (first, second) if isinstance(source, Trace)]
    base = settings or Settings(model=MINILM)
    if len(finished_traces) == 1 and finished_traces[0].external_origin is None:
        base = settings or finished_traces[0].origin.settings
    if isinstance(first, str) and first == second:
        raise AttnvizError("both sentences are the same", "give another one")
    keywords: dict[str, Any] = {**changes}
    if len(finished_traces) == 2:
        refuse_changes_to_trace(keywords)
    elif finished_traces and finished_traces[0].trained is not None:
        # The other sentence must be read by the same model.
        in_memory, others = take_model_in_memory(keywords)
        is_named = in_memory is None and not finished_traces[0].trained.in_memory
        names_to_load = UNTRUSTED_SETTINGS if is_named else ()
        chosen = {name: others.get(name, getattr(base, name)) for name in names_to_load}
        model, _ = reload_model(with_given_model(finished_traces[0], in_memory, chosen))
        if model.in_memory:
            keywords = {**others, "model": model.model, "tokenizer": model.tokenizer}
    with checking_query(query, first, second):
        traces = [
            source
            if isinstance(source, Trace)
            else trace(source, base, command=command, **keywords)
            for source in (first, second)
        ]
    return compare_two_traces(*traces, names=names, layer=layer, head=head, query=query)


def checking_query(
    query: int | str | None, *sources: str | Path | Trace
) -> AbstractContextManager[None]:
    """Return a context in which no model reads a text if neither this text nor one of the sources
    has the token `query`, also as a word of several tokens."""

    def refuse_missing_query(model: LoadedTransformer, prepared: PreparedInput) -> None:
        assert query is not None
        if sources and (prepared.model_input.kind != "self" or prepared.prompt is not None):
            return  # what a model writes after the other text is not known yet
        for tokens in (prepared.tokens, *(_tokens_of_source(each, model) for each in sources)):
            for side in (tokens, word_tokens(tokens)):
                with suppress(AttnvizError):
                    side.index(query, "query")
                    return
        prepared.tokens.index(query, "query")

    return nullcontext() if query is None else checking_input(refuse_missing_query)


def _tokens_of_source(source: str | Path | Trace, model: LoadedTransformer) -> Tokens:
    if isinstance(source, Trace):
        return source.tokens
    text = files.read_text(source) if isinstance(source, Path) else source
    return cut_text(model, text, truncate=True)


def compare_two_traces(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] | None = None,
    layer: int | str | None = None,
    head: int | str | None = None,
    query: int | str | None = None,
) -> TraceComparison:
    """Compare every head of two finished Traces, which `names` or their own names tell apart."""
    options = replace_choices(InspectOptions(), {"layer": layer, "head": head, "query": query})
    if names is None:
        return compare_traces(first, second, trace_names(first, second), options)
    chosen_names = tuple(names) if isinstance(names, Iterable) else ()
    is_pair = len(chosen_names) == 2 and all(isinstance(name, str) for name in chosen_names)
    if isinstance(names, str) or not is_pair or not all(chosen_names) or len({*chosen_names}) < 2:
        raise AttnvizError(
            "names are what the two are called, and should be two different texts",
            'try names=("before", "after")',
            about="names",
        )
    return compare_traces(first, second, (chosen_names[0], chosen_names[1]), options)


def trace_names(first: Trace, second: Trace) -> tuple[str, str]:
    """Return what two Traces are called: by names of their own or of their models, with as many
    folders as tell these apart (`run-1/last`), or by the only setting that differs (`seed 7`).

    Otherwise "first sentence" and "second sentence", or of one sentence "first run" and "second
    run", or "first weights" and "second weights" if these were computed elsewhere.
    """
    parts = _name_parts(first), _name_parts(second)
    for count in range(1, max(map(len, parts)) + 1):
        names = tuple("/".join(each[-count:]) for each in parts)
        if all(names) and names[0] != names[1]:
            return names[0], names[1]
    if not is_one_sentence(first, second):
        return DEFAULT_SENTENCE_NAMES
    if first.external_origin or second.external_origin:
        return DEFAULT_WEIGHT_NAMES
    return _differing_setting(first, second) or DEFAULT_RUN_NAMES


def is_one_sentence(first: Trace, second: Trace) -> bool:
    """Return whether both traces have the same text, or the same token labels if a text is
    unknown. A word that a model appends to ask for an answer does not count."""
    texts = [
        traced.text and traced.text.removesuffix(f" {_appended_word(traced)}")
        for traced in (first, second)
    ]
    return texts[0] == texts[1] if all(texts) else first.tokens.labels == second.tokens.labels


def _appended_word(traced: Trace) -> str:
    """Return the word that a small model appends to a text, such as `?`; otherwise ""."""
    return traced.model.vocabulary.asks if traced.model else ""


def _name_parts(traced: Trace) -> tuple[str, ...]:
    """Return the parts of a Trace's name, of which the last is the shortest name: the folders of
    its model; none for random vectors. Weights that were computed elsewhere have one name."""
    if traced.external_origin is not None:
        return (traced.external_origin.name,)
    card_name = traced.trained.name if traced.trained else ""
    return Path(traced.origin.settings.model or card_name).parts


def _differing_setting(first: Trace, second: Trace) -> tuple[str, str] | None:
    """Return the two values of the only setting that differs: `causal` and `scaled`, `seed 1` and
    `seed 2`. None if several differ, or if one value is not given."""
    settings = asdict(first.origin.settings), asdict(second.origin.settings)
    differing = [name for name, value in settings[0].items() if settings[1][name] != value]
    values = [setting[name] for name in differing for setting in settings]
    if len(values) != 2 or any(value is None or isinstance(value, bool) for value in values):
        return None
    prefix = "" if isinstance(values[0], str) else f"{differing[0].replace('_', ' ')} "
    return f"{prefix}{values[0]}", f"{prefix}{values[1]}"


def _sides_with_shared_ids(first: Trace, second: Trace, *, words: bool) -> list[Tokens]:
    """Return the tokens of both traces and then the keys of both, or with `words` the words.

    Unless both are of one model, equal labels get equal ids, so that tokens can be paired; words
    do if their characters are equal, upper or lower case.
    """
    sides = [first.tokens, second.tokens, first.keys, second.keys]
    models = [
        None if traced.external_origin else traced.origin.settings.model
        for traced in (first, second)
    ]
    if not words and models[0] is not None and models[0] == models[1]:
        return sides
    sides = [word_tokens(side) for side in sides] if words else sides
    names = [[*_word_spellings(side)] if words else side.labels for side in sides]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(chain(*names)))}
    return [
        replace(side, ids=tuple(numbers[name] for name in side_names))
        for side, side_names in zip(sides, names, strict=True)
    ]


def _word_spellings(words: Tokens) -> Iterator[str]:
    """Yield the characters of each word in lower case; the labels of special tokens as they are."""
    for position, (piece, label) in enumerate(zip(words.pieces, words.labels, strict=True)):
        is_special = position in words.special
        yield label if is_special else piece.decode(errors="replace").strip().casefold()


def compare_traces(
    first: Trace, second: Trace, names: tuple[str, str], options: InspectOptions
) -> TraceComparison:
    """Compare every head of one Trace with the same head of another, the largest change first.

    Traces of one text with different tokens are compared by word. Refuses different words or heads,
    a query token without a counterpart, and one that sees only what stands before the first
    difference.
    """
    if are_cut_differently(first, second):
        _refuse_other_words(first, second, names)
        options = replace(options, words=True)
    sides = _sides_with_shared_ids(first, second, words=options.words)
    tokens, other_tokens, keys, other_keys = sides
    rows = pair_tokens(tokens, other_tokens)
    columns = rows if first.keys is first.tokens else pair_tokens(keys, other_keys)
    query = None if options.query is None else _find_pair(rows, options.query)
    maps = _maps_of_both(first, second, names, options)
    heads = [
        _compare_head(first_map, second_map, rows, columns, query)
        for first_map, second_map in zip(*maps, strict=True)
    ]
    if all(head.largest.size < MIN_SHOWN_CHANGE for head in heads):
        _refuse_same_beginning(rows, columns, query, heads)
    sentences = TraceComparison(
        first=first,
        second=second,
        names=names,
        rows=rows,
        columns=columns,
        heads=tuple(heads),
        options=options,
        query=query,
    )

    def order(head: HeadComparison) -> tuple[float, float]:
        """Return the two sizes that heads are sorted by, so that the largest come first."""
        change, apart = -sentences.link(head).size, -head.divergence
        return (apart, change) if sentences.is_one_sentence else (change, apart)

    return replace(sentences, heads=tuple(sorted(heads, key=order)))


def _refuse_same_beginning(
    rows: TokenPairs, columns: TokenPairs, query: int | None, heads: Sequence[HeadComparison]
) -> None:
    """Refuse two sentences that are the same up to the query, or without one up to the last pair,
    if no head sees what follows: a model that reads from left to right."""
    last = len(rows) - 1
    asked = last if query is None else query

    def is_same_beginning(pair: int) -> bool:
        """Return whether both sentences are the same up to a pair of tokens, and then differ."""
        ends = rows.first[pair] + 1, rows.second[pair] + 1
        first, second = rows.tokens.ids, rows.others.ids
        return first[: ends[0]] == second[: ends[1]] and first != second

    numbers = rows.first[asked], rows.second[asked]
    hides = all(
        bool(head_map.cells.row(number).hidden[0, number + 1 :].all())
        for head in heads
        for head_map, number in zip((head.first, head.second), numbers, strict=True)
    )
    if rows is not columns or not is_same_beginning(asked) or not hides:
        return
    label = rows.labels(asked)[0]
    hint = "give sentences that differ in an earlier word"
    if not is_same_beginning(last):
        position = rows.first[last]
        advice = "ask for a token that sees the difference, such as the last"
        hint = f"{advice}: {opt.query:{shell_quote(rows.tokens.as_typed(position))}}"
    raise AttnvizError(
        f"the sentences differ only after '{label}', and the model reads from left to right: "
        f"what '{label}' attends to is the same in both",
        hint,
        about="query",
    )


def are_cut_differently(first: Trace, second: Trace) -> bool:
    """Return whether two Traces of one text have different tokens; special tokens, and those that a
    model generated, may differ."""
    if first.text is None or second.text is None or not is_one_sentence(first, second):
        return False
    sides = ((first.tokens, second.tokens), (first.keys, second.keys))
    return any(
        [one.labels[position] for position in _text_positions(first, one)]
        != [two.labels[position] for position in _text_positions(second, two)]
        for one, two in sides
    )


def _text_positions(traced: Trace, tokens: Tokens) -> list[int]:
    """Return the positions of those queries, or keys, that are tokens of the given text."""
    end = len(tokens) - (tokens.labels[-1] == _appended_word(traced))
    if tokens is traced.tokens and traced.prompt is not None:
        end = min(end, traced.prompt)
    return [position for position in range(end) if position not in tokens.special]


def _refuse_other_words(first: Trace, second: Trace, names: tuple[str, str]) -> None:
    """Refuse two Traces of one text that is cut into different words, naming the first of them."""
    for one, two in ((first.tokens, second.tokens), (first.keys, second.keys)):
        words = [*_text_words(first, one)], [*_text_words(second, two)]
        for pair in zip_longest(*words):
            spellings = [word and word.casefold() for word in pair]
            if spellings[0] != spellings[1]:
                word, other = ("none" if each is None else f"'{each}'" for each in pair)
                raise AttnvizError(
                    f"the sentence is cut into different words, first {word} in {names[0]} and "
                    f"{other} in {names[1]}",
                    "compare models whose tokenizers find the same words in the sentence",
                )


def _text_words(traced: Trace, tokens: Tokens) -> Iterator[str]:
    """Yield the words of the given text that its tokens make up."""
    positions = {*_text_positions(traced, tokens)}
    words = word_tokens(tokens)
    for piece, group in zip(words.pieces, group_by_word(tokens), strict=True):
        if group[0] in positions:
            yield piece.decode(errors="replace").strip()


def _maps_of_both(
    first: Trace, second: Trace, names: tuple[str, str], options: InspectOptions
) -> tuple[tuple[Head, ...], tuple[Head, ...]]:
    """Return the maps of the chosen heads of both Traces.

    Refuses a layer or head that one of them lacks, and different heads.
    """
    maps = []
    for traced, name in zip((first, second), names, strict=True):
        with nullcontext() if names in DEFAULT_NAMES else naming_in_errors(name):
            maps.append(build_maps(traced, options, (merge_into_groups,)))
    head_names = [[head_map.name for head_map in each] for each in maps]
    if head_names[0] != head_names[1]:
        known_as = tuple(f"the {name}" for name in names) if names in DEFAULT_NAMES else names
        (heads, last), (other_heads, other_last) = ((len(each), each[-1]) for each in head_names)
        common = next((each for each in maps[0] if each.name in head_names[1]), None)
        hint = "give two with the same layers and heads"
        if common is not None:
            hint += f", or choose one: {opt.layer:{common.layer.layer}} {opt.head:{common.number}}"
        raise AttnvizError(
            f"the two do not have the same heads: {heads} in {known_as[0]}, up to {last}, and "
            f"{other_heads} in {known_as[1]}, up to {other_last}",
            hint,
        )
    return maps[0], maps[1]


def _find_pair(rows: TokenPairs, name: int | str) -> int:
    """Return the index of the pair whose token is called `name` in the first sentence, otherwise in
    the second. Refuses a token without a counterpart, and a name that neither sentence has."""
    try:
        position, positions = rows.tokens.index(name, "query"), rows.first
    except AttnvizError:
        if isinstance(name, int) or not rows.others.find(name):
            raise
        position, positions = rows.others.index(name, "query"), rows.second
    if position not in positions:
        label = rows.tokens.labels[name] if isinstance(name, int) else name
        raise AttnvizError(
            f"'{label}' has no counterpart in the other sentence",
            f"name another token, or leave {opt.query} out",
        )
    return positions.index(position)


def _compare_head(
    first: Head, second: Head, rows: TokenPairs, columns: TokenPairs, query: int | None
) -> HeadComparison:
    """Compare a head's weights in both sentences, in all paired rows or in that of the pair
    `query`."""
    divergences, changes, shared_changes = [], [], []
    is_shared_key = np.isin(np.arange(len(columns)), columns.shared)
    for band in _paired_bands(first, second, rows, columns, query):
        start, first_rows, second_rows = band
        both = (normalize_rows(torch.from_numpy(each)) for each in (first_rows, second_rows))
        divergences.append(divergence(*both).numpy())
        change = np.abs(second_rows - first_rows)[:, :-1]
        pair_numbers = np.arange(start, start + len(change))
        is_shared_query = np.isin(pair_numbers, rows.shared if query is None else query)
        changes.append(_largest_change(rows, columns, change, band))
        if is_shared_query.any() and is_shared_key.any():
            shared_change = np.where(is_shared_query[:, None] & is_shared_key, change, -1)
            shared_changes.append(_largest_change(rows, columns, shared_change, band))
    return HeadComparison(
        first,
        second,
        float(np.concatenate(divergences).mean()),
        max(changes, key=lambda weight_change: weight_change.size),
        max(shared_changes, key=lambda weight_change: weight_change.size, default=None),
    )


def _largest_change(
    rows: TokenPairs, columns: TokenPairs, change: PairRows, band: PairBand
) -> WeightChange:
    """Return the largest change in a band of paired rows."""
    start, first_rows, second_rows = band
    row, column = divmod(int(change.argmax()), change.shape[1])
    return WeightChange(
        query=rows.first[start + row],
        key=columns.first[column],
        row=start + row,
        column=column,
        before=float(first_rows[row, column]),
        after=float(second_rows[row, column]),
    )


def _paired_bands(
    first: Head, second: Head, rows: TokenPairs, columns: TokenPairs, query: int | None
) -> Iterator[PairBand]:
    """Yield the number of the first pair, and its rows in the first and the second map, a band of
    pairs at a time. Rows are as `_rows_with_remainder` returns them; with `query` only that pair is
    read."""
    widest = max(head_map.cells.shape[1] for head_map in (first, second))
    rows_at_once = max(1, CELLS_PER_BAND // widest) if query is None else 1
    numbers = range(len(rows)) if query is None else range(query, query + 1)
    for start in numbers[::rows_at_once]:
        part = slice(start, min(start + rows_at_once, numbers.stop))
        yield (
            start,
            _rows_with_remainder(first, rows.first[part], columns.first),
            _rows_with_remainder(second, rows.second[part], columns.second),
        )


def _rows_with_remainder(
    head_map: Head, rows: tuple[int, ...], columns: tuple[int, ...]
) -> PairRows:
    """Return these rows and columns of a map, with one more column for all other keys together."""
    low, high = rows[0], rows[-1] + 1
    values = head_map.cells.window(slice(low, high), FULL_SLICE).values[np.asarray(rows) - low]
    paired_weights: PairRows = values[:, list(columns)].astype(np.float64)
    remainder = values.sum(axis=1, dtype=np.float64) - paired_weights.sum(axis=1)
    return np.column_stack([paired_weights, remainder.clip(min=0)])


@dataclass(frozen=True)
class TokenPairs:
    """Paired tokens of two sentences: their positions in each, in order."""

    tokens: Tokens
    others: Tokens
    first: tuple[int, ...]  # positions in `tokens`
    second: tuple[int, ...]  # positions in `others`

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def replaced(self) -> tuple[int, ...]:
        """The numbers of the pairs whose two tokens differ."""
        pairs = zip(self.first, self.second, strict=True)
        return tuple(
            number
            for number, (first, second) in enumerate(pairs)
            if self.tokens.ids[first] != self.others.ids[second]
        )

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """The numbers of the pairs of equal tokens that are not special."""
        special = self.tokens.special
        return tuple(
            number
            for number, position in enumerate(self.first)
            if number not in self.replaced and position not in special
        )

    def labels(self, pair: int) -> tuple[str, str]:
        first, second = self.first[pair], self.second[pair]
        return bidi_isolated(self.tokens.labels[first]), bidi_isolated(self.others.labels[second])

    def name(self, pair: int) -> str:
        """Return one label for a pair: `tired`, or `tired/wide` if its tokens differ."""
        first, second = self.labels(pair)
        return f"{first}/{second}" if pair in self.replaced else first


def pair_tokens(tokens: Tokens, other_tokens: Tokens) -> TokenPairs:
    """Pair equal tokens of two sentences, and tokens that replace as many others.

    Refuses sentences without any pair.
    """
    first, second = list[int](), list[int]()
    matcher = SequenceMatcher(None, tokens.ids, other_tokens.ids, autojunk=False)
    for kind, *ends in matcher.get_opcodes():
        run, other_run = range(*ends[:2]), range(*ends[2:])
        if kind == "equal" or (kind == "replace" and len(run) == len(other_run)):
            first += run
            second += other_run
    if not first:
        raise AttnvizError(
            "the two sentences have no token in common, so nothing can be compared",
            "give sentences that differ in a word or two",
        )
    return TokenPairs(tokens, other_tokens, tuple(first), tuple(second))
