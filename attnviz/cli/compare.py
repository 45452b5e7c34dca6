"""`attnviz compare`: ways of attending side by side, subtracted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnviz.analysis.aspects import (
    ASPECTS,
    LEARNED,
    TEXT,
    chosen_aspect,
    chosen_reference,
    chosen_values,
    refuse_no_model,
    refuse_of_a_model,
)
from attnviz.cli import output, source
from attnviz.cli.help import in_section
from attnviz.cli.messages import with_bar
from attnviz.cli.options import (
    Typed,
    accepts,
    command_line,
    named_again,
    refuse_both,
    refuse_others,
    settings_of,
)
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import (
    AttentionOptions,
    BlockOptions,
    MatrixOptions,
    ModelOptions,
    SavedOptions,
    TextOptions,
    TrainedOptions,
)
from attnviz.cli.training_options import TeachingOptions
from attnviz.errors import AttnvizError
from attnviz.learning.names import TASKS
from attnviz.renderers import suffixes
from attnviz.traces import early_checks
from attnviz.traces.models.shipped import card_of
from attnviz.traces.trained.place import is_trained
from attnviz.wording.commands import option

if TYPE_CHECKING:
    from attnviz.analysis.comparison import Comparison
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace
    from attnviz.views.view import View

PANEL = "Comparison"
_LISTED = ", ".join(
    f"{name} ({aspect.about})" if aspect.about else name for name, aspect in ASPECTS.items()
)
_ABOUT = dict.fromkeys(LEARNED, "with --learn") | {
    name: aspect.about for name, aspect in ASPECTS.items()
}


def _values(typed: Mapping[str, Any]) -> Sequence[str]:
    """What the values of --values may be, which nobody waits for torch to hear."""
    by = typed.get("by") or "scale"
    known = LEARNED if typed.get("learn") is not None else ASPECTS
    return () if by == "device" or by not in known else known[by].values()


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared with what."""

    other: Annotated[
        str | None,
        typer.Argument(
            metavar="OTHER",
            help="A second sentence, compared with the first.",
            rich_help_panel="Text",
            show_default=False,
        ),
    ] = None
    learn: Annotated[
        str | None,
        in_section(
            PANEL,
            "--learn",
            metavar="TASK",
            help="Instead of a text: train a small model on a task in each way, all on the same "
            f"sentences: {', '.join(TASKS)}.",
            short="Compare how models learn a task: --learn reverse --by heads",
            example="reverse",
            among={name: row.about for name, row in TASKS.items()},
        ),
    ] = None
    by: Annotated[
        str | None,
        in_section(
            PANEL,
            "--by",
            metavar="WHAT",
            help=f"What differs: {_LISTED}; with --learn {', '.join(LEARNED)}.  [default: scale]",
            short=f"What differs: {', '.join(ASPECTS)}.",
            among=_ABOUT,
        ),
    ] = None
    values: Annotated[
        str | None,
        in_section(
            PANEL,
            "--values",
            metavar="A,B,…",
            help="The values to compare, separated by commas.  [default: sensible ones]",
            short="The values to compare: --by dim --values 8,64",
            example="8,64",
            among_by=_values,
            several=True,
        ),
    ] = None
    reference: Annotated[
        str | None,
        in_section(
            PANEL,
            "--reference",
            metavar="VALUE",
            help="The value that is subtracted from the others.  [default: the first]",
            example="scaled",
        ),
    ] = None
    repeats: Annotated[
        int,
        in_section(
            PANEL,
            "--repeats",
            metavar="N",
            help="How many seeds conclusions and curves are based on; with --learn 10 by default.",
            short="How many seeds conclusions are based on, if not 20: --repeats 100",
        ),
    ] = 20
    layer: Annotated[
        int | None,
        in_section(
            PANEL,
            "--layer",
            metavar="N",
            help="Which layer of a model, from 0.  [default: the last]",
            example="0",
        ),
    ] = None
    head: Annotated[
        int | None,
        in_section(
            PANEL,
            "--head",
            metavar="N",
            help="Only this head of a trained model, from 0.  [default: all]",
            example="0",
        ),
    ] = None
    mean: Annotated[
        bool,
        in_section(PANEL, "--mean", help="Show the mean of the heads instead of each head."),
    ] = False
    curves: Annotated[
        bool,
        in_section(PANEL, "--curves", help="Show only the curves."),
    ] = False

    def names(self) -> list[str] | None:
        """The values after --values; None leaves them to what is compared."""
        if self.values is None:
            return None
        return [value.strip() for value in self.values.split(",") if value.strip()]

    def refuse_odd(self, settings: Settings) -> None:
        """What can be refused before anything is computed."""
        by = self.aspect
        if self.head is not None:
            raise AttnvizError(
                "--head is about the heads of a trained model, and no trained model is given",
                "leave --head out, or give --model minilm and a second sentence",
                about="head",
            )
        if by == TEXT or (by == "device" and self.values is None):
            return  # only tokens, or torch, tell more
        if settings.model is None:
            refuse_no_model(by)
        else:
            card = card_of(settings.model)
            refuse_of_a_model(by, card)
            early_checks.refuse_missing_layer(self.layer or 0, card.settings.layers or 1)
        names = chosen_values(by, self.names())
        chosen_reference(names, self.reference)
        for name in names:
            early_checks.refuse_settings(ASPECTS[by].choose(settings, name))

    @property
    def aspect(self) -> str:
        """What differs, said or not."""
        return chosen_aspect(self.by, self.values, texts=self.other is not None)

    def query_of(self, wanted: OutputOptions) -> str | None:
        """The token that is asked for, where every way of attending has the same tokens."""
        return None if self.aspect in ("tokenizer", TEXT) else wanted.query


