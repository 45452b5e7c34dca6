"""Subject: a Trace, its heads, and what is said of a head, a cell and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from typing import Any, TypeVar

import numpy as np
from rich.cells import cell_len

from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.cells import FULL_SLICE, Cells, DerivedCells, Patch, StoredCells
from attnviz.cli.inspect import MODEL_DECIDED_OPTIONS
from attnviz.errors import AttnvizError, cmd, opt
from attnviz.renderers.terminal.screen import fit_columns
from attnviz.tokens.tokens import Tokens
from attnviz.traces.from_text import trace_source
from attnviz.traces.inputs import Source, build_source
from attnviz.traces.models.answers import Prediction
from attnviz.traces.settings import Settings, format_head_id, parse_heads_off
from attnviz.traces.trace import Layer, Trace
from attnviz.views.answer_tables import answer_sentences
from attnviz.views.conclusions.weight_titles import one_head_title
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, pool_grid
from attnviz.views.grids.section import Section
from attnviz.views.head_vectors import score_name
from attnviz.views.heads.sentences import quoted_token
from attnviz.views.notes import heads_off_names
from attnviz.views.settings_line import settings_by_importance
from attnviz.views.steps.walk import Walk, steps
from attnviz.views.trace_data import explore_trace
from attnviz.views.view import View, printable_value
from attnviz.wings.explore.place import Place
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.numbers import fixed_text, percent_text
from attnviz.wording.words import bidi_isolated

MAX_KEPT_GRIDS = 48  # of heads that were looked at last
SMALL_MAP_SIDE = 16  # blocks on a side of a small map where there is little room, at most
MAX_CELLS_IN_MEMORY = 2**22  # of a head; rows of more are computed when they come into sight
MAX_EXPLORED_CELLS = 2**28  # of a long text, computed once for the small maps of all heads
MAX_KEPT_ROWS = 16  # parts of a large head that were in sight last
SCALED_ROWS = 64  # of a large head, whose weights choose its colour scale
MAX_CELLS_AT_ONCE = 2**22  # of all heads; more of them are not read between two keys
TEMPERATURE_LIMITS = 1 / 64, 64.0
CELL_STEPS = "scores,scaling,mask,softmax"
CELL_GAP = "   "  # between the parts of the line on a cell
Key = TypeVar("Key")
Value = TypeVar("Value")
NAMED_ANSWERS = 3
MIN_NAMED_PROBABILITY, MIN_CHANGE = 0.01, 0.001


def recall(kept: dict[Key, Value], key: Key, most: int, make: Callable[[], Value]) -> Value:
    """Return the value that is kept under a key, made if it is not there yet; of more than `most`
    values the oldest one is forgotten."""
    if key not in kept:
        value = make()
        if len(kept) >= most:
            del kept[next(iter(kept))]
        kept[key] = value
    return kept[key]


@dataclass(frozen=True, eq=False, repr=False)
class RowsInSight(DerivedCells):
    """The weights of a head of a long text: the rows that were in sight last are kept."""

    @property
    def has_hidden(self) -> bool:
        return self.cells.has_hidden

    @cached_property
    def _rows_in_memory(self) -> dict[tuple[int, int], Patch]:
        return {}

    def window(self, rows: slice, columns: slice) -> Patch:
        start, stop, _ = rows.indices(self.shape[0])
        read = partial(self.cells.window, slice(start, stop), FULL_SLICE)
        patch = recall(self._rows_in_memory, (start, stop), MAX_KEPT_ROWS, read)
        return Patch(patch.values[:, columns], patch.hidden[:, columns])

    def bands(self, height: int = 1) -> Iterator[Patch]:
        return self.cells.bands(height)  # which are too many to be kept

    def sample_rows(self) -> StoredCells:
        """Return some rows, evenly spread."""
        count = self.shape[0]
        rows = (self.cells.row(row) for row in range(0, count, -(-count // SCALED_ROWS)))
        values, hidden = zip(*((row.values, row.hidden) for row in rows), strict=True)
        return StoredCells(np.concatenate(values), np.concatenate(hidden))


@dataclass(frozen=True, eq=False)
class Subject:
    """A Trace and its heads. `base` is the same text, computed as it was when exploring began."""

    trace: Trace
    base: Trace
    explorer: HeadExplorer
    drawn: dict[Any, Any] = field(default_factory=dict)  # last, by all that drawings depend on
    _kept_grids: dict[int, Grid] = field(default_factory=dict)
    _small_maps: dict[tuple[int, int], Grid] = field(default_factory=dict)
    _findings: dict[tuple[int, int], str] = field(default_factory=dict)

    @cached_property
    def attention(self) -> tuple[tuple[Layer, int], ...]:
        layers = self.trace.attention_layers
        return tuple((layer, number) for layer in layers for number in range(layer.heads))

    @cached_property
    def cells(self) -> tuple[tuple[int, int], ...]:
        return tuple(head.chooser_cell or (0, 0) for head in self.explorer.heads)

    @property
    def settings(self) -> Settings:
        return self.trace.origin.settings

    @property
    def shape(self) -> tuple[int, int]:
        return self.explorer.heads[0].weights.shape

    @cached_property
    def abilities(self) -> frozenset[str]:
        """What can be done with it, as the table of keys names it."""
        prediction, layers = self.trace.prediction, {cell[0] for cell in self.cells}
        has_settings = self.trace.trained is None
        able = {
            "heads": len(self.cells) > 1,
            "layers": len(layers) > 1,
            "changes": not build_source(self.trace).has_no_command
            and (prediction is not None or len(self.trace.attention_layers) > 1),
            "settings": has_settings,
            "scores": has_settings and self.trace.variant.compared,
            "text": self.trace.text is not None,
            "continues": prediction is not None and prediction.predicts == "next",
        }
        return frozenset(name for name, is_able in able.items() if is_able)

    @property
    def is_quick(self) -> bool:
        """Whether it is computed again between two keys: no trained transformer is run."""
        return self.trace.trained is None

    @property
    def has_many_cells(self) -> bool:
        """Whether reading all heads takes longer than one should wait without a word."""
        return len(self.explorer.heads) * self.shape[0] * self.shape[1] > MAX_CELLS_AT_ONCE

    def name(self, head: int) -> str:
        """Return the name of a head, and whether it is off: `L1H1 (off)`."""
        head_map = self.explorer.heads[head]
        return head_map.name + OFF_SUFFIX * head_map.off

    def grid(self, head: int) -> Grid:
        """Return the weights of a head as a Grid; those that were looked at last are kept."""
        read = partial(self._read_grid, head)
        return recall(self._kept_grids, head, MAX_KEPT_GRIDS, read)

    def _read_grid(self, head: int) -> Grid:
        """Return the weights of a head as a Grid, in memory if they are not very many."""
        head_map = self.explorer.heads[head]
        cells: Cells
        if prod(head_map.weights.shape) <= MAX_CELLS_IN_MEMORY:
            cells = head_map.weights.stored()
            scale = head_map.scale(cells)
        else:
            cells = RowsInSight(head_map.weights)
            scale = head_map.scale(cells.sample_rows())
            scale = replace(scale, is_exceeded=scale.high < 1)  # other rows were not read
        return Grid(
            "",
            replace(head_map.query_axis, border=None),  # a rule would take a line of its own
            head_map.key_axis,
            cells,
            scale,
            share=head_map.share,
            off=(True,) * len(head_map.query_axis) if head_map.off else (),
        )

    def block_size(self, side: int) -> int:
        """Return how many tokens share a row of a small map of at most `side` rows."""
        return -(-max(self.shape) // side)

    def small_map(self, head: int, side: int) -> Grid:
        """Return a head for an overview: in blocks, if it has more than `side` tokens."""
        size = self.block_size(side)
        key = head, size
        if key not in self._small_maps:
            grid = self._kept_grids.get(head) or self._read_grid(head)
            self._small_maps[key] = replace(pool_grid(grid, size, size), title=self.name(head))
        return self._small_maps[key]

    def read_all_heads(self, side: int) -> Subject:
        """Read the small maps of all heads, which are kept; return the subject itself."""
        for head in range(len(self.explorer.heads)):
            self.small_map(head, side)
        return self

    def finding(self, place: Place) -> str:
        """Return what the query of a place attends to in its head, as a title says it; of a head
        that is off, what the model does without it.
        """
        if self.explorer.heads[place.head].off and self.ablation_finding:
            return self.ablation_finding
        key = place.head, place.query
        if key not in self._findings:
            layer, number = self.attention[place.head]
            title = one_head_title(self.trace, layer, number, place.query)
            self._findings[key] = printable_value(title)
        return self._findings[key]

    def cell_line(self, place: Place, width: int) -> str:
        """Return the numbers of the cell: `7 ? → 3 dogs   weight 0.9998   scaled score 16.00`.

        Where the line is wider than `width` columns, words are shortened and numbers kept.
        """
        grid, numbers = self.grid(place.head), self._cell_numbers(place)
        names = grid.rows.names[place.query], grid.columns.names[place.key]
        room = width - cell_len(f" → {CELL_GAP}{numbers}")
        query, key = _shorten_to_fit(names, room)
        return f"{query} → {key}{CELL_GAP}{numbers}"

    def _cell_numbers(self, place: Place) -> str:
        """Return the weight of the cell, and the score that it comes from."""
        head_map, grid = self.explorer.heads[place.head], self.grid(place.head)
        row = grid.cells.row(place.query)
        if row.hidden[0, place.key]:
            return "hidden by the mask"
        parts = [f"weight {fixed_text(float(row.values[0, place.key]), 4)}"]
        if head_map.scores is not None:
            rows, columns = (slice(at, at + 1) for at in (place.query, place.key))
            score = float(head_map.scores.window(rows, columns).values[0, 0])
            layer = self.attention[place.head][0]
            parts.append(f"{score_name(self.trace, layer)} {fixed_text(score, 2)}")
        return CELL_GAP.join(parts)

    @cached_property
    def answer_line(self) -> str:
        """What the model answers, and what it answered before anything was changed; empty for a
        trace without answers.
        """
        prediction, before = self.trace.prediction, self.base.prediction
        is_same_text = self.base.tokens.labels == self.trace.tokens.labels
        is_changed = self.base is not self.trace and is_same_text
        line = next(iter(answer_sentences(self.trace)), "")
        tokens = self.trace.tokens
        if prediction is not None and before is not None and is_changed:
            if prediction.main_position is not None:
                line = _changed_answers_text(tokens, prediction, before, prediction.main_position)
            elif prediction.asked_positions:
                line = _exchanged_answers_text(tokens, prediction, before)
        return str(printable_value(line))

    @cached_property
    def ablation_finding(self) -> str:
        """What the model answers without the heads that are off; of a model without answers, which
        weight of another head changes most. Empty if all are on, or for very many weights.
        """
        if not self.settings.without or (self.trace.prediction is None and self.has_many_cells):
            return ""
        if self.trace.prediction is None:
            return str(printable_value(self._largest_change()))
        sentences = answer_sentences(self.trace)
        if len(sentences) == 1:
            return str(printable_value(sentences[0]))
        return f"Without {heads_off_names(self.trace)}: {self.answer_line}"

    def _largest_change(self) -> str:
        """Return which weight of another head changes most without the heads that are off."""
        start, changes = f"Without {heads_off_names(self.trace)}", []
        for now, before in zip(self.explorer.heads, _explore(self.base).heads, strict=True):
            share, earlier = (
                np.nan_to_num(head.weights.window(FULL_SLICE, FULL_SLICE).values)
                for head in (now, before)
            )
            at = divmod(int(np.abs(share - earlier).argmax()), share.shape[1])
            changes += [] if now.off else [(now, at, float(share[at]), float(earlier[at]))]
        if not changes:
            return f"{start}, no head is left"
        head, at, share, earlier = max(changes, key=lambda each: abs(each[2] - each[3]))
        if abs(share - earlier) < MIN_NAMED_PROBABILITY:
            limit = percent_text(MIN_NAMED_PROBABILITY)
            return f"{start} no weight of another head changes by {limit}"
        query, key = head.query_axis.labels[at[0]], head.key_axis.labels[at[1]]
        return (
            f'{start}, "{query}" gives "{key}" {percent_text(share)} in {head.name}, not '
            f"{percent_text(earlier)}"
        )

    @property
    def known_words(self) -> tuple[str, ...]:
        """The words of a small model that reads words; empty for others."""
        model = self.trace.model
        is_of_words = model is not None and self.trace.tokenizer == "words"
        return tuple(model.vocabulary.ids) if model is not None and is_of_words else ()

    @property
    def length_note(self) -> str:
        """A remark on a text that is longer than any the model learned from, or whose question has
        an answer as long as itself; empty for others.
        """
        model, prediction, length = self.trace.model, self.trace.prediction, len(self.trace.tokens)
        if model is None or prediction is None:
            return ""
        longest = max(model.facts.get("tokens") or [length])
        if length > longest:
            return f"longer than in training, where texts had at most {longest} tokens"
        asked = prediction.asked_positions
        if model.vocabulary.asks and asked and length > 2 * asked[0]:
            return "the answer is as long as the question: it is complete"
        return ""

    @cached_property
    def changes(self) -> str:
        """The options that differ from those at the start: `--no-scale --without L1H1`."""
        ours, first = (changed_options(each.origin.settings) for each in (self.trace, self.base))
        options = {name: value for name, value in ours.items() if first.get(name) != value}
        options |= {name: getattr(Settings(), name) for name in first.keys() - ours.keys()}
        given = {
            name: f"{value:g}" if isinstance(value, float) else value
            for name, value in options.items()
            if value is not None
        }
        words = Command(name="", options=given).line
        undone = [name for name, value in options.items() if value is None]
        return " ".join([words.removeprefix("attnviz").strip(), *(f"no {name}" for name in undone)])

    @cached_property
    def about(self) -> tuple[str, ...]:
        """What the numbers depend on, the most important first."""
        return printable_value(settings_by_importance(self.trace))

    def view(self, place: Place) -> View:
        """Return the View of what is on the screen: one head, all heads, or a cell's arithmetic."""
        layer, number = self.attention[place.head]
        if place.pane == "arithmetic":
            return self._steps(place).view()
        if place.pane == "overview" or not self.shows_heads_apart(place):
            return self.trace.view()
        options = InspectOptions(layer=str(layer.layer), head=str(number))
        return Inspection(trace=self.trace, options=options).view()

    def command(self, place: Place) -> Command | None:
        """Return the command that prints what is on the screen, with the row of the query; None
        where there is none.
        """
        if place.pane in ("arithmetic", "overview"):
            return self.view(place).command
        layer, number = self.attention[place.head]
        if not self.shows_heads_apart(place):
            return self._row_command(place)
        query = str(place.query + 1)  # commands count from 1
        options = InspectOptions(layer=str(layer.layer), head=str(number), query=query)
        return Inspection(trace=self.trace, options=options).view().command

    def _row_command(self, place: Place) -> Command | None:
        """Return the command that prints the row of the query in a head that `inspect` does not
        show: the softmax of that head, or of an only head all of it.
        """
        layer, number = self.attention[place.head]
        if len(self.attention) == 1:
            return self.trace.view(query=place.query).command
        step = "softmax" if layer.memory is None else "cross-softmax"
        try:
            walk = steps(self.trace, query=place.query, layer=layer.layer, head=number, step=step)
        except AttnvizError:  # its weights come from no scores
            return None
        return walk.view().command

    def shows_heads_apart(self, place: Place) -> bool:
        """Return whether there is a View, and a command, of the head alone: `inspect` has none of
        random vectors, of a model with other settings and of a second sentence.
        """
        has_own_command = self.trace.trained is not None or (
            self.trace.model is not None
            and not changed_options(self.settings).keys() & {*MODEL_DECIDED_OPTIONS}
        )
        return has_own_command and self.attention[place.head][0].memory is None

    def arithmetic(self, place: Place) -> tuple[Section, ...]:
        """Return the steps from the query and the key of a cell to its weight, made printable."""
        return printable_value(self._steps(place).sections)

    def _steps(self, place: Place) -> Walk:
        """Return the Walk of a cell; refuses what has no scores to write out."""
        layer, number = self.attention[place.head]
        if layer.memory is not None:
            raise AttnvizError(
                "the arithmetic of attention to a second sentence is written by another command",
                f"{cmd.steps:TEXT --memory … --query TOKEN --step cross-scores}",
            )
        write = partial(
            steps, self.trace, query=place.query, layer=layer.layer, head=number, step=CELL_STEPS
        )
        try:
            return write(key=place.key)
        except AttnvizError as error:
            if error.about != "key":
                raise
            return write()

    def with_settings(self, **changes: Any) -> Subject:
        """Return the subject computed with other settings, on the same text."""
        source = self._changeable_source(self.trace, **changes)
        before = self.base.origin.settings, self.base.text
        trace = self.base if (source.settings, source.text) == before else trace_source(source)
        return replace_trace(self, trace, self.base)

    def with_text(self, text: str) -> Subject:
        """Return the subject of another text, computed with the same settings."""
        if self.trace.text is None:
            raise AttnvizError("there is no text to edit: the tokens are given", "edit their file")

        def change(trace: Trace) -> Source:
            """Return the source of the new text; vectors of a table are looked up again."""
            source = self._changeable_source(trace)
            return replace(source, text=text, vectors=None, table=None)

        return self._compute_again(change)

    def _compute_again(self, change: Callable[[Trace], Source]) -> Subject:
        """Return the subject, and what it is compared with, computed from changed sources."""
        trace = trace_source(change(self.trace))
        is_changed = self.base is not self.trace
        return replace_trace(self, trace, trace_source(change(self.base)) if is_changed else trace)

    def _changeable_source(self, trace: Trace, **changes: Any) -> Source:
        """Return the source of a trace with other settings; refuses weights computed elsewhere."""
        source = build_source(trace, **changes)
        if source.has_no_command:
            raise AttnvizError(
                "these weights were computed elsewhere, so that nothing can be changed",
                "look at other heads with [ and ]",
            )
        return source

    def switched(self, head: int) -> Subject:
        """Return the subject with one more head switched off, or with one switched on again."""
        layer, number = self.attention[head]
        if layer.memory is not None:
            raise AttnvizError(
                "a head that attends to a second sentence cannot be switched off",
                "switch off a head of the text's own attention",
            )
        off = parse_heads_off(self.settings.without)
        name = (layer.layer, number)
        is_last = layer is self.trace.attention_layers[-1]
        if is_last and self.trace.prediction is None and name not in off:
            raise AttnvizError(
                "without this head, all weights stay as they are: no head reads its output",
                f"a model with answers: {opt.model:agreement}",
            )
        others = {each: value for each, value in off.items() if each != name}
        heads = others if name in off else {**off, name: "zero"}
        words = [format_head_id(*each) + "=mean" * (heads[each] == "mean") for each in heads]
        return self.with_settings(without=",".join(words) or None)

    def scaled_otherwise(self) -> Subject:
        return self._with_variant("scale", "scaled", not self.trace.variant.scaled)

    def masked_otherwise(self) -> Subject:
        return self._with_variant("causal", "causal", not self.trace.variant.causal)

    def heated(self, factor: float) -> Subject:
        """Return the subject with another temperature; refuses to go on beyond 1/64 and 64."""
        temperature = self.trace.variant.temperature * factor
        low, high = TEMPERATURE_LIMITS
        if not low <= temperature <= high:
            raise AttnvizError(
                f"the temperature stays between 1/{1 / low:g} and {high:g}",
                "go back with the other key",
            )
        return self._with_variant("temperature", "temperature", temperature)

    def _with_variant(self, setting: str, variant_field: str, value: object) -> Subject:
        """Return the subject with a setting that gives the variant's field a value; where that is
        its value at the start, with the setting as it was.
        """
        is_as_before = getattr(self.base.variant, variant_field) == value
        before = getattr(self.base.origin.settings, setting)
        return self.with_settings(**{setting: before if is_as_before else value})

    def with_next_word(self) -> Subject:
        """Return the subject with one more word that the model writes.

        Refuses models that do not continue a text.
        """
        prediction = self.trace.prediction
        if prediction is None or prediction.predicts != "next" or self.trace.text is None:
            raise AttnvizError(
                "only a model that continues a text can add a word",
                f"explore with {opt.model:smollm2}, or {opt.model:induction}",
            )
        if self.trace.trained is not None:
            count = (self.settings.generate or 0) + 1
            return self._compute_again(lambda each: self._changeable_source(each, generate=count))
        answer = prediction.answers[prediction.best(len(self.trace.tokens) - 1, 1)[0]]
        gap = " " if self.trace.tokenizer == "words" else ""
        return self.with_text(f"{self.trace.text}{gap}{answer}")


