"""Sentences on a link between two tokens, on top keys, and on tokens left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.maps import find_hidden_tokens, full_side, measure_hidden_share
from attnviz.analysis.inspection.token_query import (
    MapLink,
    MapRow,
    TokenLink,
    TokenQuery,
    bases_of_key,
)
from attnviz.cells import FULL_SLICE
from attnviz.heads.head import Head
from attnviz.options.values import Weigh
from attnviz.tokens.tokens import Tokens
from attnviz.views.conclusions.findings import (
    ComparedAmount,
    Finding,
    choose_sentence,
    finding_on,
    otherwise,
)
from attnviz.views.heads.sentences import ITSELF, attends_most, heads_text
from attnviz.views.inspection.map_numbers import (
    head_name,
    map_amount_text,
    measure_name,
    side_label,
)
from attnviz.views.inspection.token_reading import map_phrase, rank_remark
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import and_list, counted, or_list

RENORMALISED_NOTE = "what is left is divided by its sum"
MIN_ROLLOUT_SHARE = 0.25  # of one key: a smaller share is no news for a title
MAX_NAMED_ITEMS = 4  # heads or tokens that a sentence names; more are counted
# gradients may be below 0, so that they have no shares: those of attention are given
SHARED_QUANTITIES: dict[Weigh, str] = {
    "weight": "attention",
    "norm": "weight × length",
    "gradient": "attention",
}


def link_sentence(link: TokenLink) -> str:
    """Return `In L3H1, "he" gives "dog" 64 % of its attention; the other tokens give it 9 %`.

    If in none of several maps the query attends to the key more than other tokens do, say that.
    """
    return choose_sentence(LINK_FINDINGS, link)


def _link_token_names(link: TokenLink) -> tuple[str, str]:
    rows, columns = link.ranked_links[0].map.rows, link.ranked_links[0].map.columns
    return side_label(rows, link.token_query.row), side_label(columns, link.column)


def _top_links_amount(link: TokenLink) -> ComparedAmount:
    best = link.top_links[0]
    return ComparedAmount(_link_amount_text(link, best), _link_base_text(link, best))


def _top_links_text(link: TokenLink, amount: ComparedAmount) -> str:
    """State the link's weight in one head, or in several heads that have the same weight."""
    query_name, _ = _link_token_names(link)
    heads, key_name = _heads_phrase(link.top_links), _key_name(link.token_query, link.column)
    opening = f"{f'In {heads}, ' * bool(heads)}{query_name} gives {key_name}"
    return f"{opening} {amount.text}; {amount.base}"


def telling_link_sentence(link: TokenLink) -> str:
    """Return the same, also of a link that other tokens have as well; of the largest weight of a
    row like theirs `Nothing special in L1H0: "?" gives "keys" 98 %; the other tokens give it 99 %`.
    """
    if not link.is_usual:
        return _top_links_text(link, _top_links_amount(link))
    best, heads = link.top_links[0], _heads_phrase(link.top_links)
    opening = f"Nothing special{f' in {heads}' * bool(heads)}: {_link_token_names(link)[0]} gives"
    share = map_amount_text(best.map, best.weight, link.options)
    key_name = _key_name(link.token_query, link.column)
    return f"{opening} {key_name} {share}; {_link_base_text(link, best)}"


def _no_link_text(link: TokenLink) -> str:
    query_name, key_name = _link_token_names(link)
    return (
        f"In no head does {query_name} attend to {key_name} more than other {link.options.unit}s do"
    )


LINK_FINDINGS: tuple[Finding[TokenLink], ...] = (
    Finding(
        "no link beyond others",
        lambda link: not link.is_preferred and len(link.ranked_links) > 1,
        _no_link_text,
    ),
    finding_on(_top_links_amount, "the strongest of links", otherwise, _top_links_text),
)


def _link_amount_text(link: TokenLink, map_link: MapLink) -> str:
    """Return the link's weight in a map: `64 % of its attention` or `a weight × length of 1.25`.

    In a rollout it is `a share of 64 %`; of renormalised rows `64 % of its remaining attention`.
    """
    looking = link.options
    amount_text = map_amount_text(map_link.map, map_link.weight, looking)
    if "%" not in amount_text:
        return f"a {measure_name(looking)} of {amount_text}"
    if looking.merge == "rollout":
        return f"a share of {amount_text}"
    return f"{amount_text} of its {'remaining ' * looking.renormalise}attention"