@accepts(
    TextOptions,
    SavedOptions,
    ComparisonOptions,
    ModelOptions,
    TrainedOptions,
    AttentionOptions,
    MatrixOptions,
    BlockOptions,
    TeachingOptions,
    OutputOptions,
    PictureOptions,
    without=("memory",),
    rarely=("steps", "until", "tokenizer"),
)
def compare(
    text: TextOptions,
    saved: SavedOptions,
    chosen: ComparisonOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    matrices: MatrixOptions,
    blocks: BlockOptions,
    teaching: TeachingOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Compare ways of attending: side by side, subtracted and measured.

    Without options: the softmax of raw scores and of scaled ones, which shows why scores are
    divided by the square root of a head's width. With OTHER: two sentences with equally many
    tokens, position by position. With --learn: models trained in several ways.

    \b
    attnviz compare "I am learning this" --by mask
    attnviz compare "I am learning this" --by dim --values 8,64 -o width.png
    """
    output.refuse_undeliverable(wanted, pictures, suffixes("arrays"))
    if chosen.learn is not None:
        from attnviz.cli.compare_learning import compare_learning

        compare_learning(chosen, attention, blocks, teaching, wanted, pictures, typed)
        return
    _refuse_what_is_learned(typed.of(blocks, teaching))
    text, chosen, told = _beside_a_file(text, chosen, saved.trace, typed.of(text))
    beside = told | typed.of(model, trained, matrices)
    named = named_again(saved.trace, beside)
    refuse_both(saved.trace, beside)
    refuse_others(model.model, typed.of(text, attention, matrices))
    settings = settings_of(text, model, trained, attention, matrices)
    base = _of_a_file(saved.trace, chosen, wanted, pictures, typed.of(attention) | named)
    if base is not None and base.trained is None:
        refuse_both(saved.trace, named)
    if is_trained(settings.model) or (base is not None and base.trained is not None):
        from attnviz.cli.compare_sentences import compare_sentences

        known = settings if base is None else base.origin.settings
        compare_sentences(text, base, known, chosen, wanted, pictures, typed)
        return
    _compare_ways(text, base, settings, chosen, wanted, pictures)


def _compare_ways(
    text: TextOptions,
    base: Trace | None,
    settings: Settings,
    chosen: ComparisonOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Ways of attending side by side: of a text, or of a trace that was written before."""
    chosen.refuse_odd(settings)
    if base is None:
        comparison = _of_texts(text, settings, chosen, wanted, pictures)
    else:
        command = base.provenance.command or ""
        comparison = compared(base, base.origin.settings, chosen, command)
    output.deliver(viewed(comparison, chosen, wanted), wanted, pictures)
    quiet = wanted.quiet or base is not None
    source.ask_about_files(text.text, chosen.other, quiet=quiet)
    source.ask_about_words(text.text, chosen.other, quiet=quiet)
    source.tell_of_items(comparison.base.trace, settings.item, quiet=quiet)


def _beside_a_file(
    text: TextOptions, chosen: ComparisonOptions, trace: str | None, told: dict[str, Any]
) -> tuple[TextOptions, ComparisonOptions, dict[str, Any]]:
    """Where a saved trace is the first sentence, the only one that is typed is the second."""
    if trace is None or text.text is None or chosen.other is not None:
        return text, chosen, told
    others = {name: each for name, each in told.items() if name != "text"}
    return replace(text, text=None), replace(chosen, other=text.text), others


def _of_texts(
    text: TextOptions,
    settings: Settings,
    chosen: ComparisonOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
) -> Comparison:
    """What is compared of a text, or of two."""
    words = source.read_or_given(text, settings, "attnviz compare")
    early_checks.refuse_text(words, settings, chosen.query_of(wanted))
    with source.asking_about_files(words, chosen.other):
        early_checks.refuse_other(words, chosen.other, settings)
    command = command_line("compare", text, settings, chosen, wanted, pictures)
    return compared(words, settings, chosen, command)


def _refuse_what_is_learned(options: Mapping[str, Any]) -> None:
    """Ways of attending are compared in a single attention, and nothing is learned."""
    for name in options:
        raise AttnvizError(
            f"{option(name)} is about training, and no task is given",
            f"give a task, such as --learn reverse, or leave {option(name)} out",
        )


def _of_a_file(
    file: str | None,
    chosen: ComparisonOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    settings: dict[str, object],
) -> Trace | None:
    """A trace that was written before, to be attended anew; None where a text is given."""
    if file is None:
        return None

    from attnviz.cli.saved import read_again

    return read_again("compare", file, chosen, wanted, pictures, **settings)


def compared(
    text: str | Trace | None, settings: Settings, chosen: ComparisonOptions, command: str
) -> Comparison:
    """What is compared with what, as it was chosen."""
    from attnviz.analysis import comparison, seeds  # torch, for which errors need not wait

    seeds.refuse_odd_repeats(chosen.repeats)
    return comparison.compare(
        text,
        settings,
        by=chosen.by,
        other=chosen.other,
        values=chosen.names(),
        reference=chosen.reference,
        layer=chosen.layer,
        command=command,
    )


def viewed(comparison: Comparison, chosen: ComparisonOptions, wanted: OutputOptions) -> View:
    """What is to be shown of it."""
    track = partial(with_bar, told="drawing seeds", quiet=wanted.quiet)
    what = {each: getattr(chosen, each) for each in ("curves", "repeats", "mean")}
    return comparison.view(query=wanted.query, full=wanted.full, track=track, **what)
