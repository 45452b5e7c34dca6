"""The View of an Inspection: which parts, in which order, on which slides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.token_query import (
    TokenQuery,
    build_link,
    build_token_query,
    command_options,
)
from attnviz.traces.inputs import build_source, source_command
from attnviz.views.answer_tables import best_answers_grid
from attnviz.views.conclusions.findings import choose_sentence
from attnviz.views.grids.explorer import HeadExplorer
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.section import Drawable
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.headline import attention_headline
from attnviz.views.heads.findings import blind_queries_notes, part_finding, share_notes
from attnviz.views.heads.sentences import side_text
from attnviz.views.inspection import long_heads
from attnviz.views.inspection.explored import explored_of_inspection
from attnviz.views.inspection.generated import generation_film
from attnviz.views.inspection.head_kinds import (
    flag_indices,
    head_flags,
    head_kind_sentences,
    head_kind_title,
    heads_table,
)
from attnviz.views.inspection.heatmap import heads_overview, heatmaps, weighing_sentences
from attnviz.views.inspection.inspection_data import (
    all_heads_data,
    link_data,
    maps_data,
    reading_data,
)
from attnviz.views.inspection.link_sentences import (
    left_out_caption,
    left_out_sentences,
    link_ranking_sentences,
    link_sentence,
    reading_title,
    rollout_title,
    sink_sentences,
    weak_link_sentences,
)
from attnviz.views.inspection.token_reading import link_parts, reading_parts
from attnviz.views.long_text import MORE_HINT
from attnviz.views.notes import closing_notes, heads_off_suffix
from attnviz.views.reading import arcs_groups
from attnviz.views.settings_line import ATTENTION_PART, settings_line
from attnviz.views.view import (
    FINDINGS_GROUP,
    Excerpt,
    Group,
    PanelTitle,
    Shot,
    TableData,
    View,
    build_page,
)
from attnviz.wording.commands import Command
from attnviz.wording.surfaces import in_words, opt
from attnviz.wording.words import as_sentence

ROLLOUT_OPENING = "In the rollout, "  # of every headline about a rollout
MAX_SCREEN_TOKENS = 100  # longer sentences are not coloured on the screen beside ranked heads
MAX_HEADS_WITH_SLIDES = 16  # of more heads only the strongest of each kind get a slide
MORE_SLIDES_HINT = f"{opt.layer:0}, or {opt.head:0}, makes a slide for each of its heads"


@dataclass(frozen=True, eq=False)
class ShownInspection:
    """The groups, sentences and data of an Inspection that a View is built from."""

    groups: tuple[Group, ...]
    data: TableData
    headline: str = ""
    closing: tuple[str, ...] = ()
    excerpt: Excerpt | None = None
    picture: tuple[Group, ...] = ()  # empty if a picture shows all groups
    caption: str = ""  # below a picture: notes on results that it does not draw
    slides: Callable[[], Excerpt] | None = None  # None if every group gets slides

    @property
    def picture_groups(self) -> list[Group]:
        """The groups of panels in the picture, without titles that repeat the headline."""
        return [
            _without_repeated_titles(group, self.headline) for group in self.picture or self.groups
        ]


def view(inspection: Inspection, *, command: Command | None = None) -> View:
    """Return the View of an Inspection: effects, a link, a query, all heads or some maps in full.

    `command` is the command of the View; without it, one that reproduces the Inspection, if any
    does.
    """
    trace = inspection.trace
    title = attention_headline(trace)
    content = _with_arcs(_show_inspection(inspection), inspection, command)
    content = _with_output_tables(content, inspection)
    settings_text = settings_line(trace, () if content.headline else (ATTENTION_PART,))
    caption = " · ".join(filter(None, (content.caption, left_out_caption(inspection))))
    notes = [
        *weighing_sentences(inspection),
        *closing_notes(trace, names=("given weights", "generated text", "heads off")),
        *output_notes(inspection),
    ]
    return View(
        title=title,
        headline=content.headline or title,
        settings=settings_text,
        screen=build_page(content.groups, settings_text),
        picture=build_page(content.picture_groups, settings_text, caption),
        excerpt=content.excerpt,
        closing=(*content.closing, *map(as_sentence, notes)),
        head_explorer=partial(_explored, inspection),
        film=partial(_film, inspection),
        slides=content.slides,
        data=content.data,
        provenance=trace.provenance,
        command=command or _inspect_command(inspection),
    )


def _explored(inspection: Inspection) -> HeadExplorer:
    if inspection.options.segments is not None:
        from attnviz.views.inspection.segment_views import explore_segments

        return explore_segments(inspection.segments)
    is_long = long_heads.is_long(inspection)
    return (long_heads.explore_long_heads if is_long else explored_of_inspection)(inspection)


def _film(inspection: Inspection) -> tuple[Shot, ...]:
    if inspection.options.segments is not None:
        from attnviz.views.inspection.segment_views import segment_film

        return segment_film(inspection.segments)
    return generation_film(inspection)


def _inspect_command(inspection: Inspection) -> Command | None:
    """Return the command that shows this Inspection; None if no command makes its trace, or with a
    function as metric, or segments that no option can name."""
    if inspection.metric is not None or isinstance(inspection.options.segments, Mapping):
        return None
    command = source_command("inspect", build_source(inspection.trace))
    return command and command.with_options(**command_options(inspection.trace, inspection.options))


def _without_repeated_titles(group: Group, headline: str) -> Group:
    """Return the group, its panels without titles that equal the headline.

    If the headline is about a rollout, an only panel loses its title, too.
    """
    is_only_rollout = headline.startswith(ROLLOUT_OPENING) and len(group.panels) == 1
    panels = (_without_title(panel, headline, always=is_only_rollout) for panel in group.panels)
    return replace(group, panels=tuple(panels))


def _without_title(panel: Drawable, title: str, *, always: bool) -> Drawable:
    """Return the panel with an empty title if its title equals `title`, or if `always`.

    Only sentences and grids are changed.
    """
    if not isinstance(panel, Sentence | Grid):
        return panel
    grid = panel.grid if isinstance(panel, Sentence) else panel
    if not always and grid.title.casefold() != title.casefold():
        return panel
    grid = replace(grid, title="")
    return replace(panel, grid=grid) if isinstance(panel, Sentence) else grid


def _show_inspection(inspection: Inspection) -> ShownInspection:
    """Return what options ask for: effects of heads, a link, a query, all heads, or full maps."""
    looking = inspection.options
    if looking.by == "effect":
        return _show_effects(inspection)
    if looking.segments is not None:
        return _show_segments(inspection)
    if looking.source is not None:
        return _show_link(inspection)
    if long_heads.is_long(inspection):
        return _show_long_text(inspection)
    if looking.query is not None:
        return _show_query(inspection, looking.query)
    if looking.layer is None and looking.head is None and len(inspection.maps) > 1:
        return _show_heads(inspection)
    return _show_maps(inspection)


def _show_long_text(inspection: Inspection) -> ShownInspection:
    """Return the heads of a long text: one of them in full, the exact rows of a query, several
    maps, or the overview of all heads.
    """
    looking, data = inspection.options, long_heads.long_heads_data(inspection)
    chosen = len(inspection.head_maps)
    if looking.query is not None or chosen == 1:
        screen, picture, title = (
            long_heads.show_map(inspection)
            if looking.query is None
            else long_heads.show_row(inspection, looking.query)
        )
        sentences = () if looking.query is not None else head_kind_sentences(inspection)
        excerpt = Excerpt(tuple(screen[:1]), MORE_HINT)
        return ShownInspection(
            tuple(screen), data, title, sentences, excerpt, picture=tuple(picture)
        )
    if looking.layer is None and looking.head is None:
        return replace(_show_heads(inspection), data=data)
    sentences = head_kind_sentences(inspection)
    excerpt = Excerpt((_overview_group(inspection),), "--full shows every map")
    groups = (long_heads.show_maps(inspection),)
    return ShownInspection(groups, data, _last_sentence_title(sentences), sentences, excerpt)


def _with_arcs(
    content: ShownInspection, inspection: Inspection, command: Command | None
) -> ShownInspection:
    """Return `content` with the picture that --as arcs asks for: lines between words, by layer.

    With a query, only its lines are drawn; the titles carry commands if there are any. Without the
    option, return `content` as it is.
    """
    looking, command = inspection.options, command or _inspect_command(inspection)
    if looking.as_ != "arcs":
        return content
    row = None
    if looking.query is not None:
        row = build_token_query(inspection.maps, looking, looking.query).row
    layers: dict[str, list[Grid]] = {}
    commands_by_title: dict[str, str] = {}
    for attention_map, grid in zip(inspection.maps, heatmaps(inspection), strict=True):
        layer_name = "" if attention_map.merged_heads else attention_map.layer.name
        layers.setdefault(layer_name, []).append(grid)
        if command and not attention_map.merged_heads:
            number = attention_map.layer.layer
            options = {"layer": number, "head": attention_map.number, "as_": "arcs"}
            commands_by_title[grid.title] = command.with_options(**options).line
    groups = [Group(f"weights {name}", tuple(grids)) for name, grids in layers.items()]
    return replace(content, picture=tuple(arcs_groups(groups, row, commands_by_title)))


def _show_maps(inspection: Inspection) -> ShownInspection:
    """Return the maps of a layer, of a head in all layers, or a single one, in full with sentences.

    Merged maps have no sentences on what heads do. On a small screen several maps become an
    overview.
    """
    weights, data = Group("weights", tuple(heatmaps(inspection))), maps_data(inspection)
    if inspection.options.part is not None:
        return _show_parts(inspection, weights, data)
    if inspection.options.merge is not None:
        attention_map = inspection.maps[0]
        title = f"{attention_map.name[0].upper()}{attention_map.name[1:]}"
        if inspection.options.merge == "rollout":
            title = rollout_title(attention_map)
        return ShownInspection((weights,), data, title, _left_out_closing(inspection))
    sentences = head_kind_sentences(inspection)
    closing = (*sentences, *_left_out_closing(inspection))
    if len(inspection.maps) == 1:
        return ShownInspection((weights,), data, head_kind_title(inspection, 0), closing)
    excerpt = Excerpt((_overview_group(inspection),), "--full shows every weight")
    return ShownInspection((weights,), data, _last_sentence_title(sentences), closing, excerpt)


def _show_parts(inspection: Inspection, weights: Group, data: TableData) -> ShownInspection:
    """Return a part of some maps, with what stands out in it, and how much of the attention it is.

    Numbers that are no shares have no such sentences.
    """
    maps, excerpt = inspection.maps, None
    if len(maps) > 1:
        excerpt = Excerpt((_overview_group(inspection),), "--full shows every weight")
    if not all(each.are_shares for each in maps):
        return ShownInspection((weights,), data, excerpt=excerpt)
    title = part_finding(maps)
    title = f"{maps[0].name}: {title}" if len(maps) == 1 else title
    notes = map(as_sentence, (*blind_queries_notes(maps), *share_notes(maps)))
    headline = f"{title[:1].upper()}{title[1:]}"
    return ShownInspection((weights,), data, headline, tuple(notes), excerpt)


def _last_sentence_title(sentences: Sequence[str]) -> str:
    return sentences[-1].removesuffix(".") if sentences else ""


def _overview_group(inspection: Inspection) -> Group:
    flags, kinds = head_flags(inspection), flag_indices(inspection)
    return Group("all heads", (heads_overview(inspection, flags, kinds),))


def _show_heads(inspection: Inspection) -> ShownInspection:
    """Return the overview of all heads, a table of what they do, sentences and slides.

    Without any kind of head, the table is left out.
    """
    table, sentences = heads_table(inspection), head_kind_sentences(inspection)
    overview, data = _overview_group(inspection), all_heads_data(inspection)
    # the first sentence only repeats the overview's flags
    note = _part_of_maps_note(inspection)
    notes = map(as_sentence, filter(None, (note,)))
    closing = (*sentences[1:], *_left_out_closing(inspection), *notes)
    slides = partial(inspection_slides, inspection, overview)
    if table is None:
        return ShownInspection((overview,), data, closing=closing, caption=note, slides=slides)
    groups = (overview, Group("what heads do", (table,)))
    excerpt = Excerpt((overview,), "--full shows which others do what")
    title = _last_sentence_title(sentences)
    return ShownInspection(groups, data, title, closing, excerpt, (overview,), note, slides=slides)


def _part_of_maps_note(inspection: Inspection) -> str:
    """Return which part of the maps is shown, where heads are described by all of it."""
    if inspection.options.part is None:
        return ""
    head = inspection.maps[0]
    weights = f"the weights of {side_text(head.rows)} on {side_text(head.columns)}"
    return f"the maps show {weights}; what heads do is said of the whole text"


def _show_effects(inspection: Inspection) -> ShownInspection:
    """Return the bars of what switching off each head changes, and each pair, with sentences."""
    from attnviz.views.inspection.effects import (
        effect_sentences,
        effects_data,
        ranked_effects,
        ranked_pairs,
    )

    pairs = ranked_pairs(inspection)
    groups = [Group("effects", (ranked_effects(inspection),))]
    groups += [] if pairs is None else [Group("pairs", (pairs,))]
    closing = tuple(map(as_sentence, effect_sentences(inspection)))
    title = closing[0].removesuffix(".")
    return ShownInspection(tuple(groups), effects_data(inspection), title, closing)


def _with_output_tables(content: ShownInspection, inspection: Inspection) -> ShownInspection:
    """Add the model's answers with --predict, and how far vectors move with heads switched off.

    Beside an overview, the picture shows these tables instead, with their first note as headline;
    beside other grids, the answers are added to the picture.
    """
    tables, notes = output_tables(inspection), output_notes(inspection)
    excerpt = content.excerpt
    excerpt = excerpt and replace(excerpt, groups=(*excerpt.groups, *tables))
    extended = replace(content, groups=(*content.groups, *tables), excerpt=excerpt)
    pictured = content.picture or content.groups
    panels = [panel for group in pictured for panel in group.panels]
    if tables and any(isinstance(panel, Overview) for panel in panels):
        return replace(extended, picture=output_pictures(inspection), headline=notes[0])
    has_room = all(isinstance(panel, Grid) for panel in panels)  # other panels fill a page each
    added_tables = tables if inspection.options.predict and has_room else ()
    caption = " · ".join(filter(None, (content.caption, *notes)))
    return replace(extended, picture=(*pictured, *added_tables), caption=caption)


def _show_link(inspection: Inspection) -> ShownInspection:
    """Return the bars and coloured sentence of a link; the screen leaves out a long sentence."""
    link = build_link(inspection.maps, inspection.options)
    title = link_sentence(link)
    statements = (*link_ranking_sentences(link), *weak_link_sentences(link))
    closing = (*map(as_sentence, statements), *_left_out_closing(inspection, link.token_query))
    data, parts = link_data(inspection, link), link_parts(link)
    screen_parts = tuple(
        part
        for part in parts
        if isinstance(part, RankedBars) or len(part.grid.columns) <= MAX_SCREEN_TOKENS
    )
    screen, picture = Group("link", screen_parts or parts), Group("link", parts)
    return ShownInspection((screen,), data, title, closing, picture=(picture,))


def _show_segments(inspection: Inspection) -> ShownInspection:
    """Return what the answer reads of each segment: bars of the clearest head, of heads, and the
    passages; who reads whom, and curves by layer."""
    from attnviz.views.inspection import segment_views as segments

    reading, name = inspection.segments, inspection.options.without_segment
    title = choose_sentence(segments.SEGMENT_FINDINGS, reading)
    effect = None if name is None else reading.effect_without(name)
    sentences = [*segments.segment_sentences(reading, effect)]
    screen, picture, excerpt = segments.segment_groups(
        reading, as_heatmap=inspection.options.as_ is not None
    )
    return ShownInspection(
        tuple(screen),
        segments.segments_data(reading, effect),
        f"{title[:1].upper()}{title[1:]}",
        tuple(map(as_sentence, sentences)),
        Excerpt(tuple(excerpt), "--full shows all, the layers, and who reads whom"),
        picture=tuple(picture),
        caption=" ".join(map(as_sentence, sentences)) if effect else "",
    )


def _show_query(inspection: Inspection, query: int | str) -> ShownInspection:
    """Return what one token attends to: the coloured sentence, and bars for several maps."""
    token_query = build_token_query(inspection.maps, inspection.options, query)
    parts = reading_parts(token_query)
    data, title = reading_data(inspection, token_query), reading_title(token_query)
    sinks = map(as_sentence, sink_sentences(token_query))
    closing = (*sinks, *_left_out_closing(inspection, token_query))
    # A picture of a named head leaves out the bars of the mean.
    pictured = (parts[0], parts[-1]) if token_query.names_head else parts
    groups = ((Group("reading", shown),) for shown in (parts, pictured))
    screen, picture = groups
    return ShownInspection(screen, data, title, closing, picture=picture)


def _left_out_closing(
    inspection: Inspection, token_query: TokenQuery | None = None
) -> tuple[str, ...]:
    return tuple(map(as_sentence, left_out_sentences(inspection, token_query)))


def output_tables(inspection: Inspection) -> tuple[Group, ...]:
    """Return the best answers with --predict, and how far vectors move with heads switched off.

    Only those that exist: vectors move only in models without answers.
    """
    trace = inspection.trace
    answers = best_answers_grid(trace) if inspection.options.predict else None
    vectors = None
    if trace.prediction is None and trace.outputs is not None:
        from attnviz.views.answer_tables import vector_shift_table

        vectors = vector_shift_table(trace)
    tables = {"prediction": answers, "moved": vectors}
    return tuple(Group(name, (table,)) for name, table in tables.items() if table is not None)


def output_pictures(inspection: Inspection) -> tuple[Group, ...]:
    """Return the answers as a table, or else the moved vectors as bars; empty without either."""
    from attnviz.views.answer_tables import vector_shift_bars

    bars = vector_shift_bars(inspection.trace)
    answers = [group for group in output_tables(inspection) if group.name == "prediction"]
    return tuple(answers) or (() if bars is None else (Group("moved", (bars,)),))


def output_notes(inspection: Inspection) -> tuple[str, ...]:
    """Return notes on the answer, with --predict or heads off, and on how far vectors move."""
    trace = inspection.trace
    shows_answers = inspection.options.predict or heads_off_suffix(trace)
    return closing_notes(trace, names=[*["answers"] * bool(shows_answers), "shifted vectors"])


def inspection_slides(inspection: Inspection, overview: Group) -> Excerpt:
    """Return a slide for the overview, and one for each head.

    Of more than 16 heads, only the strongest of each kind get a slide, and a note states that.
    """
    count, note = len(inspection.maps), ""
    indices = list(range(count))
    if count > MAX_HEADS_WITH_SLIDES:
        indices = list(dict.fromkeys(flag.map_index for flag in head_flags(inspection)))
        strongest = f"{len(indices)} of {count} heads, the strongest of each kind"
        heads_text = strongest if indices else "none"
        note = f"heads with slides of their own: {heads_text}; {in_words(MORE_SLIDES_HINT)}"
    grids = heatmaps(inspection, [inspection.maps[index] for index in indices])
    titles = tuple(PanelTitle(head_kind_title(inspection, index)) for index in indices)
    groups = (overview, Group(FINDINGS_GROUP, tuple(grids), panel_titles=titles))
    return Excerpt(groups, note)