def _shorten_to_fit(names: tuple[str, str], room: int) -> tuple[str, str]:
    """Return two names that fit into `room` columns together; a short one is not cut."""
    first, second = (cell_len(name) for name in names)
    if first + second <= room:
        return names
    half = room // 2
    limits = max(half, room - second), max(room - half, room - first)
    short = [fit_columns(names[at], min(cell_len(names[at]), limits[at])) for at in (0, 1)]
    return short[0], short[1]


def open_subject(trace: Trace, query: str | None = None) -> tuple[Subject, Place]:
    """Return the subject of a trace, and the place where exploring begins: the head and the token
    that a page opens with, or the token `query`; of a trained transformer the head with the link
    that is furthest above its base rate.

    Refuses a text with too many weights.
    """
    refuse_long_text(trace)
    asked = None if query is None else trace.tokens.index(query, "query")
    opened = trace.view().heads if trace.trained is None else explore_trace(trace, asked)
    assert opened is not None
    explorer = _explore(trace)
    names = [head.name for head in explorer.heads]
    first = opened.heads[opened.first].name
    head = names.index(first) if first in names else 0
    position = opened.query if asked is None else asked
    subject = Subject(trace, trace, explorer)
    place = Place(head=head, query=len(trace.tokens) - 1 if position is None else position)
    return subject, replace(place, key=strongest_key(subject, place))