def _link_base_text(link: TokenLink, map_link: MapLink) -> str:
    (_, key_name), labels = _link_token_names(link), map_link.map.rows.tokens.labels
    has_it = any(label.casefold() == "it" for label in labels)  # which "it" would seem to be
    receiver = key_name if has_it else "it"
    text = base_text(link.token_query, map_link.map_row, link.column, receiver)
    return text or f"no third {link.options.unit} can attend to it"


def base_text(token_query: TokenQuery, reading: MapRow, key: int, receiver: str = "it") -> str:
    """Return the mean weight that other tokens give the same key, `the other tokens give it 9 %`;
    or, if that is more, the key at the same distance: `the other tokens give the token before
    them 99 %`. Empty if no other token can attend to either.

    `receiver` is the key's name after what precedes.
    """
    looking = token_query.options
    base, others = bases_of_key(looking, reading, key)
    if math.isnan(base):
        return ""
    if others != base:
        distance = key - (token_query.own_column or 0)
        receiver = _key_at_distance_text(distance, looking.unit)
    amount_text = map_amount_text(reading.map, base, looking)
    return f"the other {looking.unit}s give {receiver} {amount_text}"


def _key_at_distance_text(distance: int, unit: str) -> str:
    """Return the key that is as far from other tokens: `the token 2 places before them`,
    `themselves`."""
    if distance == 0:
        return "themselves"
    places = f" {abs(distance)} places" if abs(distance) > 1 else ""
    return f"the {unit}{places} {'before' if distance < 0 else 'after'} them"


def _heads_phrase(similar_links: Sequence[MapLink]) -> str:
    """Return the heads of these links: `L5H11`, `the mean of 72 heads`; above four, how many."""
    if len(similar_links) == 1:
        return map_phrase(similar_links[0].map_row)
    names = [map_link.name for map_link in similar_links]
    return and_list(names) if len(names) <= MAX_NAMED_ITEMS else counted(len(names), "head")


def link_ranking_sentences(link: TokenLink) -> Iterator[str]:
    """Yield the strongest link and its ranking, then the next head and the mean of all heads.

    For a single map, one sentence with the link's rank in its row. If no head attends to the key
    more than other tokens do, yield that, and the nearest head.
    """
    if len(link.ranked_links) == 1:
        yield f"{link_sentence(link)}: {rank_remark(link.ranked_links[0], link.options)}"
        return
    if link.is_preferred:
        shared_suffix = _shared_link_suffix(link, link.top_links[0])
        yield f"{link_sentence(link)}: {_top_rank_text(link)}{shared_suffix}"
    else:
        yield link_sentence(link)
        yield f"the nearest: {_top_links_text(link, _top_links_amount(link))}"
    next_links = link.visible[len(link.top_links) : len(link.top_links) + 1]
    mean_text = map_amount_text(link.ranked_links[0].map, link.mean, link.options)
    next_texts = [_next_head_text(link, map_link) for map_link in next_links]
    yield "; ".join([*next_texts, f"the mean of all heads is {mean_text}"])


def _top_rank_text(link: TokenLink) -> str:
    """State what the first head is ranked by: `the largest difference among 72 heads`."""
    count, seeing_count = len(link.ranked_links), len(link.visible)
    all_see = count == seeing_count
    heads = counted(count, "head") if all_see else f"the {seeing_count} heads that can see it"
    quantity = "difference" if link.options.rank == "lift" else measure_name(link.options)
    is_signed = link.options.weigh == "gradient"
    extreme = f"{quantity} furthest from 0" if is_signed else f"largest {quantity}"
    return f"the {extreme} among {heads}"


def _shared_link_suffix(link: TokenLink, map_link: MapLink) -> str:
    """Return `, but most tokens attend to "animal" there`; empty if most tokens do not."""
    if not map_link.others.attend_most:
        return ""
    return f", but most {link.options.unit}s attend to {_link_token_names(link)[1]} there"


def _next_head_text(link: TokenLink, map_link: MapLink) -> str:
    """Return `L3H2 follows with 40 %, the other tokens give it 9 %`, of the head ranked next."""
    amount_text = map_amount_text(map_link.map, map_link.weight, link.options)
    followed = f"{map_link.name} follows with {amount_text}"
    return f"{followed} ({_link_base_text(link, map_link)}){_shared_link_suffix(link, map_link)}"


