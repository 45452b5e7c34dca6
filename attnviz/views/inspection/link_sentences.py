"""Sentences about an Inspection: which head links two tokens, and what is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attnviz.analysis.inspection.inspect_options import InspectOptions, Weigh
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.map_regrouping import (
    find_hidden_tokens,
    full_side,
    measure_hidden_shares,
)
from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.token_query import MapLink, TokenLink, TokenQuery
from attnviz.cells import FULL_SLICE
from attnviz.tokens.tokens import Tokens
from attnviz.views.inspection.map_numbers import (
    head_name,
    map_amount_text,
    measure_name,
    side_label,
    unit_name,
)
from attnviz.views.inspection.token_reading import map_phrase, rank_remark
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import and_list, counted

RENORMALISED_NOTE = "what is left is divided by its sum"
MIN_ROLLOUT_SHARE = 0.25  # of what a token draws on, from one
MAX_NAMED_ITEMS = 4  # heads, or tokens, in a sentence
SHARED_QUANTITIES: dict[
    Weigh, str
] = {  # what there are shares of; of gradients, which may be below 0, there are none
    "weight": "attention",
    "norm": "weight × length",
    "gradient": "attention",
}


def link_sentence(link: TokenLink) -> str:
    """What links two tokens: `In L3H1, "it" gives "animal" 64 % of its attention (other …)`"""
    if not link.links and len(link.ranked) > 1:
        query_name, key_name = _link_token_names(link)
        return f"In no head does {query_name} attend to {key_name} more than other {unit_name(link.options)}s do"
    return _link_weight_text(link, link.first)


def _link_token_names(link: TokenLink) -> tuple[str, str]:
    """The names of the token that reads, and of the one that is read."""
    attention_map = link.ranked[0].map
    return side_label(attention_map.rows, link.token_query.row), side_label(
        attention_map.columns, link.column
    )


def _link_weight_text(link: TokenLink, similar_links: Sequence[MapLink]) -> str:
    """How much of it a token gives another in a map, or in several alike."""
    query_name, key_name = _link_token_names(link)
    opening = f"In {_heads_phrase(similar_links)}, {query_name} gives {key_name} {_link_amount_text(link, similar_links[0])}"
    return f"{opening} ({_other_tokens_text(link, similar_links[0])})"


def _link_amount_text(link: TokenLink, map_link: MapLink) -> str:
    """`64 % of its attention`; or `a weight × length of 1.25`"""
    looking, amount_text = (
        link.options,
        map_amount_text(map_link.map, map_link.weight, link.options),
    )
    if "%" not in amount_text:
        return f"a {measure_name(looking)} of {amount_text}"
    if looking.merge == "rollout":
        return f"a share of {amount_text}"
    return f"{amount_text} of its {'remaining ' * looking.renormalise}attention"


def _other_tokens_text(link: TokenLink, map_link: MapLink) -> str:
    """`other tokens: 9 %`"""
    other_units = f"other {unit_name(link.options)}"
    if not map_link.others.count:
        return f"no {other_units} can attend to it"
    return f"{other_units}s: {map_amount_text(map_link.map, map_link.others.mean, link.options)}"


def _heads_phrase(similar_links: Sequence[MapLink]) -> str:
    """`L5H11`; of very many only how many there are; `the mean of 72 heads`."""
    if len(similar_links) == 1:
        return map_phrase(similar_links[0].map_row)
    names = [head_name(map_link.map) for map_link in similar_links]
    return and_list(names) if len(names) <= MAX_NAMED_ITEMS else counted(len(names), "head")


def link_ranking_sentences(link: TokenLink) -> Iterator[str]:
    """Which head comes first and which follows, and what they have in common with others."""
    if len(link.ranked) == 1:
        yield f"{link_sentence(link)}: {rank_remark(link.ranked[0], link.options)}"
        return
    if link.links:
        shared_suffix = _shared_link_suffix(link, link.first[0])
        yield f"{_link_weight_text(link, link.first)}: {_top_rank_text(link)}{shared_suffix}"
    else:
        yield link_sentence(link)
        yield f"the nearest: {_link_weight_text(link, link.first)}"
    next_links = link.seeing[len(link.first) : len(link.first) + 1]
    yield "; ".join(
        [*(_next_head_text(link, map_link) for map_link in next_links), _heads_mean_text(link)]
    )


def _top_rank_text(link: TokenLink) -> str:
    """By what the first is the first: `the largest difference among 72 heads`."""
    link_count, seeing_count = len(link.ranked), len(link.seeing)
    heads_text = (
        counted(link_count, "head")
        if link_count == seeing_count
        else f"the {seeing_count} heads that can see it"
    )
    quantity = "difference" if link.options.rank == "lift" else measure_name(link.options)
    is_signed = link.options.weigh == "gradient"
    return f"the {f'{quantity} furthest from 0' if is_signed else f'largest {quantity}'} among {heads_text}"


def _shared_link_suffix(link: TokenLink, map_link: MapLink) -> str:
    """That it is no link of this token alone."""
    if not map_link.others.attend_most:
        return ""
    return f", but most {unit_name(link.options)}s attend to {_link_token_names(link)[1]} there"


def _next_head_text(link: TokenLink, map_link: MapLink) -> str:
    amount_text = map_amount_text(map_link.map, map_link.weight, link.options)
    name, others_text = head_name(map_link.map), _other_tokens_text(link, map_link)
    return f"{name} follows with {amount_text} ({others_text}){_shared_link_suffix(link, map_link)}"


def _heads_mean_text(link: TokenLink) -> str:
    return (
        f"the mean of all heads is {map_amount_text(link.ranked[0].map, link.mean, link.options)}"
    )


def weak_link_sentences(link: TokenLink) -> Iterator[str]:
    """That the first gives it no more than even attention would; nothing where it gives more."""
    looking, top_link = link.options, link.first[0]
    if looking.weigh == "weight" and looking.merge is None and top_link.weight <= link.even:
        yield (
            f"that is no more than even attention would give "
            f"{_link_token_names(link)[1]}: {map_amount_text(top_link.map, link.even, looking)}"
        )


def reading_title(token_query: TokenQuery) -> str:
    """What a token attends to most: in one map, or in the mean of all; as long as that is one."""
    reading, looking = token_query.mean, token_query.options
    attention_map, sizes = reading.map, abs(reading.patch.values[0])
    map_text, query_name = map_phrase(reading), side_label(attention_map.rows, token_query.row)
    if looking.weigh != "weight" or (sizes == sizes.max()).sum() > 1:
        verb = "draws on" if looking.merge == "rollout" else "attends to"
        return f"What {query_name} {verb} in {map_text}"
    key_name, amount_text = (
        side_label(attention_map.columns, reading.most),
        map_amount_text(attention_map, reading.peak, looking),
    )
    if looking.merge == "rollout":
        key_name = "itself" if reading.most == token_query.own_column else key_name
        return f"In the rollout, {query_name} draws most on {key_name} ({amount_text})"
    return f"In {map_text}, {query_name} attends most to {key_name} ({amount_text})"


def rollout_title(attention_map: Map) -> str:
    """What every token draws on after all layers, if much of each comes from one; its name."""
    patch = attention_map.cells.window(FULL_SLICE, FULL_SLICE)
    top_key = int(patch.values.mean(axis=0).argmax())
    least = math.floor(100 * float(patch.values[:, top_key].min())) / 100
    if least < MIN_ROLLOUT_SHARE or len(patch.values) == 1:
        return f"{attention_map.name[0].upper()}{attention_map.name[1:]}"
    key_name = side_label(attention_map.columns, top_key)
    return f"In the rollout, each token draws at least {percent_text(least)} on {key_name}"


def sink_sentences(token_query: TokenQuery) -> Iterator[str]:
    """That in most heads a token reads most of what the tokenizer added, which can be left out."""
    attention_map = token_query.map_rows[0].map
    special_keys = [
        reading.most
        for reading in token_query.map_rows
        if attention_map.columns.special[reading.most]
    ]
    reading_count = len(token_query.map_rows)
    if reading_count > 1 and 2 * len(special_keys) > reading_count:
        *names, last_name = [
            side_label(attention_map.columns, position) for position in sorted(set(special_keys))
        ]
        added_tokens = f"{', '.join(names)} or {last_name}" if names else last_name
        heads_text = (
            f"all {reading_count} heads"
            if len(special_keys) == reading_count
            else f"{len(special_keys)} of {reading_count} heads"
        )
        yield (
            f"in {heads_text}, {side_label(attention_map.rows, token_query.row)} attends most to {added_tokens}; --hide-special "
            "leaves out what the tokenizer added"
        )


def left_out_sentences(
    inspection: Inspection, token_query: TokenQuery | None = None
) -> Iterator[str]:
    """Which tokens are hidden, and how much of the attention they get; or of that of one token."""
    looking, maps = inspection.looking, inspection.whole
    names, is_single = _left_out_names(inspection)
    if not names:
        return
    rows = None if token_query is None else token_query.map_rows[0].map.rows
    queries = None if token_query is None or rows is None else rows.groups[token_query.row]
    query_name = "" if token_query is None or rows is None else side_label(rows, token_query.row)
    shares = measure_hidden_shares(maps, looking, queries)
    shares_text = (
        f"{'it gets' if is_single else 'they get'} {percent_text(sum(shares) / len(shares))}"
    )
    quantity = f"the {SHARED_QUANTITIES[looking.weigh]}{f' of {query_name}' if query_name else ''}"
    if looking.merge == "rollout":
        quantity = f"what {query_name or 'tokens'} draw{'s' if query_name else ''} on"
    remainder_note = RENORMALISED_NOTE if looking.renormalise else "the other numbers are unchanged"
    yield f"left out: {names}; {_averaging_text(maps)}{shares_text} of {quantity}{_top_head_text(maps, shares)}; {remainder_note}"


def left_out_caption(inspection: Inspection) -> str:
    """The same in a few words, to stand below it."""
    names, _ = _left_out_names(inspection)
    divided_suffix = " (renormalised)" if inspection.looking.renormalise else ""
    return f"left out: {names}{divided_suffix}" if names else ""


def _left_out_names(inspection: Inspection) -> tuple[str, bool]:
    """The names of tokens that are hidden, and whether it is one."""
    tokens = inspection.whole[0].columns.tokens
    positions = sorted(find_hidden_tokens(tokens, inspection.looking))
    return (_token_names_text(tokens, inspection.looking, positions) if positions else ""), len(
        positions
    ) == 1


def _averaging_text(maps: Sequence[Map]) -> str:
    """Over how many heads; or in which map that is made of several."""
    if len(maps) > 1:
        return f"on average over {len(maps)} heads "
    return f"in the {maps[0].name} " if maps[0].merged_maps else ""


def _top_head_text(maps: Sequence[Map], shares: list[float]) -> str:
    """In which head they get most; nothing of one head."""
    if len(maps) == 1:
        return ""
    top_count = shares.count(max(shares))
    if top_count == len(maps):
        return " (the same in all)"
    head = head_name(maps[shares.index(max(shares))]) if top_count == 1 else f"{top_count} of them"
    return f" (most in {head}: {percent_text(max(shares))})"


def _token_names_text(tokens: Tokens, looking: InspectOptions, positions: Sequence[int]) -> str:
    """By the numbers that they have on the sides of maps."""
    side = full_side(tokens, looking)
    indices = [index for index, group in enumerate(side.groups) if set(group) & {*positions}]
    names = [side_label(side, index) for index in indices]
    return and_list(names) if len(names) <= MAX_NAMED_ITEMS else counted(len(positions), "token")