def strongest_key(subject: Subject, place: Place) -> int:
    grid = subject.grid(place.head)
    row = grid.cells.row(place.query)
    return int(np.where(row.hidden, -np.inf, np.nan_to_num(row.values)).argmax())


def refuse_long_text(trace: Trace) -> None:
    """Refuse a long text whose weights would take minutes to compute once for all heads."""
    long_layers = [each for each in trace.attention_layers if each.long_weights is not None]
    if sum(prod(each.shape) for each in long_layers) > MAX_EXPLORED_CELLS:
        raise AttnvizError(
            f"the text has {len(trace.tokens):,} tokens, too many to explore in a terminal",
            f"try a shorter text, or: {cmd.run:TEXT -o view.html}",
        )


def replace_trace(subject: Subject, trace: Trace, base: Trace) -> Subject:
    """Return a subject with another trace of the same kind; refuses a long text."""
    refuse_long_text(trace)
    has_other_heads = len(trace.attention_layers) != len(subject.trace.attention_layers)
    assert not has_other_heads, "settings changed the number of layers"
    return Subject(trace, base, _explore(trace))


def _explore(trace: Trace) -> HeadExplorer:
    """Return all heads of a trace, made printable, without a search for the strongest."""
    first = trace.attention_layers[0].layer
    return printable_value(explore_trace(trace, layer=first, head=0))