def weak_link_sentences(link: TokenLink) -> Iterator[str]:
    """Yield a warning if the strongest link has no more than even attention would give the key.

    Nothing for --weigh and --merge, whose numbers are no plain weights.
    """
    looking, top_link = link.options, link.top_links[0]
    if looking.weigh == "weight" and looking.merge is None and top_link.weight <= link.even_weight:
        amount = map_amount_text(top_link.map, link.even_weight, looking)
        key_name = _link_token_names(link)[1]
        yield f"that is no more than even attention would give {key_name}: {amount}"


def reading_title(token_query: TokenQuery) -> str:
    """Return what a token attends to most: `In L3H1, "it" attends most to "animal" (64 %; the
    other tokens give it 9 %)`; without others if no other token can see the key.

    For several heads it is about their mean; or, if most of them attend most to a sink, about the
    head that gives a key most beyond others. With --weigh, or if several keys tie, the title only
    states what is shown: `What "it" attends to in L3H1`.
    """
    return choose_sentence(READING_FINDINGS, token_query)


def _reader(query: TokenQuery) -> str:
    return side_label(query.mean.map.rows, query.row)


def _key_name(query: TokenQuery, key: int) -> str:
    return ITSELF if key == query.own_column else side_label(query.mean.map.columns, key)


def _no_lift_text(query: TokenQuery) -> str:
    units = query.options.unit
    base = f"the other {units}s attend to it, or at the same distance"
    return f"In no head does {_reader(query)} attend to any {units} more than {base}"


def _only_key_text(query: TokenQuery) -> str:
    key_name = _key_name(query, int(query.mean.patch.hidden[0].argmin()))
    return f"{_reader(query)} can attend only to {key_name}, in every head"


def _has_no_top_key(query: TokenQuery) -> bool:
    sizes = abs(query.mean.patch.values[0])
    return query.options.weigh != "weight" or bool((sizes == sizes.max()).sum() > 1)


def _reading_text(query: TokenQuery) -> str:
    verb = "draws on" if query.options.merge == "rollout" else "attends to"
    return f"What {_reader(query)} {verb} in {map_phrase(query.mean)}"


def _rollout_text(query: TokenQuery) -> str:
    key_name = _key_name(query, query.mean.top_column)
    opening = f"In the rollout, {_reader(query)} draws most on {key_name}"
    return f"{opening} ({_peak_text(query)})"


def _peak_text(query: TokenQuery) -> str:
    return map_amount_text(query.mean.map, query.mean.peak, query.options)


def _peak_amount(query: TokenQuery) -> ComparedAmount:
    base = base_text(query, query.mean, query.mean.top_column)
    return ComparedAmount(_peak_text(query), base)


def _top_key_text(query: TokenQuery, amount: ComparedAmount) -> str:
    key_name = side_label(query.mean.map.columns, query.mean.top_column)
    most = attends_most(f"In {map_phrase(query.mean)}, {_reader(query)}", key_name)
    return f"{most} ({'; '.join(filter(None, (amount.text, amount.base)))})"


READING_FINDINGS: tuple[Finding[TokenQuery], ...] = (
    finding_on(
        lambda query: _top_links_amount(query.lifted_link),
        "a key beyond others",
        lambda query: query.names_head,
        lambda query, amount: _top_links_text(query.lifted_link, amount),
    ),
    Finding("no key beyond others", lambda query: query.ranks_by_lift, _no_lift_text),
    Finding(
        "the only key of several heads",
        lambda query: (
            query.mean.is_only_key and len(query.map_rows) > 1 and query.options.weigh == "weight"
        ),
        _only_key_text,
    ),
    Finding("no top key", _has_no_top_key, _reading_text),
    Finding(
        "the top key of a rollout",
        lambda query: query.options.merge == "rollout",
        _rollout_text,
        amount="a rollout is no attention of tokens to others, which theirs could be compared with",
    ),
    finding_on(_peak_amount, "the top key of a map", otherwise, _top_key_text),
)


