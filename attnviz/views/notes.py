"""CLOSING_NOTES, below tables: masked rows, given weights, random numbers, heads off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pkgutil import resolve_name

import torch

from attnviz.attention.arithmetic import MixedBy
from attnviz.options.values import AblationValue
from attnviz.traces.external.weight_forms import AXES
from attnviz.traces.origin import FromWeights
from attnviz.traces.randomness import (
    DROPOUT,
    PROJECTIONS,
    VECTORS,
    has_random_embeddings,
    random_output_sources,
    random_weight_sources,
    shows_weights_only,
)
from attnviz.traces.settings import HeadId, format_head_id, heads_off_text, parse_heads_off
from attnviz.traces.trace import Layer, Trace
from attnviz.views.attention_facts import TWO_DIGIT_TOLERANCE
from attnviz.views.grids.axes import ALL_MASKED_TEXT, ROW_SUM_NOTE
from attnviz.views.origin_words import untrained_length_note
from attnviz.views.reading import attention_head_name, has_single_attention
from attnviz.wording.numbers import share_text
from attnviz.wording.words import and_list, counted

MAX_NAMED_ROWS = 8  # more rows are counted, not named
OTHER_ROWS_SUM_NOTE = "every other row sums to 1"
CAUSAL_BY_ZEROS_NOTE = (
    "the weights are treated as causal: every weight above the diagonal is 0, in every head"
)
MECHANISM_ONLY_TEXT = "this shows the mechanism, not what the words mean"
INPUT_PARTS = ("tokens", "embeddings")
OUTPUT_REPLACEMENTS: dict[AblationValue, tuple[str, str]] = {  # for one head, and for several
    "zero": ("its output is replaced by 0", "their outputs are replaced by 0"),
    "mean": (
        "its output is replaced by its mean over the sentence, the same for every token",
        "each output is replaced by its mean over the sentence, the same for every token",
    ),
}
VECTOR_REPLACEMENTS: dict[AblationValue, tuple[str, str]] = {
    "zero": ("its vectors are 0", "their vectors are 0"),
    "mean": (
        "its vectors are replaced by their mean over the sentence",
        "each head's vectors are replaced by their mean over the sentence",
    ),
}


@dataclass(frozen=True)
class ClosingNote:
    """A kind of concluding note: which traces need it, and the function that writes it."""

    is_needed: Callable[[Trace], bool]
    sentences: str  # "module:function", imported only when it is needed
    takes_query: bool = False


CLOSING_NOTES = {  # in the order in which they are read
    "given weights": ClosingNote(
        lambda trace: trace.external_origin is not None, "attnviz.views.notes:given_weights_notes"
    ),
    "generated text": ClosingNote(
        lambda trace: trace.trained is not None,
        "attnviz.views.inspection.generated:generated_text_notes",
    ),
    "heads off": ClosingNote(
        lambda trace: bool(heads_off_names(trace)), "attnviz.views.notes:heads_off_notes"
    ),
    "what heads do": ClosingNote(
        lambda trace: trace.model is not None and bool(trace.model.heads),
        "attnviz.views.origin_words:head_role_notes",
    ),
    "answers": ClosingNote(
        lambda trace: trace.prediction is not None,
        "attnviz.views.answer_tables:answer_sentences",
        takes_query=True,
    ),
    "shifted vectors": ClosingNote(
        lambda trace: trace.outputs is not None and trace.outputs.with_all_heads is not None,
        "attnviz.views.answer_tables:vector_shift_sentences",
    ),
}


def closing_notes(
    trace: Trace, query: int | None = None, names: Iterable[str] = CLOSING_NOTES
) -> tuple[str, ...]:
    """Return the sentences that conclude a view: those of the kinds `names` (keys of CLOSING_NOTES)
    that the trace needs, in that order.
    """
    needed = [CLOSING_NOTES[name] for name in names if CLOSING_NOTES[name].is_needed(trace)]
    return tuple(
        sentence
        for note in needed
        for sentence in resolve_name(note.sentences)(trace, *[query] * note.takes_query)
    )


def heads_off_notes(trace: Trace) -> tuple[str, ...]:
    """Return notes on which heads are switched off, what replaces each output, and what the weights
    shown for them are.
    """
    off: dict[AblationValue, list[str]] = {}
    for layer in trace.layers:
        for head, instead in sorted(layer.off.items()):
            off.setdefault(instead, []).append(_head_subject(trace, layer, head))
    captured = {layer.layer for layer in trace.layers}  # of a trained transformer perhaps not all
    return (
        *(_captured_heads_note(heads, instead) for instead, heads in off.items()),
        *(
            f"{format_head_id(*head_id)} is switched off: {OUTPUT_REPLACEMENTS[value][0]}"
            for head_id, value in _heads_off_by_place(trace).items()
            if head_id[0] not in captured
        ),
    )


def _captured_heads_note(heads: list[str], instead: AblationValue) -> str:
    """Return the note on the switched-off heads `heads` (names) whose outputs are replaced in the
    same manner.
    """
    singular, ending = OUTPUT_REPLACEMENTS[instead]
    if len(heads) == 1:
        return f"{heads[0]} is switched off: {singular}; the weights shown are those it would have"
    names = and_list(heads)
    return f"{names} are switched off: {ending}; the weights shown are those they would have"


def _head_subject(trace: Trace, layer: Layer, head: int) -> str:
    """Return the name of a head for the beginning of a note: `the only head`, `head 1` or
    `L0H1`.
    """
    if trace.trained is not None:  # of which a single layer may be captured
        return format_head_id(layer.layer, head)
    is_only_head = len(trace.attention_layers) == 1 and layer.heads == 1
    return "the only head" if is_only_head else attention_head_name(trace, layer, head)


def heads_off_suffix(trace: Trace) -> str:
    """Return ` with L1H1 switched off`; empty where every head is on."""
    names = heads_off_names(trace)
    return f" with {names} switched off" if names else ""


def heads_off_names(trace: Trace) -> str:
    """Return the switched-off heads, such as `L1H0 and L1H1`; empty where every head is on."""
    off = _heads_off_by_place(trace)
    return heads_off_text(dict(sorted(off.items()))) if off else ""


def _heads_off_by_place(trace: Trace) -> dict[HeadId, AblationValue]:
    """Return what replaces the output of each switched-off head, by layer and head; for a trained
    transformer also in layers that the trace does not contain.
    """
    if trace.trained is not None:
        return parse_heads_off(trace.origin.settings.without)
    return {
        (layer.layer, head): value for layer in trace.layers for head, value in layer.off.items()
    }


def heads_off_vectors_note(layer: Layer, shown_heads: list[int]) -> str:
    """Return sentences on what replaces the context vectors of those of `shown_heads` that are
    switched off, each with a space before it; empty if none is off.
    """
    return "".join(
        f" {_numbered_heads_subject(layer, heads)} switched off: {texts[len(heads) > 1]}."
        for instead, texts in VECTOR_REPLACEMENTS.items()
        if (heads := [head for head in shown_heads if layer.off.get(head) == instead])
    )


def _numbered_heads_subject(layer: Layer, heads: list[int]) -> str:
    """Return `Head 1 is`, `Heads 1 and 2 are`, or `The only head is`."""
    if layer.heads == 1:
        return "The only head is"
    numbers_text = and_list([str(head) for head in heads])
    return f"Head {numbers_text} is" if len(heads) == 1 else f"Heads {numbers_text} are"


def row_sums_note(trace: Trace, mixed_by: MixedBy, rows_sum_to_one: bool) -> str:
    """Return the note on row sums and fully masked rows, written once for all tables of weights of
    a trace.

    `rows_sum_to_one` says whether each row of the tables sums to 1; it counts only where no row is
    fully masked.
    """
    blind_note = blind_rows_note(trace)
    if not blind_note:
        return ROW_SUM_NOTE if rows_sum_to_one else ""
    has_other_rows = any(
        bool(layer.visible_counts(head).any())
        for layer in trace.attention_layers
        for head in range(layer.heads if layer.has_masks_of_heads else 1)
    )
    sums_to_one = mixed_by == "softmax" and has_other_rows
    return f"{blind_note} · {OTHER_ROWS_SUM_NOTE}" if sums_to_one else blind_note


def blind_rows_note(trace: Trace) -> str:
    """Return a note on which rows attend to nothing because every key is masked; empty if there are
    none.
    """
    count = len(trace.rows_without_weights)
    if not count:
        return ""
    is_short_list = count <= MAX_NAMED_ROWS
    rows_text = and_list([*_blind_row_names(trace)]) if is_short_list else f"{count:,} rows"
    return f"{rows_text} {'reads' if count == 1 else 'read'} {ALL_MASKED_TEXT}"


def _blind_row_names(trace: Trace) -> Iterator[str]:
    """Yield `row 2` for each fully masked row, with its layer if there are several attentions, or
    with its head if heads have masks of their own.
    """
    for layer, head, row in trace.rows_without_weights:
        owner = "" if has_single_attention(trace) else f" of {layer.name}"
        if layer.has_masks_of_heads:
            owner = f" of {attention_head_name(trace, layer, head)}"
        yield f"row {row + 1}{owner}"


def given_settings(trace: Trace, source: FromWeights) -> dict[str, str]:
    """Return the parts of the settings line for given weights, by subject: `kind`, `heads`,
    `which`, `axes`, `mask`.
    """
    heads = sorted({layer.heads for layer in trace.layers})
    heads_text = " or ".join(map(str, heads))
    is_cross = trace.keys is not trace.tokens
    return {
        "kind": f"weights of {source.name}" if source.name else "",
        "heads": f"{counted(len(trace.layers), 'layer')} × {heads_text} "
        f"head{'' if heads == [1] else 's'}",
        "which": f"reads {counted(len(trace.keys), 'token')}" if is_cross else "",
        "axes": _dimensions_text(trace),
        "mask": "causal" if trace.variant.causal else "",
    }


def _dimensions_text(trace: Trace) -> str:
    """Return how four dimensions of given weights were read, as the first may be of two kinds."""
    names = str(trace.provenance.settings.get("axes", "")).split()  # those of a file may be others
    is_known = len(names) == 4 and {*names} <= {*AXES}
    return f"dimensions read as {', '.join(names)}" if is_known else ""


def given_weights_notes(trace: Trace) -> Iterator[str]:
    """Yield notes on given weights: that their zeros make them causal, and how many rows do not sum
    to 1; nothing for other traces.
    """
    if trace.external_origin is None:
        return
    if trace.variant.causal:
        yield CAUSAL_BY_ZEROS_NOTE
    sums = torch.cat([layer.attended.weights.double().sum(-1).flatten() for layer in trace.layers])
    odd_sums = sums[(sums - 1).abs() >= TWO_DIGIT_TOLERANCE]
    if len(odd_sums):
        low, high = share_text(float(odd_sums.min())), share_text(float(odd_sums.max()))
        span = f"the sum is {low}" if low == high else f"sums from {low} to {high}"
        yield f"{_odd_rows_text(len(odd_sums), len(sums))} to 1: {span}"


def _odd_rows_text(odd_count: int, row_count: int) -> str:
    """Return a text such as `3 of 12 rows do not sum`."""
    if odd_count == row_count > 1:
        return f"none of {row_count:,} rows sums"
    rows_text = f"{odd_count:,} of {row_count:,} rows" if row_count > 1 else "its only row"
    return f"{rows_text} do{'es' * (odd_count == 1)} not sum"


def softmax_caveat(trace: Trace) -> str:
    """Return a note on what is random in the weights that the softmax gives, before given weights
    replace them; empty if nothing is.
    """
    random_before = random_weight_sources(trace, by_hand=False)
    return f"{_random_inputs_text(random_before)}: {MECHANISM_ONLY_TEXT}" if random_before else ""


def random_numbers_caveat(trace: Trace, shown_parts: Collection[str]) -> str:
    """Return a note on what is random in the shown parts; empty where everything they are computed
    from was given.

    For a sentence of a length that the model was never trained on, the note says that instead.
    """
    length_caveat = untrained_length_note(trace)
    if length_caveat:
        return length_caveat
    if all(name in INPUT_PARTS for name in shown_parts):
        is_random = "embeddings" in shown_parts and has_random_embeddings(trace)
        return f"random vectors: {MECHANISM_ONLY_TEXT}" if is_random else ""
    random_before = random_weight_sources(trace)
    if random_before:
        return f"{_random_inputs_text(random_before)}: {MECHANISM_ONLY_TEXT}"
    random_after = () if shows_weights_only(shown_parts) else random_output_sources(trace)
    if not random_after:
        return ""
    weights_text = f"the weights{' before it' * (DROPOUT in random_after)} are real"
    return f"random {and_list(random_after)}: {weights_text}, what is computed from them is not"


def _random_inputs_text(random_parts: tuple[str, ...]) -> str:
    """Return which inputs are random, and which are given where that could be mistaken."""
    if VECTORS in random_parts:
        return "random vectors"
    if random_parts == (DROPOUT,):
        return f"random {DROPOUT}"
    random_part = PROJECTIONS if PROJECTIONS in random_parts else random_parts[0]
    return f"given vectors, random {random_part}"
