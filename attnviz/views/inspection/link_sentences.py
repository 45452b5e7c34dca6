"""Sentences about an Inspection: which head links two tokens, and what is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking, Weigh
from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.regrouped import left_out, taken, whole_side
from attnviz.analysis.inspection.token_query import Asked, Link, MapLink
from attnviz.cells import EVERYTHING
from attnviz.tokens.tokens import Tokens
from attnviz.views.inspection.numbers import amount, called, head_name, named, unit
from attnviz.views.inspection.reading import rank_told, which
from attnviz.wording.numbers import percent
from attnviz.wording.words import counted, listed

DIVIDED = "what is left is divided by its sum"
MUCH = 0.25  # of what a token draws on, from one
MOST_NAMED = 4  # heads, or tokens, in a sentence
OF: dict[
    Weigh, str
] = {  # what there are shares of; of gradients, which may be below 0, there are none
    "weight": "attention",
    "norm": "weight × length",
    "gradient": "attention",
}


def on_link(link: Link) -> str:
    """What links two tokens: `In L3H1, "it" gives "animal" 64 % of its attention (other …)`"""
    if not link.links and len(link.ranked) > 1:
        reader, read = _ends(link)
        return f"In no head does {reader} attend to {read} more than other {unit(link.looking)}s do"
    return _given(link, link.first)


def _ends(link: Link) -> tuple[str, str]:
    """The names of the token that reads, and of the one that is read."""
    found = link.ranked[0].map
    return named(found.rows, link.asked.row), named(found.columns, link.column)


def _given(link: Link, alike: Sequence[MapLink]) -> str:
    """How much of it a token gives another in a map, or in several alike."""
    reader, read = _ends(link)
    start = f"In {_heads(alike)}, {reader} gives {read} {_much(link, alike[0])}"
    return f"{start} ({_others(link, alike[0])})"


def _much(link: Link, each: MapLink) -> str:
    """`64 % of its attention`; or `a weight × length of 1.25`"""
    looking, much = link.looking, amount(each.map, each.weight, link.looking)
    if "%" not in much:
        return f"a {called(looking)} of {much}"
    if looking.merge == "rollout":
        return f"a share of {much}"
    return f"{much} of its {'remaining ' * looking.renormalise}attention"


def _others(link: Link, each: MapLink) -> str:
    """`other tokens: 9 %`"""
    others = f"other {unit(link.looking)}"
    if not each.others.count:
        return f"no {others} can attend to it"
    return f"{others}s: {amount(each.map, each.others.mean, link.looking)}"


def _heads(alike: Sequence[MapLink]) -> str:
    """`L5H11`; of very many only how many there are; `the mean of 72 heads`."""
    if len(alike) == 1:
        return which(alike[0].reading)
    names = [head_name(each.map) for each in alike]
    return listed(names) if len(names) <= MOST_NAMED else counted(len(names), "head")


def on_ranking(link: Link) -> Iterator[str]:
    """Which head comes first and which follows, and what they have in common with others."""
    if len(link.ranked) == 1:
        yield f"{on_link(link)}: {rank_told(link.ranked[0], link.looking)}"
        return
    if link.links:
        everywhere = _from_everywhere(link, link.first[0])
        yield f"{_given(link, link.first)}: {_the_most(link)}{everywhere}"
    else:
        yield on_link(link)
        yield f"the nearest: {_given(link, link.first)}"
    following = link.seeing[len(link.first) : len(link.first) + 1]
    yield "; ".join([*(_follows(link, each) for each in following), _mean(link)])


def _the_most(link: Link) -> str:
    """By what the first is the first: `the largest difference among 72 heads`."""
    every, seeing = len(link.ranked), len(link.seeing)
    heads = counted(every, "head") if every == seeing else f"the {seeing} heads that can see it"
    what = "difference" if link.looking.rank == "lift" else called(link.looking)
    signed = link.looking.weigh == "gradient"
    return f"the {f'{what} furthest from 0' if signed else f'largest {what}'} among {heads}"


def _from_everywhere(link: Link, each: MapLink) -> str:
    """That it is no link of this token alone."""
    if not each.others.attend_most:
        return ""
    return f", but most {unit(link.looking)}s attend to {_ends(link)[1]} there"


def _follows(link: Link, each: MapLink) -> str:
    much = amount(each.map, each.weight, link.looking)
    name, others = head_name(each.map), _others(link, each)
    return f"{name} follows with {much} ({others}){_from_everywhere(link, each)}"


def _mean(link: Link) -> str:
    return f"the mean of all heads is {amount(link.ranked[0].map, link.mean, link.looking)}"


def on_little(link: Link) -> Iterator[str]:
    """That the first gives it no more than even attention would; nothing where it gives more."""
    looking, most = link.looking, link.first[0]
    if looking.weigh == "weight" and looking.merge is None and most.weight <= link.even:
        yield (
            f"that is no more than even attention would give "
            f"{_ends(link)[1]}: {amount(most.map, link.even, looking)}"
        )


def on_reading(asked: Asked) -> str:
    """What a token attends to most: in one map, or in the mean of all; as long as that is one."""
    reading, looking = asked.mean, asked.looking
    found, sizes = reading.map, abs(reading.patch.values[0])
    where, reader = which(reading), named(found.rows, asked.row)
    if looking.weigh != "weight" or (sizes == sizes.max()).sum() > 1:
        does = "draws on" if looking.merge == "rollout" else "attends to"
        return f"What {reader} {does} in {where}"
    most, much = named(found.columns, reading.most), amount(found, reading.peak, looking)
    if looking.merge == "rollout":
        most = "itself" if reading.most == asked.own_place else most
        return f"In the rollout, {reader} draws most on {most} ({much})"
    return f"In {where}, {reader} attends most to {most} ({much})"


def on_rollout(found: Map) -> str:
    """What every token draws on after all layers, if much of each comes from one; its name."""
    patch = found.cells.window(EVERYTHING, EVERYTHING)
    most = int(patch.values.mean(axis=0).argmax())
    least = math.floor(100 * float(patch.values[:, most].min())) / 100
    if least < MUCH or len(patch.values) == 1:
        return f"{found.name[0].upper()}{found.name[1:]}"
    key = named(found.columns, most)
    return f"In the rollout, each token draws at least {percent(least)} on {key}"


def on_sinks(asked: Asked) -> Iterator[str]:
    """That in most heads a token reads most of what the tokenizer added, which can be left out."""
    found = asked.readings[0].map
    most = [each.most for each in asked.readings if found.columns.special[each.most]]
    every = len(asked.readings)
    if every > 1 and 2 * len(most) > every:
        *names, last = [named(found.columns, place) for place in sorted(set(most))]
        added = f"{', '.join(names)} or {last}" if names else last
        where = f"all {every} heads" if len(most) == every else f"{len(most)} of {every} heads"
        yield (
            f"in {where}, {named(found.rows, asked.row)} attends most to {added}; --hide-special "
            "leaves out what the tokenizer added"
        )


def on_what_is_left_out(inspection: Inspection, asked: Asked | None = None) -> Iterator[str]:
    """Which tokens are hidden, and how much of the attention they get; or of that of one token."""
    looking, whole = inspection.looking, inspection.whole
    names, one = _left_out(inspection)
    if not names:
        return
    rows = None if asked is None else asked.readings[0].map.rows
    queries = None if asked is None or rows is None else rows.groups[asked.row]
    reader = "" if asked is None or rows is None else named(rows, asked.row)
    shares = taken(whole, looking, queries)
    get = f"{'it gets' if one else 'they get'} {percent(sum(shares) / len(shares))}"
    what = f"the {OF[looking.weigh]}{f' of {reader}' if reader else ''}"
    if looking.merge == "rollout":
        what = f"what {reader or 'tokens'} draw{'s' if reader else ''} on"
    rest = DIVIDED if looking.renormalise else "the other numbers are unchanged"
    yield f"left out: {names}; {_averaged(whole)}{get} of {what}{_most(whole, shares)}; {rest}"


def left_out_of_a_picture(inspection: Inspection) -> str:
    """The same in a few words, to stand below it."""
    names, _ = _left_out(inspection)
    divided = " (renormalised)" if inspection.looking.renormalise else ""
    return f"left out: {names}{divided}" if names else ""


def _left_out(inspection: Inspection) -> tuple[str, bool]:
    """The names of tokens that are hidden, and whether it is one."""
    tokens = inspection.whole[0].columns.tokens
    out = sorted(left_out(tokens, inspection.looking))
    return (_tokens_named(tokens, inspection.looking, out) if out else ""), len(out) == 1


def _averaged(maps: Sequence[Map]) -> str:
    """Over how many heads; or in which map that is made of several."""
    if len(maps) > 1:
        return f"on average over {len(maps)} heads "
    return f"in the {maps[0].name} " if maps[0].of else ""


def _most(maps: Sequence[Map], shares: list[float]) -> str:
    """In which head they get most; nothing of one head."""
    if len(maps) == 1:
        return ""
    alike = shares.count(max(shares))
    if alike == len(maps):
        return " (the same in all)"
    head = head_name(maps[shares.index(max(shares))]) if alike == 1 else f"{alike} of them"
    return f" (most in {head}: {percent(max(shares))})"


def _tokens_named(tokens: Tokens, looking: Looking, out: Sequence[int]) -> str:
    """By the numbers that they have on the sides of maps."""
    whole = whole_side(tokens, looking)
    places = [place for place, group in enumerate(whole.groups) if set(group) & {*out}]
    names = [named(whole, place) for place in places]
    return listed(names) if len(names) <= MOST_NAMED else counted(len(out), "token")
