"""An Inspection as a View: which parts are shown, in which order, and on which slides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.token_query import TokenQuery, build_link, build_token_query
from attnviz.traces.source import build_source, source_command
from attnviz.views.grids.arcs import Sentence
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.overview import Overview
from attnviz.views.grids.ranked_bars import RankedBars
from attnviz.views.grids.section import Drawable
from attnviz.views.headline import attention_headline
from attnviz.views.inspection.data import all_heads_data, link_data, maps_data, reading_data
from attnviz.views.inspection.explored import explored_of_inspection
from attnviz.views.inspection.head_kinds import (
    head_flags,
    head_kind_sentences,
    head_kind_title,
    heads_table,
)
from attnviz.views.inspection.heatmap import heads_overview, heatmaps, weighing_sentences
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
from attnviz.views.notes import closing_notes, heads_off_suffix
from attnviz.views.prediction import best_answers_grid
from attnviz.views.reading import arcs_groups
from attnviz.views.settings_line import settings_line
from attnviz.views.view import (
    FINDINGS_GROUP,
    Excerpt,
    Group,
    PanelTitle,
    TableData,
    View,
    build_page,
)
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.words import as_sentence

ROLLOUT_OPENING = "In the rollout, "  # so begins what is said of the only map that there is
MAX_SCREEN_TOKENS = 100  # tokens of a sentence that stands on a screen beside what was asked for


@dataclass(frozen=True, eq=False)
class ShownInspection:
    """What is shown, and what there is to say of it."""

    groups: tuple[Group, ...]
    data: TableData
    headline: str = ""
    closing: tuple[str, ...] = ()
    excerpt: Excerpt | None = None
    picture: tuple[Group, ...] = ()  # if it is a choice of them
    caption: str = ""  # a picture: what it comes to, where that is not drawn
    slides: Callable[[], Excerpt] | None = None  # what has one of its own, if not each of those

    @property
    def picture_groups(self) -> list[Group]:
        """What a picture shows, in which no panel repeats what stands over all."""
        return [
            _without_repeated_titles(group, self.headline) for group in self.picture or self.groups
        ]


def view(inspection: Inspection, *, command: Command | None = None) -> View:
    """What was asked for: an overview and what the heads do, or the maps of some."""
    trace = inspection.trace
    settings_text = settings_line(trace)
    content = _with_output_tables(
        _with_arcs(_show_inspection(inspection), inspection, command), inspection
    )
    title = attention_headline(trace)
    caption = " · ".join(filter(None, (content.caption, left_out_caption(inspection))))
    return View(
        title=title,
        headline=content.headline or title,
        settings=settings_text,
        screen=build_page(content.groups, settings_text),
        picture=build_page(content.picture_groups, settings_text, caption),
        excerpt=content.excerpt,
        closing=(
            *content.closing,
            *map(as_sentence, weighing_sentences(inspection)),
            *map(as_sentence, closing_notes(trace, names=("given weights", "heads off"))),
            *map(as_sentence, output_notes(inspection)),
        ),
        explored=partial(explored_of_inspection, inspection),
        slides=content.slides,
        data=content.data,
        provenance=trace.provenance,
        command=command or _inspect_command(inspection),
    )


def _inspect_command(inspection: Inspection) -> Command | None:
    """The one that would show the same."""
    command = source_command("inspect", build_source(inspection.trace))
    return command and command.with_options(**changed_options(inspection.looking))


def _without_repeated_titles(group: Group, headline: str) -> Group:
    is_only_rollout = headline.startswith(ROLLOUT_OPENING) and len(group.panels) == 1
    panels = (_without_title(panel, headline, always=is_only_rollout) for panel in group.panels)
    return replace(group, panels=tuple(panels))


def _without_title(panel: Drawable, title: str, *, always: bool) -> Drawable:
    if not isinstance(panel, Sentence | Grid):
        return panel
    if not always and _title_of_panel(panel).casefold() != title.casefold():
        return panel
    if isinstance(panel, Sentence):
        return replace(panel, grid=replace(panel.grid, title=""))
    return replace(panel, title="")


def _title_of_panel(panel: Sentence | Grid) -> str:
    return panel.grid.title if isinstance(panel, Sentence) else panel.title


def _show_inspection(inspection: Inspection) -> ShownInspection:
    looking = inspection.looking
    if looking.by == "effect":
        return _show_effects(inspection)
    if looking.source is not None:
        return _show_link(inspection)
    if looking.query is not None:
        return _show_query(inspection, looking.query)
    if looking.layer is None and looking.head is None and len(inspection.maps) > 1:
        return _show_heads(inspection)
    return _show_maps(inspection)


def _with_arcs(
    content: ShownInspection, inspection: Inspection, command: Command | None
) -> ShownInspection:
    """With a picture of lines between words, if it is asked for: a group for each layer."""
    looking, command = inspection.looking, command or _inspect_command(inspection)
    if looking.as_ != "arcs":
        return content
    row = None if looking.query is None else build_token_query(inspection, looking.query).row
    layers: dict[str, list[Grid]] = {}
    commands_by_title: dict[str, str] = {}
    for attention_map, grid in zip(inspection.maps, heatmaps(inspection), strict=True):
        layers.setdefault(attention_map.layer.name if attention_map.layer else "", []).append(grid)
        if command and attention_map.layer:
            head_command = command.with_options(
                layer=attention_map.layer.layer, head=attention_map.head, as_="arcs"
            )
            commands_by_title[grid.title] = head_command.line
    groups = [Group(f"weights {name}", tuple(grids)) for name, grids in layers.items()]
    return replace(content, picture=tuple(arcs_groups(groups, row, commands_by_title)))


def _show_maps(inspection: Inspection) -> ShownInspection:
    """The heads of a layer, or a head in all layers, in full; or a single map."""
    weights, data = Group("weights", tuple(heatmaps(inspection))), maps_data(inspection)
    if inspection.looking.merge is not None:
        attention_map = inspection.maps[0]
        is_rollout = inspection.looking.merge == "rollout"
        title = (
            rollout_title(attention_map)
            if is_rollout
            else f"{attention_map.name[0].upper()}{attention_map.name[1:]}"
        )
        return ShownInspection((weights,), data, title, _left_out_closing(inspection))
    sentences = head_kind_sentences(inspection)
    closing = (*sentences, *_left_out_closing(inspection))
    if len(inspection.maps) == 1:
        return ShownInspection((weights,), data, head_kind_title(inspection, 0), closing)
    excerpt = Excerpt((_overview_group(inspection),), "--full shows every weight")
    return ShownInspection((weights,), data, _last_sentence_title(sentences), closing, excerpt)


def _last_sentence_title(sentences: Sequence[str]) -> str:
    """The last of some sentences, to stand over a picture."""
    return sentences[-1].removesuffix(".") if sentences else ""


def _overview_group(inspection: Inspection) -> Group:
    return Group("all heads", (heads_overview(inspection, head_flags(inspection)),))


def _show_heads(inspection: Inspection) -> ShownInspection:
    """All heads, small, and which of them do what."""
    table, sentences = heads_table(inspection), head_kind_sentences(inspection)
    overview, data = _overview_group(inspection), all_heads_data(inspection)
    closing = (
        *sentences[1:],
        *_left_out_closing(inspection),
    )  # the first says what the overview does
    slides = partial(inspection_slides, inspection, overview)
    if table is None:
        return ShownInspection((overview,), data, closing=closing, slides=slides)
    groups = (overview, Group("what heads do", (table,)))
    excerpt = Excerpt((overview,), "--full shows which others do what")
    return ShownInspection(
        groups, data, _last_sentence_title(sentences), closing, excerpt, (overview,), slides=slides
    )


def _show_effects(inspection: Inspection) -> ShownInspection:
    """All heads, the one first without which most changes."""
    from attnviz.views.inspection.effects import effect_sentences, effects_data, ranked_effects

    first, *rest = effect_sentences(inspection)
    groups = (Group("effects", (ranked_effects(inspection),)),)
    closing = tuple(map(as_sentence, (first, *rest)))
    return ShownInspection(
        groups, effects_data(inspection), _last_sentence_title(closing[:1]), closing
    )


def _with_output_tables(content: ShownInspection, inspection: Inspection) -> ShownInspection:
    """With what is answered, if that is asked for; and what becomes of vectors without heads."""
    tables, notes = output_tables(inspection), output_notes(inspection)
    excerpt = content.excerpt and replace(
        content.excerpt, groups=(*content.excerpt.groups, *tables)
    )
    extended = replace(content, groups=(*content.groups, *tables), excerpt=excerpt)
    pictured, below = content.picture or content.groups, " · ".join(notes)
    if tables and any(isinstance(panel, Overview) for group in pictured for panel in group.panels):
        return replace(extended, picture=output_pictures(inspection), headline=notes[0])
    added_tables = tables if inspection.looking.predict and _are_all_grids(pictured) else ()
    return replace(extended, picture=(*pictured, *added_tables), caption=below)


def _are_all_grids(groups: Sequence[Group]) -> bool:
    """Whether a table has room beside them: nothing of them has a page of its own."""
    return all(isinstance(panel, Grid) for group in groups for panel in group.panels)


def _show_link(inspection: Inspection) -> ShownInspection:
    link = build_link(inspection)
    title = link_sentence(link)
    statements = (*link_ranking_sentences(link), *weak_link_sentences(link))
    closing = (*map(as_sentence, statements), *_left_out_closing(inspection, link.token_query))
    data = link_data(inspection, link)
    all_parts = link_parts(link)
    screen_parts = [
        part
        for part in all_parts
        if isinstance(part, RankedBars) or len(part.grid.columns) <= MAX_SCREEN_TOKENS
    ]
    screen, picture = (
        Group("link", tuple(parts)) for parts in (screen_parts or all_parts, all_parts)
    )
    return ShownInspection((screen,), data, title, closing, picture=(picture,))


def _show_query(inspection: Inspection, query: str) -> ShownInspection:
    token_query = build_token_query(inspection, query)
    parts = reading_parts(token_query)
    data = reading_data(inspection, token_query)
    closing = (
        *map(as_sentence, sink_sentences(token_query)),
        *_left_out_closing(inspection, token_query),
    )
    return ShownInspection((Group("reading", parts),), data, reading_title(token_query), closing)


def _left_out_closing(
    inspection: Inspection, token_query: TokenQuery | None = None
) -> tuple[str, ...]:
    return tuple(map(as_sentence, left_out_sentences(inspection, token_query)))


def output_tables(inspection: Inspection) -> tuple[Group, ...]:
    """Tables of answers, where they are asked for; and of vectors, where heads are off."""
    trace = inspection.trace
    answers = best_answers_grid(trace) if inspection.looking.predict else None
    vectors = None
    if trace.prediction is None and trace.outputs is not None:
        from attnviz.views.vector_shift import vector_shift_table

        vectors = vector_shift_table(trace)
    tables_by_name = {"prediction": answers, "moved": vectors}
    return tuple(
        Group(name, (table,)) for name, table in tables_by_name.items() if table is not None
    )


def output_pictures(inspection: Inspection) -> tuple[Group, ...]:
    """The same, to be drawn by themselves: vectors as bars."""
    from attnviz.views.vector_shift import vector_shift_bars

    bars = vector_shift_bars(inspection.trace)
    answers = [group for group in output_tables(inspection) if group.name == "prediction"]
    return tuple(answers) or (() if bars is None else (Group("moved", (bars,)),))


def output_notes(inspection: Inspection) -> tuple[str, ...]:
    """What is answered, where that is asked for, or heads are off; or what becomes of vectors."""
    trace = inspection.trace
    shows_answers = inspection.looking.predict or heads_off_suffix(trace)
    return closing_notes(trace, names=[*["answers"] * bool(shows_answers), "shifted vectors"])


MAX_HEADS_WITH_SLIDES = (
    16  # heads: each has a slide of its own; of more those alone that do most of something
)
MORE_SLIDES_HINT = "--layer 0, or --head 0, makes a slide for each of its heads"


def inspection_slides(inspection: Inspection, overview: Group) -> Excerpt:
    """All heads small, and the heads that do most of each kind."""
    flags, count = head_flags(inspection), len(inspection.maps)
    shown_indices = (
        range(count)
        if count <= MAX_HEADS_WITH_SLIDES
        else dict.fromkeys(flag.map_index for flag in flags)
    )
    grids = heatmaps(inspection, [inspection.maps[index] for index in shown_indices])
    titles = tuple(PanelTitle(head_kind_title(inspection, index)) for index in shown_indices)
    groups = (overview, Group(FINDINGS_GROUP, tuple(grids), panel_titles=titles))
    return Excerpt(
        groups, "" if count <= MAX_HEADS_WITH_SLIDES else _slides_note(len(shown_indices), count)
    )


def _slides_note(shown_count: int, head_count: int) -> str:
    """How many have one, and how others would get one."""
    heads_text = (
        "none"
        if not shown_count
        else f"{shown_count} of {head_count} heads, the strongest of each kind"
    )
    return f"heads with slides of their own: {heads_text}; {MORE_SLIDES_HINT}"
