"""The heads that options choose, without some tokens, in words, or merged into one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.errors import AttnvizError, opt
from attnviz.heads import changes
from attnviz.heads.head import Head
from attnviz.heads.side import Side, token_side
from attnviz.tokens.grouping import GROUPINGS
from attnviz.tokens.text_part import parse_part
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import format_head_id
from attnviz.traces.trace import Trace
from attnviz.wording.words import and_list, counted

Heads = tuple[Head, ...]
HeadsStep = Callable[[Heads, Trace, InspectOptions], Heads]


def maps_of_heads(trace: Trace, options: InspectOptions) -> Heads:
    """Return each head that `options.layer` and `options.head` choose, in the model's
    order. All heads are chosen where these are None; a layer or head that the trace does not have
    is refused."""
    numbers = [layer.layer for layer in trace.layers]
    chosen = numbers if options.layers is None else options.layers
    if missing := [number for number in chosen if number not in numbers]:
        raise _missing_part_error("layer", missing[0], numbers)
    layers = [layer for layer in trace.layers if layer.layer in chosen]
    heads = range(max(layer.heads for layer in layers))
    for word in [] if options.head is None else str(options.head).split(","):
        if int(word.rpartition("H")[2]) not in heads:
            raise _missing_part_error("head", int(word.rpartition("H")[2]), heads)
    rows, columns = token_side(trace.tokens), token_side(trace.keys)  # shared by all heads
    return tuple(
        Head(
            format_head_id(layer.layer, head),
            layer.weights.cells("mixing", head),
            rows,
            rows if trace.keys_of(layer) is trace.tokens else columns,
            layer,
            head,
        )
        for layer in layers
        for head in range(layer.heads)
        if options.chooses_head(layer.layer, head)
    )


def build_maps(trace: Trace, options: InspectOptions, steps: tuple[HeadsStep, ...] = ()) -> Heads:
    """Return the heads that the options choose, after these steps in order."""
    maps = maps_of_heads(trace, options)
    for step in steps:
        maps = step(maps, trace, options)
    return maps


def _missing_part_error(kind: str, number: int, known: Sequence[int]) -> AttnvizError:
    """Return the error for a layer or head (`kind`) that does not exist; `known` has the existing
    numbers."""
    ending, last = ("", "") if len(known) == 1 else ("s", f" to {known[-1]}")
    return AttnvizError(
        f"there is no {kind} {number}: the model has {len(known)} {kind}{ending}, {known[0]}{last}",
        f"try {opt[kind]:{known[-1]}}",
        about=kind,
    )


def hide_tokens(maps: Heads, trace: Trace, options: InspectOptions) -> Heads:
    """Return the heads without the tokens that the options hide, both as queries and as keys.

    Rows are scaled to sum to 1 again only with `options.renormalise`. Refuses to hide all tokens.
    """
    if not options.hides:
        return maps
    return tuple(
        changes.without_tokens(
            head,
            _refuse_empty_side(head.rows.tokens, options),
            _refuse_empty_side(head.columns.tokens, options),
            renormalise=options.renormalise,
        )
        for head in maps
    )


def remaining_side(side: Side, options: InspectOptions) -> Side:
    """Return the rows or columns without the tokens that the options hide; refuse if none are
    left."""
    return side.in_groups(changes.tokens_left(side, _refuse_empty_side(side.tokens, options)))


def _refuse_empty_side(tokens: Tokens, options: InspectOptions) -> frozenset[int]:
    """Return the tokens that the options hide; refuse to hide all."""
    hidden_tokens = find_hidden_tokens(tokens, options)
    if len(hidden_tokens) == len(tokens):
        hiding_options = and_list(list(tokens_hidden_by_option(tokens, options)))
        raise AttnvizError(
            "no tokens are left when these are hidden",
            f"give a longer text, or leave {hiding_options} out",
        )
    return hidden_tokens


def tokens_hidden_by_option(tokens: Tokens, options: InspectOptions) -> dict[str, frozenset[int]]:
    """Return the positions of the tokens that each given option hides, such as `--hide-first`.

    Options that hide nothing are left out.
    """
    tokens_by_option = {
        f"{opt.hide_special}": tokens.special if options.hide_special else frozenset(),
        f"{opt.hide_first}": frozenset((0,)) if options.hide_first else frozenset(),
    }
    return {option: positions for option, positions in tokens_by_option.items() if positions}


def find_hidden_tokens(tokens: Tokens, options: InspectOptions) -> frozenset[int]:
    return frozenset[int]().union(*tokens_hidden_by_option(tokens, options).values())


def measure_hidden_share(
    head_map: Head, options: InspectOptions, queries: tuple[int, ...] | None
) -> float:
    """Return the mean share of attention in one map that goes to the tokens that the options hide,
    over `queries` or over all queries that are not hidden; rows may have any sum."""
    hidden_columns = sorted(find_hidden_tokens(head_map.columns.tokens, options))
    bands = head_map.cells.bands() if queries is None else map(head_map.cells.row, queries)
    sums = np.concatenate([
        np.stack([band.values[:, hidden_columns].sum(axis=1), band.values.sum(axis=1)], axis=1)
        for band in bands
    ])  # fmt: skip
    if queries is None:
        hidden_rows = find_hidden_tokens(head_map.rows.tokens, options)
        sums = sums[sorted(set(range(len(sums))) - hidden_rows)]
    shares = sums[:, 0] / np.where(sums[:, 1], sums[:, 1], 1)
    return float(shares.mean())


def merge_into_groups(maps: Heads, trace: Trace, options: InspectOptions) -> Heads:
    """Return the heads with one row and column per word or sentence, if the options say so.

    Tokens that were hidden before stay hidden.
    """
    if options.unit == "token":
        return maps
    return tuple(changes.in_groups_of(head, GROUPINGS[options.unit]) for head in maps)


def full_side(tokens: Tokens, options: InspectOptions) -> Side:
    """Return the rows or columns before any are hidden."""
    side = token_side(tokens)
    return side if options.unit == "token" else side.in_groups(GROUPINGS[options.unit](tokens))


def cut_part(maps: Heads, trace: Trace, options: InspectOptions) -> Heads:
    """Return the rows and columns of the heads that `options.part` names by their numbers; refuse
    numbers that no row or column has, or only those that are hidden."""
    if options.part is None:
        return maps
    part, unit = parse_part(options.part), options.unit
    queries, keys = (full_side(side.tokens, options) for side in (maps[0].rows, maps[0].columns))
    has_memory = not maps[0].reads_itself
    queries_of_part = part.queries(len(queries), unit)
    rows = _places(maps[0].rows, queries_of_part, options)
    key_numbers = part.keys(len(keys), unit, is_memory=has_memory)
    if not part.names_keys and unit == "token":
        rules = [head.layer.mask_rule for head in maps]
        visible = [rule.keys_in_band(queries_of_part, len(keys)) for rule in rules]
        key_numbers = range(min(each.start for each in visible), max(each.stop for each in visible))
    columns = _places(maps[0].columns, key_numbers, options)
    return tuple(head.part(rows, columns) for head in maps)


def _places(side: Side, numbers: range, options: InspectOptions) -> range:
    """Return which places of a whole side have these numbers, counted from 0."""
    first, last = (
        bisect_left(side.numbers, number) for number in (numbers[0] + 1, numbers[-1] + 2)
    )
    if first == last:
        hiding = and_list(list(tokens_hidden_by_option(side.tokens, options)))
        raise AttnvizError(
            f"{opt.part:{numbers.start + 1}:{numbers.stop}} names only {options.unit}s that are "
            f"left out ({hiding})",
            f"leave {hiding} out, or name others",
            about="part",
        )
    return range(first, last)


def merge_maps(maps: Heads, trace: Trace, options: InspectOptions) -> Heads:
    """Return one head, the mean or the maximum of all, if `options.merge` is "mean" or "max"."""
    heads = _merged_heads_phrase(maps, options)
    if options.merge == "mean":
        return (changes.mean_head(maps, f"mean of {heads}"),)
    if options.merge == "max":
        return (changes.largest_head(maps, f"largest of {heads}"),)
    return maps


def roll_out_maps(maps: Heads, trace: Trace, options: InspectOptions) -> Heads:
    """Return attention rollout as one head; refuse a model that reads a second sentence."""
    if not maps[0].reads_itself:
        raise AttnvizError(
            f"{opt.merge:rollout} follows one sentence through all layers, but here a second one "
            "is read",
            f"try {opt.merge:mean}",
            about="merge",
        )
    return (changes.rolled_out_head(maps),)


def _merged_heads_phrase(maps: Heads, options: InspectOptions) -> str:
    """Return a phrase for the merged heads: `72 heads`, `the 12 heads of L4`, `H7 of 6 layers`."""
    if len(maps) == 1:
        return f"{maps[0].name} alone"
    if isinstance(options.layer, int) and options.head is None:
        return f"the {counted(len(maps), 'head')} of L{options.layer}"
    if isinstance(options.head, int) and options.layer is None:
        return f"H{options.head} of {counted(len(maps), 'layer')}"
    return counted(len(maps), "head")