def rollout_title(attention_map: Head) -> str:
    """Return which token every token draws on in a rollout, with at least a quarter each.

    Without such a token, and for a single row, return only the map's name.
    """
    patch = attention_map.cells.window(FULL_SLICE, FULL_SLICE)
    top_key = int(patch.values.mean(axis=0).argmax())
    least = math.floor(100 * float(patch.values[:, top_key].min())) / 100
    if least < MIN_ROLLOUT_SHARE or len(patch.values) == 1:
        return f"{attention_map.name[0].upper()}{attention_map.name[1:]}"
    key_name = side_label(attention_map.columns, top_key)
    return f"In the rollout, each token draws at least {percent_text(least)} on {key_name}"


def sink_sentences(token_query: TokenQuery) -> Iterator[str]:
    """Yield in how many heads the token attends most to special tokens, or to the first token, if
    these are most heads, and the option that leaves these tokens out.

    Nothing otherwise, and for a single head.
    """
    columns, sink_keys = token_query.mean.map.columns, token_query.sink_keys
    if sink_keys:
        targets = or_list([side_label(columns, key) for key in sorted(set(sink_keys))])
        hint = "--hide-special leaves out what the tokenizer added"
        if not columns.special[sink_keys[0]]:
            targets = f"the first {token_query.options.unit}, {targets}"
            hint = "--hide-first leaves it out"
        who = f"in {heads_text(len(sink_keys), len(token_query.map_rows))}, {_reader(token_query)}"
        yield f"{attends_most(who, targets)}; {hint}"


def left_out_sentences(
    inspection: Inspection, token_query: TokenQuery | None = None
) -> Iterator[str]:
    """Yield one sentence on the hidden tokens and their share of all attention, or of one query's.

    Nothing if no token is hidden.
    """
    looking, maps = inspection.options, inspection.token_maps
    names, is_single = _left_out_names(inspection)
    if not names:
        return
    queries, query_name = None, ""
    if token_query is not None:
        rows = token_query.map_rows[0].map.rows
        queries, query_name = rows.groups[token_query.row], side_label(rows, token_query.row)
    shares = [measure_hidden_share(each, looking, queries) for each in maps]
    quantity = f"the {SHARED_QUANTITIES[looking.weigh]}{f' of {query_name}' if query_name else ''}"
    if looking.merge == "rollout":
        quantity = f"what {query_name or 'tokens'} draw{'s' if query_name else ''} on"
    scope = f"on average over {len(maps)} heads " if len(maps) > 1 else ""
    if len(maps) == 1 and maps[0].merged_heads:
        scope = f"in the {maps[0].name} "
    subject = f"{scope}{'it gets' if is_single else 'they get'}"
    share = f"{percent_text(sum(shares) / len(shares))} of {quantity}{_top_head_text(maps, shares)}"
    remainder_note = RENORMALISED_NOTE if looking.renormalise else "the other numbers are unchanged"
    yield f"left out: {names}; {subject} {share}; {remainder_note}"


def left_out_caption(inspection: Inspection) -> str:
    """Return `left out: [CLS], [SEP] (renormalised)`; empty if no token is hidden."""
    names, _ = _left_out_names(inspection)
    divided_suffix = " (renormalised)" if inspection.options.renormalise else ""
    return f"left out: {names}{divided_suffix}" if names else ""


def _left_out_names(inspection: Inspection) -> tuple[str, bool]:
    """Return the names of the hidden tokens, and whether exactly one is hidden."""
    tokens = inspection.token_maps[0].columns.tokens
    positions = sorted(find_hidden_tokens(tokens, inspection.options))
    names = _token_names_text(tokens, inspection.options, positions) if positions else ""
    return names, len(positions) == 1


def _top_head_text(maps: Sequence[Head], shares: list[float]) -> str:
    """Return the head where hidden tokens get most: ` (most in L0H1: 80 %)`; empty for one map."""
    if len(maps) == 1:
        return ""
    top_count = shares.count(max(shares))
    if top_count == len(maps):
        return " (the same in all)"
    head = head_name(maps[shares.index(max(shares))]) if top_count == 1 else f"{top_count} of them"
    return f" (most in {head}: {percent_text(max(shares))})"


def _token_names_text(tokens: Tokens, looking: InspectOptions, positions: Sequence[int]) -> str:
    """Return the names of the tokens, or words, at these positions; above four, their number."""
    side = full_side(tokens, looking)
    indices = [index for index, group in enumerate(side.groups) if set(group) & {*positions}]
    names = [side_label(side, index) for index in indices]
    return and_list(names) if len(names) <= MAX_NAMED_ITEMS else counted(len(positions), "token")
