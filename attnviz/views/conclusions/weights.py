"""What a picture of attention weights shows: the title over it, and when that may be said.

Of all heads that are shown, or of what one token attends to in them. Each is a table of findings:
the first whose condition holds is the title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor

import numpy as np

from attnviz.attention.mistakes import MISTAKES
from attnviz.cells import Cells, Values, Whole
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Layer, Trace
from attnviz.views.conclusions.claims import Finding, otherwise, said
from attnviz.views.conclusions.rows import APART, Link, Rows
from attnviz.views.facts import MaskShape, shape_of, shows
from attnviz.views.reading import in_quotes, name_of_head
from attnviz.wording.numbers import fixed_text, percent
from attnviz.wording.words import counted, listed

EQUAL = 0.01  # of an even share: weights that differ from it by less are called equal
ALMOST = 0.4  # the same of weights that are called almost equal
MOST = 0.5  # of a token's attention
FEWEST = 3  # tokens: of fewer nothing is said that is true of most


@dataclass(frozen=True, eq=False)
class Head:
    """A head whose weights are shown, and what it is called: "" where there is no other."""

    name: str
    layer: Layer
    rows: Rows
    keys: Tokens

    @property
    def where(self) -> str:
        """`In L1H0, `, before a sentence."""
        return f"In {self.name}, " if self.name else ""


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights that a picture shows: of every head that is on, all rows or that of a query."""

    trace: Trace
    heads: tuple[Head, ...]
    query: int | None = None

    @property
    def tokens(self) -> Tokens:
        return self.trace.tokens

    @property
    def whole(self) -> bool:
        return all(each.rows.whole for each in self.heads)

    @property
    def blind(self) -> bool:
        return all(each.rows.blind for each in self.heads)

    @property
    def chosen(self) -> int:
        return sum(each.rows.chosen for each in self.heads)

    @property
    def uneven(self) -> float:
        return max(each.rows.uneven for each in self.heads)

    @property
    def mistake(self) -> str:
        """The one that made all of them, if one did."""
        made = {each.layer.mistake for each in self.heads}
        return next(iter(made)) if len(made) == 1 else ""

    @property
    def own(self) -> bool:
        """Whether tokens attend to those of their own sentence alone."""
        return all(each.keys is self.tokens for each in self.heads)

    @cached_property
    def shape(self) -> MaskShape | None:
        """What the masks leave of a sentence, where they are alike and nothing goes round them."""
        by_hand = any(each.layer.attended.mixed_by in ("hand", "mistake") for each in self.heads)
        if not self.own or by_hand:
            return None
        shapes = {shape_of(each.layer.visible) for each in self.heads}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def seen(self) -> str:
        """`itself and earlier tokens`: all that a token may attend to; "" if no rule leaves any."""
        return "" if self.shape is None else _seen(self.shape)

    @property
    def hides(self) -> bool:
        return any(each.rows.cells.hides for each in self.heads)

    @cached_property
    def link(self) -> tuple[Head, Link] | None:
        """The strongest link, if it is the only one that is as strong as it reads."""
        links = [(head, link) for head in self.heads if (link := head.rows.strongest)]
        if not links:
            return None
        head, best = max(links, key=lambda each: each[1].weight)
        others = [link.weight for _, link in links if link is not best]
        rest = max([best.next, *others])
        alone = best.weight - rest > APART and percent(best.weight) != percent(rest)
        return (head, best) if alone else None

    @property
    def place(self) -> int | None:
        """The token that is spoken of: the query, or the only one a model is asked about."""
        made = self.trace.prediction
        alone = made.asked[0] if made and len(made.asked) == 1 else None
        return alone if self.query is None else self.query

    def row(self, head: Head, place: int) -> Values:
        """How much of its attention a token gives each key; the only row is that of the query."""
        patch = head.rows.cells.row(place if self.query is None else 0)
        weights: Values = np.where(patch.hidden, 0.0, patch.values)[0]
        return weights

    @property
    def evenly(self) -> bool:
        """Whether someone has a choice, and all weights are equal shares."""
        return self.whole and self.chosen > 0 and self.uneven < EQUAL

    @property
    def by_distance(self) -> bool:
        """Whether nothing but ALiBi tells tokens apart, in every head."""
        trace, own = self.trace, self.own and not self.trace.variant.compared
        biased = all(each.layer.attended.bias is not None for each in self.heads)
        plain = {"visible", "hidden", "mask", "scores"}.isdisjoint(trace.layers[0].given)
        return own and biased and plain and self.whole and self.chosen > 0

    @property
    def itself(self) -> float:
        """How much of its attention each token gives itself in every head, at least."""
        return min(each.rows.itself for each in self.heads) if self.own else 0.0

    @property
    def mirrored(self) -> float:
        """How much each token gives the one as far from the end as it is from the start."""
        return min(each.rows.mirrored for each in self.heads) if self.own else 0.0

    @cached_property
    def column(self) -> tuple[int, int] | None:
        """Of one head: the key that most tokens attend to most, and how many do."""
        if len(self.heads) > 1 or self.chosen < FEWEST:
            return None
        key, count = next(iter(self.heads[0].rows.favourites.most_common(1)), (0, 0))
        return (key, count) if count > MOST * self.chosen else None

    @cached_property
    def alike(self) -> list[tuple[int, int]]:
        """Of one head: the strongest links, if two or three are about alike and lead to one key."""
        best = self.heads[0].rows.strongest
        if best is None or len(self.heads) > 1 or self.query is not None:
            return []
        links = self.heads[0].rows.near(best.weight, FEWEST)
        one_key = len({key for _, key in links}) == 1
        return links if one_key and len(links) > 1 else []

    @property
    def only(self) -> set[int]:
        """The keys that a query may attend to, if it has no choice in any head."""
        if self.chosen or self.query is None or len({id(each.keys) for each in self.heads}) > 1:
            return set()
        rows = (each.rows.cells.row(0) for each in self.heads)
        return {int(key) for row in rows for key in np.flatnonzero(~row.hidden[0])}

    @property
    def who(self) -> str:
        """`Each token attends`, or `In head 1, "it" attends`"""
        if self.query is None:
            return "Each token attends"
        where = self.heads[0].where if len(self.heads) == 1 else ""
        return f"{where}{in_quotes(self.tokens, self.query)} attends"

    def key(self, head: Head, query: int, key: int) -> str:
        """The key that a query attends to: itself, or another token."""
        own = head.keys is self.tokens and query == key
        return "itself" if own else in_quotes(head.keys, key)

    def told(self, head: Head, link: Link) -> str:
        """`In head 1, "this" gives "am" 74 % of its attention`"""
        query = link.query if self.query is None else self.query
        who, key = in_quotes(self.tokens, query), self.key(head, query, link.key)
        return f"{head.where}{who} gives {key} {percent(link.weight)} of its attention"