def _changed_answers_text(
    tokens: Tokens, prediction: Prediction, before: Prediction, position: int
) -> str:
    """Return the likely answers at a position, each with its probability now and before."""
    follows = prediction.predicts == "next"
    best, *others = prediction.best(position, NAMED_ANSWERS)
    likely = [
        answer
        for answer in others
        if float(prediction.probabilities[position, answer]) >= MIN_NAMED_PROBABILITY
    ]
    answers = [_changed_answer(prediction, before, position, each) for each in (best, *likely)]
    opening = f"{'After' if follows else 'At'} {quoted_token(tokens, position)}"
    return f"{opening} the model {'expects' if follows else 'answers'}: {', '.join(answers)}"


def _exchanged_answers_text(tokens: Tokens, prediction: Prediction, before: Prediction) -> str:
    """Return at which positions the answer is another one: `2 of 8 answers change: at 5 ")": …`."""
    changes = []
    for position in prediction.asked_positions:
        now, earlier = (each.answers[each.best(position, 1)[0]] for each in (prediction, before))
        if now != earlier:
            where = f'{position + 1} "{bidi_isolated(tokens.labels[position])}"'
            changes.append(f"at {where}: {bidi_isolated(earlier)} → {bidi_isolated(now)}")
    count = len(prediction.asked_positions)
    if not changes:
        return f"All {count} answers stay the same"
    verb = "changes" if len(changes) == 1 else "change"
    return f"{len(changes)} of {count} answers {verb}: {', '.join(changes)}"


def _changed_answer(prediction: Prediction, before: Prediction, position: int, answer: int) -> str:
    """Return an answer with its probability now, and before: `are 62 % (was 99.9 %)`."""
    probability = float(prediction.probabilities[position, answer])
    now = percent_text(probability)
    earlier = _earlier_probability(prediction, before, position, answer)
    label = bidi_isolated(prediction.answers[answer])
    if earlier is None or abs(earlier - probability) < MIN_CHANGE:
        return f"{label} {now}"
    return f"{label} {now} (was {percent_text(earlier)})"


def _earlier_probability(
    prediction: Prediction, before: Prediction, position: int, answer: int
) -> float | None:
    """Return the probability of the same answer in another prediction; None if it is not kept."""
    known: Mapping[object, int] = {
        (label, each): index for index, (label, each) in enumerate(_identities(before))
    }
    index = known.get(_identities(prediction)[answer])
    return None if index is None else float(before.probabilities[position, index])


def _identities(prediction: Prediction) -> list[tuple[str, int]]:
    """Return what tells the answers of a prediction apart: labels, and ids where there are some."""
    ids = prediction.answer_ids or (0,) * len(prediction.answers)
    return list(zip(prediction.answers, ids, strict=True))
