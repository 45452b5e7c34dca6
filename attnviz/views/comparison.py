"""A Comparison, as what can be shown of it: weights, differences, measures, curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.analysis.aspects import (
    ASPECTS,
    OF_EMBEDDINGS,
    OF_TEXT,
    OF_VECTORS,
    TEXT,
    WITHOUT,
)
from attnviz.analysis.comparison import Alternative, Comparison, restricted
from attnviz.analysis.seeds import REPEATS, Track, repeats_of
from attnviz.analysis.sweeps import Sweep, refuse_without_curves, sweep_of
from attnviz.analysis.texts import place_in_both
from attnviz.cells import Cells
from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Trace
from attnviz.views.comparison_data import data_of_comparison, explored_of_comparison
from attnviz.views.conclusions.conclusion import changes_told, conclusion, title_of
from attnviz.views.conclusions.mistakes import mistakes_told
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.explored import Explored
from attnviz.views.grids.grid import OFF, Grid, same_scale
from attnviz.views.grids.scales import Scale, centred, weight_scale
from attnviz.views.measures import (
    curves_of,
    measures_table,
    name_of,
    rows_of_measures,
    titled,
    tokens_of,
)
from attnviz.views.notes import caveat_of_softmax
from attnviz.views.prediction import answered, answers_of_ways, answers_of_ways_ranked, flips
from attnviz.views.reading import token_axis
from attnviz.views.settings_line import KIND, settings_line
from attnviz.views.view import Excerpt, Group, View, page_of
from attnviz.wording.commands import Command
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import listed

Heads = Sequence[int | None]  # that are shown; None stands for the mean of all

MOST_SUBTRACTED = 6  # panels, in a picture: more stand there without their differences
TITLES = {WITHOUT: "switching heads off"}  # where the name of an aspect is no noun
VARYING = {  # what differs is no setting of the whole
    "scale": ("scale",),
    "variant": ("heads", "scale", "mask"),
    "mask": ("mask", "window"),
    "dim": ("dim", "heads"),
    "heads": ("heads",),
    "temperature": ("temperature",),
    "positions": ("positions",),
    "seed": ("seed",),
    "dtype": ("dtype",),
    "device": ("dtype",),  # the part that names both
    "tokenizer": ("tokens",),
    "text": (),
    "without": (),
}


def view(
    comparison: Comparison,
    *,
    query: int | str | None = None,
    curves: bool = False,
    repeats: int = REPEATS,
    full: bool = False,
    mean: bool = False,
    track: Track = lambda steps: steps,
) -> View:
    """What tells alternatives apart; where these are numbers, curves over seeds, too, or alone.

    Each head is shown, or the `mean` of them, which alone can be compared where one alternative
    has more of them than another.
    """
    if query is not None:
        comparison = restricted(comparison, _place(comparison, str(query)))
    sweep = sweep_of(comparison, repeats, track)
    if curves and sweep is None:
        refuse_without_curves(comparison)
    again = repeats_of(comparison, repeats, track) if sweep is None else None
    line, concluded = _settings_line(comparison), conclusion(comparison, sweep, again)
    screen, picture = _tables(comparison, sweep, mean=mean, full=full) if not curves else ([], [])
    charts, random = _charts(sweep), _caveat(comparison)
    changes = (*mistakes_told(comparison), *changes_told(comparison)) if not curves else ()
    told = (*changes, *_answers_told(comparison))
    headline = title_of(comparison, sweep, again)
    if comparison.by == WITHOUT and (flipped := _flipped(comparison)):
        told, concluded, headline = _answers_told(comparison), flipped, flipped
    # The first slide has what is answered as bars.
    slides = [each for each in screen if each.name != "prediction" or comparison.by != WITHOUT]
    return View(
        title=TITLES.get(comparison.by, f"compared by {comparison.by}"),
        headline=headline,
        settings=line,
        screen=page_of([*screen, charts], line, random),
        picture=page_of([*picture, charts], line, random),
        slides=lambda: Excerpt((*slides, charts), ""),
        closing=(*told, concluded),
        explored=lambda: _explored(comparison, _heads(comparison, mean=mean)),
        data=data_of_comparison(comparison, sweep, again, concluded),
        provenance=comparison.provenance,
        command=_command(comparison, repeats, curves=curves, full=full, mean=mean),
    )


def _explored(comparison: Comparison, heads: Heads) -> Explored:
    return explored_of_comparison(comparison, heads, _mean_note(comparison, heads[0]))


def _ways(comparison: Comparison) -> list[tuple[str, Trace]]:
    """Each way by its name, with the Trace that it has."""
    return [
        (name_of(comparison, each), each.trace)
        for each in comparison.alternatives
        if each.trace is not None
    ]


def _flipped(comparison: Comparison) -> str:
    """What heads that are switched off do to the answer, of a model that answers."""
    ways, base = _ways(comparison), comparison.base.trace
    if base is None or base.prediction is None:
        return ""
    named = [(name.removeprefix("without "), trace) for name, trace in ways]
    return flips(named, base, comparison.query)


def _answers(comparison: Comparison) -> tuple[list[Group], list[Group]]:
    """What is answered in each way, where heads are switched off: as a table, and as bars."""
    ways = _ways(comparison)
    if comparison.by != WITHOUT or any(trace.prediction is None for _, trace in ways):
        return [], []
    table = answers_of_ways(ways, comparison.query)
    if table is None:
        return [], []
    bars = answers_of_ways_ranked(ways, comparison.query)
    return [Group("prediction", (table,))], [Group("prediction", bars)]


def _answers_told(comparison: Comparison) -> tuple[str, ...]:
    """What a model answers in each way; of those in which it answers the same, once."""
    said: dict[str, list[str]] = {}
    for each in comparison.alternatives:
        if each.trace is not None and (told := " ".join(answered(each.trace, comparison.query))):
            said.setdefault(told, []).append(name_of(comparison, each))
    if comparison.by == WITHOUT:  # which each sentence says itself
        return tuple(said)
    return tuple(f"{listed(names)}: {told[:1].lower()}{told[1:]}" for told, names in said.items())


def _tables(
    comparison: Comparison, sweep: Sweep | None, *, mean: bool, full: bool
) -> tuple[list[Group], list[Group]]:
    """What stands before curves: on the screen, and in a picture."""
    heads = _heads(comparison, mean=mean)
    drawn = _in_a_picture(comparison, heads, charts=sweep is not None)
    answers, bars = _answers(comparison)
    if comparison.by == WITHOUT:  # which changes no weight of its own layer
        weights = [grid for grids in weights_of(comparison, heads) for grid in grids]
        # The finding is the answers; in a picture maps that are all alike would be in their way.
        return [*answers, Group("alternatives", tuple(weights))], bars or drawn
    return [*_on_screen(comparison, heads, full=full), *answers], [*drawn, *answers]


def _command(comparison: Comparison, repeats: int, **chosen: bool) -> Command | None:
    """The command that would show the same."""
    if comparison.command is None:
        return None
    query = "" if comparison.query is None else str(comparison.query + 1)
    wanted = {"repeats": 0 if repeats == REPEATS else repeats, "query": query, **chosen}
    return comparison.command.also(**{name: value for name, value in wanted.items() if value})


def _place(comparison: Comparison, query: str) -> int:
    """The row that is meant; where alternatives have other tokens, there may be none."""
    sentences = [each.tokens for each in comparison.alternatives]
    if comparison.by == TEXT:
        return place_in_both(sentences, query)
    if len({tokens.ids for tokens in sentences}) > 1:
        raise AttnvizError(
            "each tokenizer makes its own tokens, but --query names one of them",
            "leave --query out, or --by tokenizer",
        )
    return find_query(comparison.base.tokens, query)


def _heads(comparison: Comparison, *, mean: bool) -> Heads:
    alone = mean or comparison.heads in (None, 1)
    return [None] if alone else [*range(comparison.heads or 1)]


def _charts(sweep: Sweep | None) -> Group:
    return Group("curves", tuple(curves_of(sweep) if sweep else ()))


def _caveat(comparison: Comparison) -> str:
    """What of the weights that are shown is random, in any of the alternatives."""
    traces = (each.trace for each in comparison.alternatives)
    found = (caveat_of_softmax(trace) for trace in traces if trace is not None)
    return next((each for each in found if each), "")


def _on_screen(comparison: Comparison, heads: Heads, *, full: bool) -> list[Group]:
    """The alternatives, then the differences."""
    rows = rows_of_measures(comparison) if full and comparison.query is None else []
    weights, differences = weights_of(comparison, heads), differences_of(comparison, heads)
    return [
        Group("alternatives", tuple(grid for grids in weights for grid in grids)),
        Group("differences", tuple(grid for grids in differences for grid in grids)),
        Group("measures", (measures_table(comparison), *rows)),
    ]


def _in_a_picture(comparison: Comparison, heads: Heads, *, charts: bool) -> list[Group]:
    """Of two alternatives the difference stands beside them, of more below each.

    Of several heads each has a column. With charts, which show what differs, that is enough; and of
    very many panels differences would leave none that can be read.
    """
    weights, differences = weights_of(comparison, heads), differences_of(comparison, heads)
    count = len(weights) * len(heads)
    if comparison.by == WITHOUT or count > (2 if charts else MOST_SUBTRACTED):
        differences = [[] for _ in weights]
    if len(heads) > 1:
        pairs = zip(weights, differences, strict=True)
        table = [grid for both in pairs for grids in both for grid in grids]
        return [Group("alternatives", tuple(table), kind="table", across=len(heads))]
    panels = tuple(grid for grids in weights for grid in grids)
    if len(panels) == 2:
        others = tuple(grid for grids in differences for grid in grids)
        return [Group("alternatives", (*panels, *others), kind="pair")]
    base = name_of(comparison, comparison.base)
    beneath = tuple(
        replace(grids[0], title=f"minus {base}") if grids else None for grids in differences
    )
    return [Group("alternatives", panels, beneath if any(beneath) else (), kind="rows")]


def weights_of(comparison: Comparison, heads: Heads) -> list[list[Grid]]:
    """The weights of each alternative, in each head that is shown."""
    return _of_one_scale(
        [[_weights(comparison, each, head) for head in heads] for each in comparison.alternatives]
    )


def differences_of(comparison: Comparison, heads: Heads) -> list[list[Grid]]:
    """What each reads more or less than the reference: nothing where tokens are not the same."""
    return _of_one_scale(
        [
            [grid for head in heads if (grid := _difference(comparison, place, head))]
            for place in range(len(comparison.alternatives))
        ]
    )


def _of_one_scale(rows: list[list[Grid]]) -> list[list[Grid]]:
    drawn = iter(same_scale([grid for grids in rows for grid in grids]))
    return [[next(drawn) for _ in grids] for grids in rows]


def _settings_line(comparison: Comparison) -> str:
    """What all have in common; and which weights are compared, where there are others."""
    trace = comparison.base.trace
    if trace is None:
        return "the same in all: the scores"
    without = (KIND, *VARYING[comparison.by], "dropout")
    parts = _which_layer(comparison), settings_line(trace, without=without), _before_what(trace)
    fixed = _fixed(ASPECTS[comparison.by].fixed, comparison)
    return " · ".join(part for part in (f"the same in all: {fixed}", *parts) if part)


def _which_layer(comparison: Comparison) -> str:
    """The one whose weights are compared, where there are others."""
    base = comparison.base
    several = base.trace is not None and len(base.trace.layers) > 1
    return f"weights of L{base.number}" if several else ""


def _fixed(what: str, comparison: Comparison) -> str:
    """In place of what is not there: scores that were given, or tokens that are no text.

    What a layer reads that stands on others is not the same, if these do not attend as before.
    """
    trace, number = comparison.base.trace, comparison.base.number
    if trace is None:
        return what
    given = trace.layers[0].given
    if number and what == OF_VECTORS:
        return OF_EMBEDDINGS
    if "scores" in given and what in (OF_VECTORS, OF_EMBEDDINGS):
        return "the scores"
    return "the tokens" if what == OF_TEXT and trace.text is None else what


def _before_what(trace: Trace) -> str:
    """Ways of attending are compared by their softmax, whatever is done to its weights."""
    mixed_by, dropout = trace.layers[0].attended.mixed_by, trace.variant.dropout
    if mixed_by == "hand":
        return "weights of the softmax, before the given ones"
    if mixed_by == "mistake" or not (dropout or "kept" in trace.layers[0].given):
        return ""
    return f"weights before dropout {exact_text(dropout)}" if dropout else "weights before dropout"


def _weights(comparison: Comparison, alternative: Alternative, head: int | None) -> Grid:
    cells = alternative.cells(head)
    is_off = alternative.layer is not None and head in alternative.layer.off
    title = f"{titled(comparison, alternative)}{_of_head(head)}{OFF * is_off}"
    note = " · ".join(part for part in (AXES_NOTE, _mean_note(comparison, head)) if part)
    sides = alternative.tokens, alternative.keys
    grid = _grid(comparison, sides, title, cells, weight_scale(cells), note)
    return replace(grid, off=(True,) * len(grid.rows)) if is_off else grid


def _mean_note(comparison: Comparison, head: int | None) -> str:
    """That heads were averaged, and why where nobody asked for it."""
    if head is not None or comparison.heads == 1:
        return ""
    if comparison.heads is None:
        return "mean of the heads, whose number differs"
    return f"mean of {comparison.heads} heads"


def _of_head(head: int | None) -> str:
    return "" if head is None else f" · head {head}"


def _difference(comparison: Comparison, place: int, head: int | None) -> Grid | None:
    alternative, cells = comparison.alternatives[place], comparison.difference(place, head)
    if cells is None:
        return None
    pair = (titled(comparison, each) for each in (alternative, comparison.base))
    title = f"{' − '.join(pair)}{_of_head(head)}"
    base = name_of(comparison, comparison.base)
    note = f"difference: above 0 = attends more than '{base}', below 0 = attends less"
    scale, tokens = centred("difference", cells), tokens_of(comparison, alternative)
    keys = tokens if alternative.keys is alternative.tokens else alternative.keys
    return _grid(comparison, (tokens, keys), title, cells, scale, note)


def _grid(
    comparison: Comparison,
    sides: tuple[Tokens, Tokens],
    title: str,
    cells: Cells,
    scale: Scale,
    note: str,
) -> Grid:
    """All rows, or the one of the query that is shown alone."""
    grid = Grid(
        title,
        token_axis("query (reads)", sides[0]),
        token_axis("key (is read)", sides[1]),
        cells,
        scale,
        note=note,
        share=True,
    )
    query = comparison.query
    return grid if query is None else grid.part(slice(query, query + 1))
