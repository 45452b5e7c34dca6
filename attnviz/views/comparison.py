"""The View of a Comparison: weights of alternatives, differences, measures, curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from attnviz.analysis.aspects import (
    ABLATION_ASPECT,
    ASPECTS,
    SHARED_EMBEDDINGS,
    SHARED_TEXT,
    SHARED_VECTORS,
    TEXT_ASPECT,
)
from attnviz.analysis.comparison import Comparison, find_in_both
from attnviz.analysis.seeds import (
    DEFAULT_REPEATS,
    SeedTracker,
    Sweep,
    measure_repeats,
    refuse_without_curves,
    sweep_comparison,
)
from attnviz.errors import AttnvizError, opt
from attnviz.traces.trace import Trace
from attnviz.vectors.positions import alibi_slopes
from attnviz.views.answer_tables import (
    answer_flips_finding,
    answer_sentences,
    ways_answer_bars,
    ways_answers_grid,
)
from attnviz.views.compared_heads import (
    ComparedHeads,
    compared_heads,
    compared_map_groups,
    compared_row_groups,
)
from attnviz.views.comparison_data import (
    build_comparison_data,
    build_long_comparison_data,
    explore_comparison,
)
from attnviz.views.conclusions.conclusion import (
    AspectFacts,
    conclusion,
    largest_change_sentences,
    long_conclusion,
)
from attnviz.views.conclusions.mistake_findings import mistake_notes
from attnviz.views.drawing_ways import refuse_logarithm
from attnviz.views.measure_tables import (
    alternative_name,
    measures_by_query,
    measures_table,
    scaling_name,
    sweep_curves,
)
from attnviz.views.notes import softmax_caveat
from attnviz.views.settings_line import ATTENTION_PART, settings_line
from attnviz.views.view import Excerpt, Group, TableData, View, build_page
from attnviz.wording.commands import Command
from attnviz.wording.numbers import exact_text, smallest_fixed_value
from attnviz.wording.words import and_list

MAX_DIFFERENCE_PANELS = 4  # a picture of more panels has no differences
HALF_DTYPES = {"bfloat16", "float16"}
HALF_PRECISION_NOTE = (
    "half precision rounds queries, keys and values here; their softmax is computed in 32 bits"
)
COMPARISON_TITLES = {ABLATION_ASPECT: "switching heads off"}  # for aspects that are not nouns
VARYING_SETTINGS = {  # for each aspect, the settings that differ and that the line leaves out
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


@dataclass(frozen=True, eq=False)
class Contents:
    """What a comparison says and shows."""

    headline: str
    screen: list[Group]
    picture: list[Group]
    closing: tuple[str, ...]
    data: TableData
    slides: Callable[[], Excerpt] | None = None


def view(
    comparison: Comparison,
    *,
    query: int | str | None = None,
    curves: bool = False,
    repeats: int = DEFAULT_REPEATS,
    full: bool = False,
    mean: bool = False,
    log: bool = False,
    track: SeedTracker = lambda steps: steps,
) -> View:
    """Return the View of a Comparison: how its alternatives (`none`, `causal`, …) differ in weights
    and measures; for values that are numbers it adds curves over seeds.

    `query` (a word, or a position from 0) keeps the row of one token only; `curves` shows only the
    curves and is refused where there are none; `full` adds measures for each query; `mean` shows
    the mean of the heads instead of each head, as do alternatives whose numbers of heads differ.
    `repeats` is the number of seeds; `track` wraps the loop over seeds to show progress. `log`
    colours the maps of a long text by logarithm, and is refused for other texts.
    """
    if comparison.is_long:
        _refuse_curves(curves=curves)
        repeats, full = DEFAULT_REPEATS, False  # of a long text, the numbers of one seed are shown
    else:
        refuse_logarithm(log=log)
    if query is not None:
        comparison = replace(comparison, query=_query_row(comparison, query))
    heads = compared_heads(comparison, mean=mean, log=log)
    if comparison.is_long:
        contents = _long_text_contents(heads)
    else:
        contents = _matrix_contents(heads, repeats, track, curves=curves, full=full)
    line, caveat = common_settings_line(comparison, curves=curves), _comparison_caveat(comparison)
    flags = {"curves": curves, "full": full, "mean": mean, "log": log}
    return View(
        title=COMPARISON_TITLES.get(comparison.by, f"compared by {comparison.by}"),
        headline=contents.headline,
        settings=line,
        screen=build_page(contents.screen, line, caveat),
        picture=build_page(contents.picture, line, caveat),
        slides=contents.slides,
        closing=contents.closing,
        head_explorer=lambda: explore_comparison(heads),
        data=contents.data,
        provenance=comparison.provenance,
        command=_comparison_command(comparison, repeats, flags),
    )


def _refuse_curves(*, curves: bool) -> None:
    if curves:
        raise AttnvizError(
            "curves are drawn over many seeds, and each needs all weights of the text in memory",
            f"leave {opt.curves} out, or give a shorter text",
            about="curves",
        )


def _matrix_contents(
    heads: ComparedHeads, repeats: int, track: SeedTracker, *, curves: bool, full: bool
) -> Contents:
    """Return what a comparison of matrices says and shows: measures, and numbers over seeds."""
    comparison = heads.comparison
    sweep = sweep_comparison(comparison, repeats, track)
    if curves and sweep is None:
        refuse_without_curves(comparison)
    repeated = measure_repeats(comparison, repeats, track) if sweep is None else None
    finding = conclusion(comparison, sweep, repeated)
    screen, picture = _way_tables(heads, sweep, full=full) if not curves else ([], [])
    charts = Group("curves", tuple(sweep_curves(sweep, comparison) if sweep else ()))
    changes = () if curves else (*mistake_notes(comparison), *largest_change_sentences(comparison))
    closing_sentences = (*changes, *_answer_sentences(comparison))
    headline = conclusion(comparison, sweep, repeated, is_title=True)
    if comparison.by == ABLATION_ASPECT and (answer_finding := _answer_changes_finding(comparison)):
        closing_sentences = _answer_sentences(comparison)
        finding = headline = answer_finding
    # The first slide shows the answers as bars.
    hidden_group = "prediction" if comparison.by == ABLATION_ASPECT else None
    slides = [group for group in screen if group.name != hidden_group]
    return Contents(
        headline=headline,
        screen=[*screen, charts],
        picture=picture if _maps_suffice(comparison) and picture else [*picture, charts],
        closing=(*closing_sentences, finding),
        data=build_comparison_data(comparison, sweep, repeated, finding),
        slides=lambda: Excerpt((*slides, charts), ""),
    )


def _long_text_contents(heads: ComparedHeads) -> Contents:
    """Return what is said and shown of maps of blocks, or of the exact row of one token."""
    comparison = heads.comparison
    finding = long_conclusion(comparison)
    panel_groups = compared_map_groups if comparison.query is None else compared_row_groups
    screen, picture = panel_groups(heads)
    closing = (*largest_change_sentences(comparison), *_precision_notes(comparison))
    return Contents(finding, screen, picture, closing, build_long_comparison_data(heads, finding))


def _precision_notes(comparison: Comparison) -> tuple[str, ...]:
    """Return what half precision means here, where dtypes are compared and one is."""
    traces = [trace for _, trace in _named_traces(comparison)]
    is_half = comparison.by == "dtype" and HALF_DTYPES & {each.provenance.dtype for each in traces}
    return (HALF_PRECISION_NOTE,) if is_half else ()


def _named_traces(comparison: Comparison) -> list[tuple[str, Trace]]:
    """Return the displayed name and the Trace of each compared alternative that has a Trace."""
    return [
        (alternative_name(comparison, alternative), alternative.trace)
        for alternative in comparison.alternatives
        if alternative.trace is not None
    ]


def _answer_changes_finding(comparison: Comparison) -> str:
    """Return a sentence on how switching heads off changes the model's answer; empty for a model
    without answers.
    """
    ways, base = _named_traces(comparison), comparison.base.trace
    if base is None or base.prediction is None:
        return ""
    named_traces = [(name.removeprefix("without "), trace) for name, trace in ways]
    return answer_flips_finding(named_traces, base, comparison.query)


def _answer_groups(comparison: Comparison) -> tuple[list[Group], list[Group]]:
    """Return what the model answers with heads switched off, as groups for the screen (a table) and
    for a picture (bars).

    Both are empty for models without answers, and where several positions ask for an answer.
    """
    ways = _named_traces(comparison)
    has_answers = all(trace.prediction is not None for _, trace in ways)
    table = ways_answers_grid(ways, comparison.query) if has_answers else None
    if table is None:
        return [], []
    bars = ways_answer_bars(ways, comparison.query)
    return [Group("prediction", (table,))], [Group("prediction", bars)]


def _answer_sentences(comparison: Comparison) -> tuple[str, ...]:
    """Return sentences on what the model answers in each compared alternative; those with the same
    answer share a sentence.
    """
    names_by_answer: dict[str, list[str]] = {}
    for name, trace in _named_traces(comparison):
        if answer_text := " ".join(answer_sentences(trace, comparison.query)):
            names_by_answer.setdefault(answer_text, []).append(name)
    if comparison.by == ABLATION_ASPECT:  # whose sentences name the heads themselves
        return tuple(names_by_answer)
    return tuple(
        f"{and_list(names)}: {answer_text[:1].lower()}{answer_text[1:]}"
        for answer_text, names in names_by_answer.items()
    )


def _way_tables(
    heads: ComparedHeads, sweep: Sweep | None, *, full: bool
) -> tuple[list[Group], list[Group]]:
    """Return the groups that precede the curves: those of the screen and those of a picture.

    Where heads are switched off, the answers come first, weights have no differences, and a picture
    shows only the answers, or the weights if there are none.
    """
    picture_groups = _comparison_picture(heads, charts=sweep is not None)
    if heads.comparison.by == ABLATION_ASPECT:  # which changes no weights in its own layer
        answers, bars = _answer_groups(heads.comparison)
        weights = Group("alternatives", heads.in_order(heads.weights))
        # The answers are the finding, and the maps are all alike: a picture leaves them out.
        return [*answers, weights], bars or picture_groups
    return _comparison_screen(heads, full=full), picture_groups


def _comparison_command(
    comparison: Comparison, repeats: int, flags: Mapping[str, bool]
) -> Command | None:
    """Return the Command that reproduces this view, with `repeats` and `flags` only where they are
    not the default; None where the Comparison has no command.
    """
    if comparison.command is None:
        return None
    row = comparison.query
    query = "" if row is None else comparison.base.tokens.as_typed(row)
    repeats = 0 if repeats == DEFAULT_REPEATS else repeats
    options = {"repeats": repeats, "query": query, **flags}.items()
    return comparison.command.with_options(**{name: value for name, value in options if value})


def _query_row(comparison: Comparison, query: int | str) -> int:
    """Return the index from 0 of the token that `query` names by word or position.

    Refuses tokens that differ between tokenizers, and in two sentences a word at different
    positions.
    """
    sentences = [alternative.tokens for alternative in comparison.alternatives]
    if comparison.by == TEXT_ASPECT:
        return find_in_both(sentences, query)
    if len({tokens.ids for tokens in sentences}) > 1:
        raise AttnvizError(
            f"each tokenizer makes its own tokens, but {opt.query} names one of them",
            f"leave {opt.query} out, or {opt.by:tokenizer}",
        )
    return comparison.base.tokens.index(query, "query")


def _comparison_caveat(comparison: Comparison) -> str:
    """Return a note on what is random in the weights of the first alternative with random weights;
    empty if nothing is random in any.
    """
    traces = (text.trace for text in comparison.alternatives)
    caveats = (softmax_caveat(trace) for trace in traces if trace is not None)
    return next((text for text in caveats if text), "")


def _comparison_screen(heads: ComparedHeads, *, full: bool) -> list[Group]:
    """Return the groups for a screen: the weights of each alternative, their differences from the
    reference, and measures (with `full`, also for each query unless one is selected).
    """
    comparison = heads.comparison
    rows = measures_by_query(comparison) if full and comparison.query is None else []
    return [
        Group("alternatives", heads.in_order(heads.weights)),
        Group("differences", heads.in_order(heads.differences)),
        Group("measures", (measures_table(comparison), *rows)),
    ]


def _comparison_picture(heads: ComparedHeads, *, charts: bool) -> list[Group]:
    """Return the groups of a picture: weights, with differences beside two alternatives or below
    each of more than two; several heads have a column each.

    Differences are left out where heads are switched off and where there are more than
    MAX_DIFFERENCE_PANELS panels of weights, or more than two if `charts` (curves) are drawn too.
    """
    comparison, differences = heads.comparison, heads.differences
    facts = AspectFacts(comparison, None)
    weights = [
        [replace(grid, marks=facts.twin_rows * (way is facts.without_positions)) for grid in grids]
        for way, grids in zip(comparison.alternatives, heads.weights, strict=True)
    ]
    count = len(weights) * len(heads.numbers)
    if comparison.by == ABLATION_ASPECT or count > (2 if charts else MAX_DIFFERENCE_PANELS):
        differences = [[] for _ in weights]
    if len(heads.numbers) > 1:
        pairs = zip(weights, differences, strict=True)
        table = tuple(grid for pair in pairs for grids in pair for grid in grids)
        return [Group("alternatives", table, kind="table", column_count=len(heads.numbers))]
    panels = tuple(chain.from_iterable(weights))
    if charts and not _maps_suffice(comparison):
        scaling = scaling_name(comparison)
        panels = tuple(replace(panel, title=f"{panel.title}, {scaling}") for panel in panels)
    if len(panels) == 2:
        panels = (*panels, *chain.from_iterable(differences))
        return [Group("alternatives", panels, kind="pair")]
    title = f"minus {alternative_name(comparison, comparison.base)}"
    below = tuple(replace(grids[0], title=title) if grids else None for grids in differences)
    panels = tuple(
        replace(panel, note=f"{panel.note}{_alibi_note(comparison, index)}")
        for index, panel in enumerate(panels)
    )
    return [Group("alternatives", panels, below if any(below) else (), kind="rows")]


def _maps_suffice(comparison: Comparison) -> bool:
    """Whether the maps of one seed show what the title says: a picture then needs no curves."""
    return comparison.by == "temperature" and comparison.query is None and not comparison.is_long


def _alibi_note(comparison: Comparison, index: int) -> str:
    """Return why ALiBi reads as no positions do, as the end of a note; empty where it does not."""
    alternative, base = comparison.alternatives[index], comparison.base.name
    if (alternative.name, base) != ("alibi", "none") or alternative.layer is None:
        return ""
    if comparison.difference(index, None).reach >= smallest_fixed_value(2):
        return ""
    slope = exact_text(round(max(alibi_slopes(alternative.layer.heads)), 4))
    return f" · alibi ≈ none: it takes only {slope} off a score for each token of distance"


def common_settings_line(comparison: Comparison, *, curves: bool = False) -> str:
    """Return the line of the settings that all alternatives share, without the setting compared,
    and which weights are compared. `curves`: they alone are shown, scaled and unscaled.
    """
    trace = comparison.base.trace
    if trace is None:
        return "the same in all: the scores"
    without = [ATTENTION_PART, *VARYING_SETTINGS[comparison.by], "dropout"]
    if curves and comparison.by != "temperature":
        without.append("scale")
    parts = (
        f"the same in all: {_fixed_aspect_text(ASPECTS[comparison.by].shared_parts, comparison)}",
        f"weights of L{comparison.base.number}" if len(trace.layers) > 1 else "",
        settings_line(trace, without=without),
        _weights_stage_text(trace),
    )
    return " · ".join(filter(None, parts))


def _fixed_aspect_text(aspect_text: str, comparison: Comparison) -> str:
    """Return what all alternatives share, from the `aspect_text` of the compared setting, reworded
    where scores or tokens without a text are given.

    Above the first layer only the embeddings are shared: the inputs depend on the attention below.
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
    """Return a remark that the compared weights are those before dropout or before given weights
    replace them; empty where neither applies.
    """
    mixed_by, dropout = trace.layers[0].attended.mixed_by, trace.variant.dropout
    if mixed_by == "hand":
        return "weights of the softmax, before the given ones"
    if mixed_by == "mistake" or not (dropout or "kept" in trace.layers[0].given):
        return ""
    return f"weights before dropout {exact_text(dropout)}" if dropout else "weights before dropout"