def title_of(trace: Trace, query: int | None = None) -> str:
    """The title over all weights of a trace, or over what one token attends to."""
    facts = Weights(trace, tuple(_heads(trace, query)), query)
    if not facts.heads:
        return "Every head is switched off"
    return said(OF_ALL if query is None else OF_A_QUERY, facts)


def title_of_head(trace: Trace, layer: Layer, number: int, query: int | None = None) -> str:
    """The same of one head among others."""
    name = _name(trace, layer, number)
    found = tuple(each for each in _heads(trace, query) if each.name == name)
    if not found:
        return f"{name} is switched off"
    return said(OF_A_HEAD if query is None else OF_A_QUERY, Weights(trace, found, query))


def _heads(trace: Trace, query: int | None) -> Iterator[Head]:
    """Heads that are off are not spoken of: nothing goes on of what they attend to."""
    for layer in trace.attentions:
        for number in range(layer.heads):
            if number not in layer.off:
                cells = layer.weights.cells("mixing", number)
                rows = Rows(cells if query is None else _row(cells, query))
                yield Head(_name(trace, layer, number), layer, rows, trace.keys_of(layer))


def _row(cells: Cells, query: int) -> Cells:
    patch = cells.row(query)
    return Whole(patch.values, patch.hidden)


def _name(trace: Trace, layer: Layer, number: int) -> str:
    several = sum(each.heads for each in trace.attentions) > 1
    return name_of_head(trace, layer, number) if several else ""


def _seen(shape: MaskShape) -> str:
    if not shape.named or shape.chunk is not None:
        return ""
    if shape.window is None:
        return "itself and earlier tokens" if shape.causal else ""
    before = shape.window - 1
    if before == 0:
        return "itself"
    if not shape.causal:
        return "itself and its neighbours" if before == 1 else f"tokens up to {before} places away"
    return f"itself and the {'token' if before == 1 else f'{before} tokens'} before it"


def _of_the_only_token(facts: Weights) -> str:
    return f"{in_quotes(facts.tokens, 0)} attends only to itself: there is no other token"


