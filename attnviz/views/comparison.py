"""A Comparison, as what can be shown of it: weights, differences, measures, curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.analysis.aspects import (
    ABLATION_ASPECT,
    ASPECTS,
    SHARED_EMBEDDINGS,
    SHARED_TEXT,
    SHARED_VECTORS,
    TEXT_ASPECT,
)
from attnviz.analysis.comparison import Alternative, Comparison, restrict_to_query
from attnviz.analysis.second_sentence import find_in_both
from attnviz.analysis.seeds import DEFAULT_REPEATS, SeedTracker, measure_repeats
from attnviz.analysis.sweeps import Sweep, refuse_without_curves, sweep_comparison
from attnviz.cells import Cells
from attnviz.errors import AttnvizError
from attnviz.tokens.token_lookup import find_query
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trace import Trace
from attnviz.views.comparison_data import build_comparison_data, explore_comparison
from attnviz.views.conclusions.conclusion import (
    comparison_title,
    conclusion,
    largest_change_sentences,
)
from attnviz.views.conclusions.mistakes import mistake_notes
from attnviz.views.grids.axes import AXES_NOTE
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.grids.grid import OFF_SUFFIX, Grid, with_common_scales
from attnviz.views.grids.scales import Scale, centred_scale, weight_scale
from attnviz.views.measures import (
    alternative_name,
    alternative_title,
    compared_tokens,
    measures_by_query,
    measures_table,
    sweep_curves,
)
from attnviz.views.notes import softmax_caveat
from attnviz.views.prediction import (
    answer_flips_finding,
    answer_sentences,
    ways_answer_bars,
    ways_answers_grid,
)
from attnviz.views.reading import token_axis
from attnviz.views.settings_line import ATTENTION_PART, settings_line
from attnviz.views.view import Excerpt, Group, View, build_page
from attnviz.wording.commands import Command
from attnviz.wording.numbers import exact_text
from attnviz.wording.words import and_list

ShownHeads = Sequence[int | None]  # that are shown; None stands for the mean of all

MAX_DIFFERENCE_PANELS = 6  # panels, in a picture: more stand there without their differences
COMPARISON_TITLES = {
    ABLATION_ASPECT: "switching heads off"
}  # where the name of an aspect is no noun
VARYING_SETTINGS = {  # what differs is no setting of the whole
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
    repeats: int = DEFAULT_REPEATS,
    full: bool = False,
    mean: bool = False,
    track: SeedTracker = lambda steps: steps,
) -> View:
    """What tells alternatives apart; where these are numbers, curves over seeds, too, or alone.

    Each head is shown, or the `mean` of them, which alone can be compared where one alternative
    has more of them than another.
    """
    if query is not None:
        comparison = restrict_to_query(comparison, _query_row(comparison, str(query)))
    sweep = sweep_comparison(comparison, repeats, track)
    if curves and sweep is None:
        refuse_without_curves(comparison)
    repeated = measure_repeats(comparison, repeats, track) if sweep is None else None
    line, finding = _common_settings_line(comparison), conclusion(comparison, sweep, repeated)
    screen, picture = (
        _comparison_tables(comparison, sweep, mean=mean, full=full) if not curves else ([], [])
    )
    charts, random_caveat = _sweep_charts(sweep), _comparison_caveat(comparison)
    changes = (
        (*mistake_notes(comparison), *largest_change_sentences(comparison)) if not curves else ()
    )
    closing_sentences = (*changes, *_answer_sentences(comparison))
    headline = comparison_title(comparison, sweep, repeated)
    if comparison.by == ABLATION_ASPECT and (answer_finding := _answer_changes_finding(comparison)):
        closing_sentences, finding, headline = (
            _answer_sentences(comparison),
            answer_finding,
            answer_finding,
        )
    # The first slide has what is answered as bars.
    slides = [
        group for group in screen if group.name != "prediction" or comparison.by != ABLATION_ASPECT
    ]
    return View(
        title=COMPARISON_TITLES.get(comparison.by, f"compared by {comparison.by}"),
        headline=headline,
        settings=line,
        screen=build_page([*screen, charts], line, random_caveat),
        picture=build_page([*picture, charts], line, random_caveat),
        slides=lambda: Excerpt((*slides, charts), ""),
        closing=(*closing_sentences, finding),
        explored=lambda: _explore_comparison(comparison, _compared_heads(comparison, mean=mean)),
        data=build_comparison_data(comparison, sweep, repeated, finding),
        provenance=comparison.provenance,
        command=_comparison_command(comparison, repeats, curves=curves, full=full, mean=mean),
    )


def _explore_comparison(comparison: Comparison, heads: ShownHeads) -> HeadExplorer:
    return explore_comparison(comparison, heads, _averaged_heads_note(comparison, heads[0]))


def _named_traces(comparison: Comparison) -> list[tuple[str, Trace]]:
    """Each way by its name, with the Trace that it has."""
    return [
        (alternative_name(comparison, alternative), alternative.trace)
        for alternative in comparison.alternatives
        if alternative.trace is not None
    ]


def _answer_changes_finding(comparison: Comparison) -> str:
    """What heads that are switched off do to the answer, of a model that answers."""
    ways, base = _named_traces(comparison), comparison.base.trace
    if base is None or base.prediction is None:
        return ""
    named_traces = [(name.removeprefix("without "), trace) for name, trace in ways]
    return answer_flips_finding(named_traces, base, comparison.query)


def _answer_groups(comparison: Comparison) -> tuple[list[Group], list[Group]]:
    """What is answered in each way, where heads are switched off: as a table, and as bars."""
    ways = _named_traces(comparison)
    if comparison.by != ABLATION_ASPECT or any(trace.prediction is None for _, trace in ways):
        return [], []
    table = ways_answers_grid(ways, comparison.query)
    if table is None:
        return [], []
    bars = ways_answer_bars(ways, comparison.query)
    return [Group("prediction", (table,))], [Group("prediction", bars)]


def _answer_sentences(comparison: Comparison) -> tuple[str, ...]:
    """What a model answers in each way; of those in which it answers the same, once."""
    names_by_answer: dict[str, list[str]] = {}
    for alternative in comparison.alternatives:
        if alternative.trace is not None and (
            answer_text := " ".join(answer_sentences(alternative.trace, comparison.query))
        ):
            names_by_answer.setdefault(answer_text, []).append(
                alternative_name(comparison, alternative)
            )
    if comparison.by == ABLATION_ASPECT:  # which each sentence says itself
        return tuple(names_by_answer)
    return tuple(
        f"{and_list(names)}: {answer_text[:1].lower()}{answer_text[1:]}"
        for answer_text, names in names_by_answer.items()
    )


def _comparison_tables(
    comparison: Comparison, sweep: Sweep | None, *, mean: bool, full: bool
) -> tuple[list[Group], list[Group]]:
    """What stands before curves: on the screen, and in a picture."""
    heads = _compared_heads(comparison, mean=mean)
    picture_groups = _comparison_picture(comparison, heads, charts=sweep is not None)
    answers, bars = _answer_groups(comparison)
    if comparison.by == ABLATION_ASPECT:  # which changes no weight of its own layer
        weights = [grid for grids in weights_by_alternative(comparison, heads) for grid in grids]
        # The finding is the answers; in a picture maps that are all alike would be in their way.
        return [*answers, Group("alternatives", tuple(weights))], bars or picture_groups
    return [*_comparison_screen(comparison, heads, full=full), *answers], [
        *picture_groups,
        *answers,
    ]


def _comparison_command(comparison: Comparison, repeats: int, **flags: bool) -> Command | None:
    """The command that would show the same."""
    if comparison.command is None:
        return None
    query = "" if comparison.query is None else str(comparison.query + 1)
    extra_options = {
        "repeats": 0 if repeats == DEFAULT_REPEATS else repeats,
        "query": query,
        **flags,
    }
    return comparison.command.with_options(
        **{name: value for name, value in extra_options.items() if value}
    )


def _query_row(comparison: Comparison, query: str) -> int:
    """The row that is meant; where alternatives have other tokens, there may be none."""
    sentences = [alternative.tokens for alternative in comparison.alternatives]
    if comparison.by == TEXT_ASPECT:
        return find_in_both(sentences, query)
    if len({tokens.ids for tokens in sentences}) > 1:
        raise AttnvizError(
            "each tokenizer makes its own tokens, but --query names one of them",
            "leave --query out, or --by tokenizer",
        )
    return find_query(comparison.base.tokens, query)


def _compared_heads(comparison: Comparison, *, mean: bool) -> ShownHeads:
    is_single = mean or comparison.heads in (None, 1)
    return [None] if is_single else [*range(comparison.heads or 1)]


def _sweep_charts(sweep: Sweep | None) -> Group:
    return Group("curves", tuple(sweep_curves(sweep) if sweep else ()))


def _comparison_caveat(comparison: Comparison) -> str:
    """What of the weights that are shown is random, in any of the alternatives."""
    traces = (text.trace for text in comparison.alternatives)
    caveats = (softmax_caveat(trace) for trace in traces if trace is not None)
    return next((text for text in caveats if text), "")


def _comparison_screen(comparison: Comparison, heads: ShownHeads, *, full: bool) -> list[Group]:
    """The alternatives, then the differences."""
    rows = measures_by_query(comparison) if full and comparison.query is None else []
    weights, differences = (
        weights_by_alternative(comparison, heads),
        differences_by_alternative(comparison, heads),
    )
    return [
        Group("alternatives", tuple(grid for grids in weights for grid in grids)),
        Group("differences", tuple(grid for grids in differences for grid in grids)),
        Group("measures", (measures_table(comparison), *rows)),
    ]


def _comparison_picture(comparison: Comparison, heads: ShownHeads, *, charts: bool) -> list[Group]:
    """Of two alternatives the difference stands beside them, of more below each.

    Of several heads each has a column. With charts, which show what differs, that is enough; and of
    very many panels differences would leave none that can be read.
    """
    weights, differences = (
        weights_by_alternative(comparison, heads),
        differences_by_alternative(comparison, heads),
    )
    count = len(weights) * len(heads)
    if comparison.by == ABLATION_ASPECT or count > (2 if charts else MAX_DIFFERENCE_PANELS):
        differences = [[] for _ in weights]
    if len(heads) > 1:
        pairs = zip(weights, differences, strict=True)
        table = [grid for pair in pairs for grids in pair for grid in grids]
        return [Group("alternatives", tuple(table), kind="table", column_count=len(heads))]
    panels = tuple(grid for grids in weights for grid in grids)
    if len(panels) == 2:
        difference_panels = tuple(grid for grids in differences for grid in grids)
        return [Group("alternatives", (*panels, *difference_panels), kind="pair")]
    base = alternative_name(comparison, comparison.base)
    difference_rows = tuple(
        replace(grids[0], title=f"minus {base}") if grids else None for grids in differences
    )
    return [
        Group("alternatives", panels, difference_rows if any(difference_rows) else (), kind="rows")
    ]


def weights_by_alternative(comparison: Comparison, heads: ShownHeads) -> list[list[Grid]]:
    """The weights of each alternative, in each head that is shown."""
    return _rows_with_common_scale(
        [
            [_alternative_weights_grid(comparison, alternative, head) for head in heads]
            for alternative in comparison.alternatives
        ]
    )


def differences_by_alternative(comparison: Comparison, heads: ShownHeads) -> list[list[Grid]]:
    """What each reads more or less than the reference: nothing where tokens are not the same."""
    return _rows_with_common_scale(
        [
            [grid for head in heads if (grid := _difference_grid(comparison, index, head))]
            for index in range(len(comparison.alternatives))
        ]
    )


def _rows_with_common_scale(rows: list[list[Grid]]) -> list[list[Grid]]:
    scaled_grids = iter(with_common_scales([grid for grids in rows for grid in grids]))
    return [[next(scaled_grids) for _ in grids] for grids in rows]


def _common_settings_line(comparison: Comparison) -> str:
    """What all have in common; and which weights are compared, where there are others."""
    trace = comparison.base.trace
    if trace is None:
        return "the same in all: the scores"
    without = (ATTENTION_PART, *VARYING_SETTINGS[comparison.by], "dropout")
    parts = (
        _compared_layer_text(comparison),
        settings_line(trace, without=without),
        _weights_stage_text(trace),
    )
    fixed = _fixed_aspect_text(ASPECTS[comparison.by].fixed, comparison)
    return " · ".join(part for part in (f"the same in all: {fixed}", *parts) if part)


def _compared_layer_text(comparison: Comparison) -> str:
    """The one whose weights are compared, where there are others."""
    base = comparison.base
    several = base.trace is not None and len(base.trace.layers) > 1
    return f"weights of L{base.number}" if several else ""


def _fixed_aspect_text(aspect_text: str, comparison: Comparison) -> str:
    """In place of what is not there: scores that were given, or tokens that are no text.

    What a layer reads that stands on others is not the same, if these do not attend as before.
    """
    trace, number = comparison.base.trace, comparison.base.number
    if trace is None:
        return aspect_text
    given_parts = trace.layers[0].given
    if number and aspect_text == SHARED_VECTORS:
        return SHARED_EMBEDDINGS
    if "scores" in given_parts and aspect_text in (SHARED_VECTORS, SHARED_EMBEDDINGS):
        return "the scores"
    return "the tokens" if aspect_text == SHARED_TEXT and trace.text is None else aspect_text


def _weights_stage_text(trace: Trace) -> str:
    """Ways of attending are compared by their softmax, whatever is done to its weights."""
    mixed_by, dropout = trace.layers[0].attended.mixed_by, trace.variant.dropout
    if mixed_by == "hand":
        return "weights of the softmax, before the given ones"
    if mixed_by == "mistake" or not (dropout or "kept" in trace.layers[0].given):
        return ""
    return f"weights before dropout {exact_text(dropout)}" if dropout else "weights before dropout"


def _alternative_weights_grid(
    comparison: Comparison, alternative: Alternative, head: int | None
) -> Grid:
    cells = alternative.cells(head)
    is_off = alternative.layer is not None and head in alternative.layer.off
    title = f"{alternative_title(comparison, alternative)}{_head_suffix(head)}{OFF_SUFFIX * is_off}"
    note = " · ".join(part for part in (AXES_NOTE, _averaged_heads_note(comparison, head)) if part)
    token_sides = alternative.tokens, alternative.keys
    grid = _comparison_grid(comparison, token_sides, title, cells, weight_scale(cells), note)
    return replace(grid, off=(True,) * len(grid.rows)) if is_off else grid


def _averaged_heads_note(comparison: Comparison, head: int | None) -> str:
    """That heads were averaged, and why where nobody asked for it."""
    if head is not None or comparison.heads == 1:
        return ""
    if comparison.heads is None:
        return "mean of the heads, whose number differs"
    return f"mean of {comparison.heads} heads"


def _head_suffix(head: int | None) -> str:
    return "" if head is None else f" · head {head}"


def _difference_grid(comparison: Comparison, index: int, head: int | None) -> Grid | None:
    alternative, cells = comparison.alternatives[index], comparison.difference(index, head)
    if cells is None:
        return None
    pair = (
        alternative_title(comparison, alternative_of_pair)
        for alternative_of_pair in (alternative, comparison.base)
    )
    title = f"{' − '.join(pair)}{_head_suffix(head)}"
    base = alternative_name(comparison, comparison.base)
    note = f"difference: above 0 = attends more than '{base}', below 0 = attends less"
    scale, tokens = centred_scale("difference", cells), compared_tokens(comparison, alternative)
    keys = tokens if alternative.keys is alternative.tokens else alternative.keys
    return _comparison_grid(comparison, (tokens, keys), title, cells, scale, note)


def _comparison_grid(
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
