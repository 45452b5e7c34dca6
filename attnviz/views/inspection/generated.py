"""What a model read before each token it generated: frames of a film, words of a page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.patterns import is_majority, most_attended_keys
from attnviz.analysis.inspection.token_query import MapRow, TokenQuery
from attnviz.cells import FULL_SLICE
from attnviz.heads.changes import mean_head
from attnviz.heads.head import Head
from attnviz.heads.side import Side
from attnviz.tokens.tokens import piece_phrase
from attnviz.traces.trace import Trace
from attnviz.views.grids.axes import Axis
from attnviz.views.grids.scales import Scale
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.heads.grid import side_axis
from attnviz.views.inspection.link_sentences import base_text
from attnviz.views.inspection.map_numbers import (
    map_amount_text,
    measure_name,
    row_scale,
    side_label,
)
from attnviz.views.inspection.token_reading import coloured_sentence, map_phrase, ranked_bars
from attnviz.views.view import Group, Shot
from attnviz.wording.numbers import percent_text
from attnviz.wording.words import and_list, bidi_isolated

MAX_STORED_CELLS = 2**24  # a mean of more cells is computed again for each frame
MAX_FRAME_BARS = 6  # of keys beside the sentence of a frame
MIN_NAMED_SHARE = 0.01  # of a row: a key that gets less does not stand out


@dataclass(frozen=True)
class GeneratedToken:
    """A token (or a word, with --words) that the model wrote after the row `row` of a map."""

    row: int
    label: str
    probability: str  # as text; empty: it was not scored, or is no single token

    @property
    def text(self) -> str:
        """Its label in quotes, with its probability if it is known: `"Paris" (63 %)`."""
        return f'"{bidi_isolated(self.label)}"' + f" ({self.probability})" * bool(self.probability)


def generated_tokens(trace: Trace, rows: Side) -> list[GeneratedToken]:
    """Return the tokens that the model generated, those of them that follow a row of these rows."""
    start = _generation_start(trace)
    if start is None or rows.tokens is not trace.tokens:
        return []
    return [
        GeneratedToken(row - 1, rows.labels[row], _probability_text(trace, group))
        for row, group in enumerate(rows.groups)
        if row and group[0] >= start and rows.groups[row - 1][-1] == group[0] - 1
    ]


def _generation_start(trace: Trace) -> int | None:
    """Return the position of the first token that the model wrote; None if it wrote none.

    A decoder beside an encoder writes all but its start token, unless it was given a target.
    """
    card = trace.trained
    if trace.prompt is not None or card is None or card.which == "self":
        return trace.prompt
    return 1 if trace.origin.settings.target is None else None


def _probability_text(trace: Trace, group: tuple[int, ...]) -> str:
    """Return the probability with which the model chose a token; empty for a word of several
    tokens, and where the likeliest answer was not scored or is another one."""
    prediction, (position, *others) = trace.prediction, group
    if others or prediction is None or prediction.predicts != "next":
        return ""
    best = prediction.best(position - 1, 1)[0]
    probability = float(prediction.probabilities[position - 1, best])
    is_chosen = prediction.answers[best] == trace.tokens.labels[position]
    return percent_text(probability) if is_chosen and not math.isnan(probability) else ""


@dataclass(frozen=True, eq=False)
class GeneratedReading:
    """What the model read, on average over the chosen heads, before each token it generated."""

    inspection: Inspection
    tokens: tuple[GeneratedToken, ...]

    @cached_property
    def mean(self) -> Head:
        """The mean of the maps, or the only one; computed once unless it is very large."""
        maps = self.inspection.maps
        mean = maps[0] if len(maps) == 1 else mean_head(maps)
        if math.prod(mean.cells.shape) > MAX_STORED_CELLS:
            return mean
        return replace(mean, table=mean.cells.stored())

    @cached_property
    def readings(self) -> list[MapRow]:
        return [MapRow(self.mean, token.row) for token in self.tokens]

    @cached_property
    def sink(self) -> int | None:
        """The key to which most tokens of the text attend most, which would hide all others."""
        patch = self.mean.cells.window(FULL_SLICE, FULL_SLICE)
        keys = most_attended_keys(np.where(patch.hidden, 0, patch.values)[1:]).tolist()
        key, count = Counter(keys).most_common(1)[0] if keys else (0, 0)
        return key if is_majority(count, len(keys)) else None

    @cached_property
    def key_without_bar(self) -> int | None:
        """The sink, unless no other key gets enough in any frame for a bar to be seen."""
        is_worth_a_bar = any(
            _row_share(reading, key) >= MIN_NAMED_SHARE
            for reading in self.readings
            for key in _keys_by_lift(reading, self.sink)
            if key != self.sink
        )
        return self.sink if is_worth_a_bar else None

    @cached_property
    def frame_keys(self) -> list[list[int]]:
        """The keys that have bars in each frame: as many in all, most above other tokens first,
        behind the sink if it has one."""
        keys = [_keys_by_lift(reading, self.sink) for reading in self.readings]
        if self.sink is not None and self.key_without_bar is None:
            keys = [list(dict.fromkeys((self.sink, *frame_keys))) for frame_keys in keys]
        count = min(MAX_FRAME_BARS, *map(len, keys))
        return [frame_keys[:count] for frame_keys in keys]

    @cached_property
    def _bar_names(self) -> tuple[str, ...]:
        names = side_axis("key (is read)", self.mean.columns).names
        return tuple(names[key] for key in sorted({*chain.from_iterable(self.frame_keys)}))

    @cached_property
    def largest_bar(self) -> float:
        frames = zip(self.readings, self.frame_keys, strict=True)
        return max(reading.weight(key) for reading, keys in frames for key in keys)

    @cached_property
    def scale(self) -> Scale:
        """The colours of all frames: up to the largest weight that has a bar."""
        scale = row_scale(np.array([self.largest_bar]), self.inspection.options)
        largest = max(float(reading.patch.values.max()) for reading in self.readings)
        return replace(scale, is_exceeded=largest > scale.high)

    def shots(self) -> Iterator[Shot]:
        """Yield a frame for each token: the sentence so far, coloured, and bars of some keys."""
        frames = zip(self.tokens, self.readings, self.frame_keys, strict=True)
        for token, reading, keys in frames:
            query = TokenQuery(self.inspection.options, token.row, (reading,))
            parts = self._sentence(query, reading), self._bars(reading, keys)
            yield Shot((Group("reading", parts),), self._title(token, reading))

    def _sentence(self, query: TokenQuery, reading: MapRow) -> Sentence:
        """Return the sentence as it was when the token was written: later ones are blank."""
        sentence, side, written = coloured_sentence(query, reading), reading.map.columns, None
        if side.tokens is reading.map.rows.tokens:
            last = reading.map.rows.groups[reading.row + 1][-1]
            written = sum(group[0] <= last for group in side.groups)
        return replace(sentence, grid=replace(sentence.grid, scale=self.scale), written=written)

    def _bars(self, reading: MapRow, keys: Sequence[int]) -> RankedBars:
        """Return bars of the weights of these keys, beside the means from other tokens."""
        looking, axis = self.inspection.options, side_axis("key (is read)", reading.map.columns)
        labels, numbers = (tuple(each[key] for key in keys) for each in (axis.labels, axis.numbers))
        bars = ranked_bars(
            f"its {measure_name(looking)}, most above that of other {looking.unit}s first",
            Axis("", "token", labels, numbers, reserved_labels=self._bar_names),
            [reading.weight(key) for key in keys],
            ["" for _ in keys],
            looking,
            self.scale,
            other_values=[float(reading.base_weights[key]) for key in keys],
            note=self._sink_note(),
        )
        return replace(bars, longest=self.largest_bar)

    def _sink_note(self) -> str:
        """Return which key has no bar, and why; empty if all may have one."""
        if self.key_without_bar is None:
            return ""
        name = side_label(self.mean.columns, self.key_without_bar)
        units = self.inspection.options.unit
        return f"without a bar: {name}, to which most {units}s attend most"

    def _title(self, token: GeneratedToken, reading: MapRow) -> str:
        """Return what was read before a token, as a sentence: `Next: "Paris" (77 %). In L4H2, "is"
        gives "The" 94 % and "of" 3 %; the other tokens give "of" 2 %`.

        It names the sink, the key with the largest weight, and the one that gets most above what
        other tokens give it, if that stands out; that none does is said, too.
        """
        attention_map, looking = reading.map, self.inspection.options
        token_query = TokenQuery(looking, token.row, (reading,))
        own = token_query.own_column
        keys = _keys_by_lift(reading, self.sink)
        lifted = next((key for key in keys if key != own), keys[0])
        is_above = reading.weight(lifted) > np.nan_to_num(reading.base_weights[lifted])
        stands_out = bool(is_above) and _row_share(reading, lifted) >= MIN_NAMED_SHARE
        first = reading.top_column if self.sink is None else self.sink
        named = dict.fromkeys([first, reading.top_column, *[lifted] * stands_out])
        amounts = []
        for key in named:
            name = "itself" if key == own else side_label(attention_map.columns, key)
            amounts.append(f"{name} {map_amount_text(attention_map, reading.weight(key), looking)}")
        receiver = side_label(attention_map.columns, lifted) if len(named) > 1 else "it"
        others_text = base_text(token_query, reading, lifted, receiver) if lifted in named else ""
        where = f"In {map_phrase(reading)}" + f", by {measure_name(looking)}" * (
            looking.weigh != "weight"
        )
        ending = others_text if lifted in named else "nothing else stands out"
        ending = f"; {ending}" if ending else ""
        giver = side_label(attention_map.rows, token.row)
        return f"Next: {token.text}. {where}, {giver} gives {and_list(amounts)}{ending}"


def _row_share(reading: MapRow, key: int) -> float:
    """Return a key's share of the sum of its row; 0 of a row of zeros."""
    total = float(reading.patch.values[0].sum())
    return reading.weight(key) / total if total else 0.0