def _of_a_mistake(facts: Weights) -> str:
    """What is done wrong; and what comes of it, where that shows in every head."""
    mistake = MISTAKES[facts.mistake]
    visible = all(shows(each.layer, one) for each in facts.heads for one in mistake.shows)
    return f"✗ {mistake.about if visible else mistake.cause}"


def _largest(facts: Weights) -> str:
    """Of weights that are no shares of a whole."""
    assert facts.link is not None
    head, link = facts.link
    query = link.query if facts.query is None else facts.query
    who, key = in_quotes(facts.tokens, query), facts.key(head, query, link.key)
    return f"{head.where}{who} gives {key} the largest weight, {fixed_text(link.weight, 2)}"


def _equally(facts: Weights) -> str:
    return f"{facts.who} equally to {_all(facts)}"


def _all(facts: Weights) -> str:
    every = "all that it may see" if facts.hides else "all tokens"
    return (facts.query is None and facts.seen) or every


def _in_a_whole_layer(facts: Weights) -> tuple[list[Head], int] | None:
    """The last layer in whose heads a token attends most to one and the same token."""
    place = facts.place
    if place is None:
        return None
    for layer in reversed(facts.trace.layers):
        heads = [each for each in facts.heads if each.layer is layer]
        rows = [facts.row(head, place) for head in heads]
        keys = {int(row.argmax()) for row in rows}
        if len(heads) > 1 and len(keys) == 1 and min(float(row.max()) for row in rows) > MOST:
            return heads, keys.pop()
    return None


def _of_a_whole_layer(facts: Weights) -> str:
    found, place = _in_a_whole_layer(facts), facts.place
    assert found is not None
    assert place is not None
    heads, key = found
    share = _share([float(facts.row(head, place)[key]) for head in heads])
    which = "both heads" if len(heads) == 2 else f"all {len(heads)} heads"
    where = f" of layer {heads[0].layer.layer}" if len(facts.trace.layers) > 1 else ""
    who, what = in_quotes(facts.tokens, place), facts.key(heads[0], place, key)
    return f"{who} gives {what} {share} of its attention in {which}{where}"


def _of_a_column(facts: Weights) -> str:
    assert facts.column is not None
    key, count = facts.column
    who = "All" if count == len(facts.tokens) else "Most"
    return f"{who} tokens attend most to {in_quotes(facts.heads[0].keys, key)}"


def _of_links_alike(facts: Weights) -> str:
    """`"am" and "this" each give "am" 99 % of their attention`"""
    head = facts.heads[0]
    names = listed([in_quotes(facts.tokens, query) for query, _ in facts.alike])
    key = facts.alike[0][1]
    share = _share([float(facts.row(head, query)[key]) for query, _ in facts.alike])
    return f"{names} each give {in_quotes(head.keys, key)} {share} of their attention"


def _share(weights: Sequence[float]) -> str:
    """What each is, if all read alike; or what none is less than."""
    least, most = percent(min(weights)), percent(max(weights))
    return least if least == most else f"{_least(min(weights))} or more"


def _least(share: float) -> str:
    """In whole per cents, of which there are no fewer."""
    return percent(floor(100 * share) / 100)


def _plainly(facts: Weights) -> str:
    """What is shown, of which nothing stands out."""
    several, name = len(facts.heads) > 1, facts.heads[0].name
    heads = f" in {counted(len(facts.heads), 'head')}" if several else f" in {name}" if name else ""
    if facts.query is not None or len(facts.tokens) == 1:
        return f"What {in_quotes(facts.tokens, facts.query or 0)} attends to{heads}"
    return f"Attention between {counted(len(facts.tokens), 'token')}{heads}"


def _of_one_key(facts: Weights) -> str:
    assert facts.query is not None
    return f"{facts.who} only to {facts.key(facts.heads[0], facts.query, *facts.only)}"


def _of_place(facts: Weights) -> str:
    """To what the token that a model is asked about gives most of its attention."""
    head, place = facts.heads[0], facts.place
    if place is None or head.keys is not facts.tokens:
        return ""
    row = facts.row(head, place)
    key = int(row.argmax())
    return facts.told(head, Link(place, key, float(row[key]), 0.0)) if row[key] > MOST else ""


def _mostly(facts: Weights) -> str:
    """`"it" attends mostly to itself (46 %) and "crossing" (16 %)`, or to one token alone."""
    assert facts.query is not None
    place, head = facts.query, facts.heads[0]
    (first, share), (second, next_), *_ = _ranked(facts)
    most, also = (facts.key(head, place, key) for key in (first, second))
    if share > MOST:
        who = in_quotes(facts.tokens, place)
        return f"{head.where}{who} gives {most} {percent(share)} of its attention"
    return f"{facts.who} mostly to {most} ({percent(share)}) and {also} ({percent(next_)})"


