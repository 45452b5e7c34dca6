"""What an Inspection comes to, in sentences: which head links two tokens, what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnviz.analysis.inspection.asked import Asked, Link
from attnviz.analysis.inspection.hidden import left_out, taken
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.looking import Looking, Weigh
from attnviz.analysis.inspection.maps import Map
from attnviz.analysis.inspection.reads import Reading
from attnviz.analysis.inspection.words import whole_side
from attnviz.tokens.tokens import Tokens
from attnviz.views.inspection.numbers import amount, head_name, named, told
from attnviz.views.inspection.reading import rank_told, which
from attnviz.wording.words import counted, listed

DIVIDED = "what is left is divided by its sum"
MOST_NAMED = 4  # heads, or tokens, in a sentence
BY: dict[Weigh, str] = {
    "weight": "",
    "norm": " by weight × length",
    "gradient": " by weight alone",
}


def on_link(link: Link) -> str:
    """The head that links two tokens: `L5H11 reads "animal" (3) from "it" (11) with .65, …`"""
    looking, first = link.asked.looking, link.first
    found = link.asked.readings[0].map
    reader, read = named(found.rows, link.asked.row), named(found.columns, link.column)
    much = amount(first[0].of(link.column), looking)
    names = _heads(first)
    if len(link.asked.readings) == 1:
        rank = rank_told(first[0], link.column, looking)
        return f"in {which(first[0])} {reader} reads {read} with {much} ({rank})"
    alone = "s" if len(first) == 1 else ""
    most = "furthest from 0" if looking.weigh == "gradient" else "most"
    return f"{names} read{alone} {read} from {reader} with {much}, the {most} of {_of(link)}"


def _of(link: Link) -> str:
    """How many heads there are, of which some may not see it."""
    every, seeing = len(link.asked.readings), len(link.seeing)
    return counted(every, "head") if every == seeing else f"the {seeing} heads that see it"


def on_others(link: Link) -> str:
    """Which head follows, and the mean: nothing where there is one head."""
    looking, first = link.asked.looking, link.first
    following = [
        f"{head_name(each.map)} follows{_by_how_much(first[0], each, link)}"
        for each in link.seeing[len(first) : len(first) + 1]
    ]
    mean = [f"the mean is {told(link.mean, looking)}"] * (len(link.asked.readings) > 1)
    return "".join(f"; {each}" for each in [*following, *mean])


def _by_how_much(first: Reading, following: Reading, link: Link) -> str:
    """With how much; or that it is almost as much, where digits do not tell them apart."""
    one, other = (told(each.of(link.column), link.asked.looking) for each in (first, following))
    return f", almost as much, with {other}" if one == other else f" with {other}"


def _heads(readings: list[Reading]) -> str:
    """`L5H11`; of very many only how many there are."""
    names = [head_name(each.map) for each in readings]
    return listed(names) if len(names) <= MOST_NAMED else counted(len(names), "head")


def on_little(link: Link) -> Iterator[str]:
    """That nobody reads more of it than where all is read alike; nothing where somebody does."""
    looking, most = link.asked.looking, link.first[0].of(link.column)
    if looking.weigh == "weight" and looking.merge is None and most <= link.even:
        read = named(link.asked.readings[0].map.columns, link.column)
        yield (
            f"no head links them: where all that can be seen is read alike, {read} gets "
            f"{told(link.even, looking)}"
        )


def on_sinks(asked: Asked) -> Iterator[str]:
    """That most heads read most of what the tokenizer added, which can be left out."""
    columns = asked.readings[0].map.columns
    most = [each.most for each in asked.readings if columns.special[each.most]]
    if len(asked.readings) > 1 and 2 * len(most) > len(asked.readings):
        names = [named(columns, place) for place in dict.fromkeys(sorted(most))]
        several = "or " * (len(names) > 1)
        told_of = f"{', '.join(names[:-1])} {several}{names[-1]}".strip()
        every = len(asked.readings)
        which = f"all {every} heads" if len(most) == every else f"{len(most)} of {every} heads"
        yield f"{which} read {told_of} most: --hide-special leaves out what the tokenizer added"


def on_what_is_left_out(inspection: Inspection, asked: Asked | None = None) -> Iterator[str]:
    """Which tokens are hidden, and how much they take of what is read; or of what one reads."""
    looking, whole = inspection.looking, inspection.whole
    names, one = _left_out(inspection)
    if not names:
        return
    what, queries = _what_reads(asked)
    shares = taken(whole, looking, queries)
    start = f"left out {'is' if one else 'are'} {names}, which take{'s' * one} {_mean(shares)}"
    rest = DIVIDED if looking.renormalise else "the rest is as it was"
    yield f"{start} of {what}{BY[looking.weigh]}{_most(whole, shares)}; {rest}"


def left_out_of_a_picture(inspection: Inspection) -> str:
    """The same in a few words, to stand below it."""
    names, _ = _left_out(inspection)
    divided = f" · {DIVIDED}" if inspection.looking.renormalise else ""
    return f"left out: {names}{divided}" if names else ""


def _left_out(inspection: Inspection) -> tuple[str, bool]:
    """The names of tokens that are hidden, and whether it is one."""
    tokens = inspection.whole[0].columns.tokens
    out = sorted(left_out(tokens, inspection.looking))
    return (_tokens_named(tokens, inspection.looking, out) if out else ""), len(out) == 1


def _what_reads(asked: Asked | None) -> tuple[str, tuple[int, ...] | None]:
    """All that is read, by every token; or by one, which may be a word of several."""
    if asked is None:
        return "what is read", None
    rows = asked.readings[0].map.rows
    return f"what {named(rows, asked.row)} reads", rows.groups[asked.row]


def _mean(shares: list[float]) -> str:
    return told(sum(shares) / len(shares), Looking())


def _most(maps: Sequence[Map], shares: list[float]) -> str:
    """That it is a mean, and where most is left out; nothing of one head."""
    if len(maps) == 1:
        return f" in the {maps[0].name}" if maps[0].of else ""
    mean, alike = f" in the mean of {len(maps)} heads", shares.count(max(shares))
    if alike == len(maps):
        return f"{mean}, the same in all"
    head = head_name(maps[shares.index(max(shares))]) if alike == 1 else f"{alike} of them"
    return f"{mean}, most in {head}: {told(max(shares), Looking())}"


def _tokens_named(tokens: Tokens, looking: Looking, out: Sequence[int]) -> str:
    """By the numbers that they have on the sides of maps."""
    whole = whole_side(tokens, looking)
    places = [place for place, group in enumerate(whole.groups) if set(group) & {*out}]
    names = [named(whole, place) for place in places]
    return listed(names) if len(names) <= MOST_NAMED else counted(len(out), "token")