def _keys_by_lift(reading: MapRow, left_out: int | None) -> list[int]:
    """Return the keys that the row's token sees, without `left_out` if there are others, those
    first that get most above what other tokens give them, or give the key at its distance.

    Keys that no other token can see count as those that get as much.
    """
    hidden, lifts = reading.patch.hidden[0], reading.patch.values[0] - reading.base_weights
    lifts = np.where(np.isnan(lifts) | hidden, 0.0, lifts)
    keys = [key for key in np.argsort(-lifts, kind="stable").tolist() if not hidden[key]]
    return [key for key in keys if key != left_out] or keys


def generation_film(inspection: Inspection) -> tuple[Shot, ...]:
    """Return a frame for each token that the model generated; none if it generated none, or where
    another question is asked."""
    looking = inspection.options
    is_plain = looking.weigh in ("weight", "norm") and looking.merge != "rollout"
    asks_otherwise = looking.by == "effect" or looking.source or looking.query or looking.part
    if asks_otherwise or not is_plain:
        return ()
    tokens = generated_tokens(inspection.trace, inspection.maps[0].rows)
    return tuple(GeneratedReading(inspection, tuple(tokens)).shots()) if tokens else ()


def generated_text_notes(trace: Trace) -> tuple[str, ...]:
    """Return a note with the text that the model wrote; empty if it wrote none."""
    start = _generation_start(trace)
    if start is None:
        return ()
    tokens = trace.tokens
    pieces = [
        tokens.pieces[place] for place in range(start, len(tokens)) if place not in tokens.special
    ]
    text = b"".join(pieces).strip()
    return (f'the model wrote "{piece_phrase(text)}"',) if text else ()