def _stands_out(facts: Weights) -> bool:
    """Whether one key has most of a query's attention, or two have it that nobody else is near."""
    if len(facts.heads) > 1 or facts.chosen == 0:
        return False
    (_, first), (_, second), *others = _ranked(facts)
    third = others[0][1] if others else 0.0
    clear = percent(second) != percent(third) and second - third > APART
    return first > MOST or (first + second > MOST and clear and first - second > APART)


def _ranked(facts: Weights) -> list[tuple[int, float]]:
    """The three keys that a query attends to most, and how much of its attention each gets."""
    row = facts.row(facts.heads[0], 0)
    return [(int(key), float(row[key])) for key in np.argsort(-row, kind="stable")[:3]]


EVENLY: Finding[Weights] = Finding("equal shares", lambda facts: facts.evenly, _equally)
ONE_TOKEN: Finding[Weights] = Finding(
    "one token",
    lambda facts: facts.own and facts.whole and len(facts.tokens) == 1 and not facts.blind,
    _of_the_only_token,
)
MISTAKEN: Finding[Weights] = Finding("a mistake", lambda facts: facts.mistake != "", _of_a_mistake)
LARGEST: Finding[Weights] = Finding(
    "no shares", lambda facts: not facts.whole and facts.link is not None, _largest
)
STRONGEST: Finding[Weights] = Finding(
    "the strongest link",
    lambda facts: facts.whole and facts.link is not None,
    lambda facts: facts.told(*facts.link) if facts.link else "",
)
ALMOST_EVEN: Finding[Weights] = Finding(
    "almost even",
    lambda facts: facts.whole and facts.chosen > 0 and facts.uneven < ALMOST,
    lambda facts: f"{facts.who} almost equally to {_all(facts)}",
)
PLAINLY: Finding[Weights] = Finding("nothing stands out", otherwise, _plainly)


OF_ALL: tuple[Finding[Weights], ...] = (
    MISTAKEN,
    Finding(
        "everything is hidden",
        lambda facts: facts.blind,
        lambda _: "No token attends to any: everything is hidden",
    ),
    ONE_TOKEN,
    EVENLY,
    Finding(
        "by distance alone",
        lambda facts: facts.by_distance,
        lambda _: "The nearer a token, the more attention it gets",
    ),
    Finding(
        "all heads of a layer",
        lambda facts: facts.whole and _in_a_whole_layer(facts) is not None,
        _of_a_whole_layer,
    ),
    Finding(
        "a mask",
        lambda facts: facts.seen != "",
        lambda facts: f"{facts.who} only to {facts.seen}",
    ),
    Finding(
        "nothing ahead",
        lambda facts: facts.shape is not None and facts.shape.causal,
        lambda _: "No token attends to a later one",
    ),
    LARGEST,
    ALMOST_EVEN,
    Finding(
        "mostly itself",
        lambda facts: facts.whole and facts.itself > MOST,
        lambda facts: f"Each token gives itself {_least(facts.itself)} or more of its attention",
    ),
    Finding(
        "mirrored",
        lambda facts: facts.whole and facts.mirrored > MOST,
        lambda facts: "Each token attends mostly to the one at the mirrored place",
    ),
    STRONGEST,
    Finding("links alike", lambda facts: facts.whole and len(facts.alike) > 1, _of_links_alike),
    Finding("a column", lambda facts: facts.whole and facts.column is not None, _of_a_column),
    PLAINLY,
)
OF_A_HEAD = (
    MISTAKEN,
    LARGEST,
    Finding("what is asked", lambda facts: facts.whole and _of_place(facts) != "", _of_place),
    STRONGEST,
    PLAINLY,
)
OF_A_QUERY: tuple[Finding[Weights], ...] = (
    Finding(
        "everything is hidden",
        lambda facts: facts.blind,
        lambda facts: f"{facts.who} to nothing: every key is masked",
    ),
    MISTAKEN,
    ONE_TOKEN,
    Finding(
        "one key",
        lambda facts: facts.whole and len(facts.only) == 1,
        _of_one_key,
    ),
    EVENLY,
    LARGEST,
    ALMOST_EVEN,
    Finding("stands out", lambda facts: facts.whole and _stands_out(facts), _mostly),
    Finding(
        "all heads of a layer",
        lambda facts: facts.whole and _in_a_whole_layer(facts) is not None,
        _of_a_whole_layer,
    ),
    STRONGEST,
    PLAINLY,
)
