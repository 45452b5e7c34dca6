"""`attnviz inspect`: the heads of a trained model on a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from attnviz.analysis.inspection.inspect_options import (
    BY_DESCRIPTIONS,
    DRAW_DESCRIPTIONS,
    INSPECT_OPTION_NAMES,
    MERGE_DESCRIPTIONS,
    RANK_DESCRIPTIONS,
    WEIGH_DESCRIPTIONS,
    InspectOptions,
)
from attnviz.cli import output, text_source
from attnviz.cli.corpus import EffectOptions, deliver_corpus_effects
from attnviz.cli.help import section_option
from attnviz.cli.messages import with_progress_bar
from attnviz.cli.options import (
    TypedOptions,
    accept_options,
    model_options_beside,
    validated_settings,
)
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.run import (
    print_checks,
    refuse_lines_without_picture,
    run_checks,
    trace_from_options,
)
from attnviz.cli.trace_options import (
    AttentionOptions,
    LongTextOptions,
    ModelOptions,
    SavedOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.errors import AttnvizError
from attnviz.renderers import suffixes
from attnviz.traces.models.model_names import MINILM
from attnviz.wording.commands import Command, changed_options
from attnviz.wording.surfaces import opt

if TYPE_CHECKING:
    pass

_heads_option = partial(section_option, "Heads")
DEVICE_OPTIONS = ("device", "dtype")
MODEL_DECIDED_OPTIONS = tuple(  # options of attention that a trained model fixes
    option.name for option in fields(AttentionOptions) if option.name not in DEVICE_OPTIONS
)


def _descriptions_text(names: Mapping[str, str], separator: str = "; ") -> str:
    """Return names with their descriptions, as one text: 'mean (…); max (…)'.

    `separator` stands between them, '; ' by default.
    """
    return separator.join(f"{name} ({about})" for name, about in names.items())


@dataclass(frozen=True, kw_only=True)
class LookingOptions:
    """The options of `attnviz inspect` about which heads are shown, and how."""

    layer: Annotated[
        str | None,
        _heads_option(
            metavar="N",
            help="Only this layer, from 0, or several: 4,5.",
            short="One layer; with --head one head of it: --layer 4 --head 7",
            example="4",
        ),
    ] = None
    head: Annotated[
        str | None,
        _heads_option(
            metavar="N",
            help="Only this head, from 0, or several: 1,11. Its name L5H11 says its layer, too.",
            example="7",
        ),
    ] = None
    source: Annotated[
        str | None,
        _heads_option(
            "--from",
            metavar="TOKEN",
            help="Rank the heads by how much this token attends to --to.",
            short="Rank the heads by one link: --from it --to animal",
            example="it",
        ),
    ] = None
    to: Annotated[
        str | None,
        _heads_option(metavar="TOKEN", help="The token that --from attends to.", example="animal"),
    ] = None
    rank: Annotated[
        str,
        _heads_option(
            metavar="HOW",
            help=f"How --from sorts heads: {_descriptions_text(RANK_DESCRIPTIONS)}.",
            among=RANK_DESCRIPTIONS,
        ),
    ] = InspectOptions.rank
    by: Annotated[
        str,
        _heads_option(
            metavar="KIND",
            help=f"What heads are ranked by: {_descriptions_text(BY_DESCRIPTIONS)}.",
            among=BY_DESCRIPTIONS,
        ),
    ] = InspectOptions.by
    merge: Annotated[
        str | None,
        _heads_option(
            metavar="HOW",
            help=f"Several heads as one: {_descriptions_text(MERGE_DESCRIPTIONS)}.",
            example="mean",
            among=MERGE_DESCRIPTIONS,
        ),
    ] = None
    weigh: Annotated[
        str,
        _heads_option(
            metavar="HOW",
            help=f"Each weight {'; '.join(f'{t} ({n})' for n, t in WEIGH_DESCRIPTIONS.items())}.",
            among=WEIGH_DESCRIPTIONS,
        ),
    ] = InspectOptions.weigh
    hide_special: Annotated[
        bool,
        _heads_option(
            "--hide-special", help="Leave out tokens that the tokenizer added, such as [CLS]."
        ),
    ] = False
    hide_first: Annotated[
        bool,
        _heads_option("--hide-first", help="Leave out the first token, which is often a sink."),
    ] = False
    renormalise: Annotated[
        bool, _heads_option("--renormalise", help="Scale what is left so that rows sum to 1.")
    ] = False
    words: Annotated[bool, _heads_option("--words", help="Combine the pieces of each word.")] = (
        False
    )
    by_sentence: Annotated[
        bool, _heads_option("--by-sentence", help="A row and a column for each sentence.")
    ] = False
    part: Annotated[
        str | None,
        _heads_option(
            "--window",
            metavar="A:B",
            help="Only these rows of the maps and, after a comma, only these columns: 3:8,1:2.",
            example="3:5",
        ),
    ] = None
    predict: Annotated[
        bool, _heads_option("--predict", help="Also show what the model answers.")
    ] = False
    as_: Annotated[
        str | None,
        _heads_option(
            "--as",
            metavar="WAY",
            help=f"How weights are drawn: {_descriptions_text(DRAW_DESCRIPTIONS, ', ')}.",
            short="Draw lines between words: --layer 5 --head 11 --as arcs",
            among=DRAW_DESCRIPTIONS,
        ),
    ] = None
    verify: Annotated[
        bool,
        _heads_option(
            "--verify", help="Check the numbers, also against the model's own attention."
        ),
    ] = False

    def build_looking(
        self, effect: EffectOptions, long_text: LongTextOptions, outputs: OutputOptions
    ) -> InspectOptions:
        """Return the InspectOptions, with --log of `long_text` and --query of `outputs`; refuse
        options that contradict."""
        values = {**vars(self), **vars(effect), "log": long_text.log, "query": outputs.query}
        return InspectOptions(**{name: values[name] for name in INSPECT_OPTION_NAMES})


@accept_options(without=("tokenizer", *MODEL_DECIDED_OPTIONS))
def inspect_command(
    text: TextOptions,
    saved: SavedOptions,
    options: LookingOptions,
    effect: EffectOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    without: WithoutOptions,
    long_text: LongTextOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: TypedOptions,
) -> None:
    """Show what the heads of a trained model do on a sentence.

    Without --layer and --head: small maps of all heads, and what they do. With --query: what one
    token reads (attends to) in each head. With --from and --to: which heads link two tokens.

    \b
    attnviz inspect "The animal didn't cross the street because it was too tired"
    attnviz inspect "The animal was tired" --layer 4 --head 7 -o head.png
    """
    output.refuse_undeliverable(outputs, pictures, suffixes())
    looking = options.build_looking(effect, long_text, outputs)
    refuse_lines_without_picture(looking.as_, outputs)
    others = (trained, attention, without, long_text)
    reruns_model = looking.by == "effect" or looking.weigh == "gradient"
    typed_model = typed.values_of(model, trained) if reruns_model else {}
    model_overrides = model_options_beside(saved.trace, typed_model)
    model_or_default = replace(model, model=model.model or MINILM)
    beside_trace = ("log", *model_overrides)
    settings = validated_settings(
        saved.trace, typed, text, model_or_default, *others, beside_trace=beside_trace
    )
    groups = (model, *others, options, effect)
    if effect.texts is not None:
        refuse_beside_texts(text, saved, options)
        command = Command(name="inspect", options=changed_options(*groups))
        chosen = {name: getattr(looking, name) for name in ("layer", "head")} | effect.changed()
        deliver_corpus_effects(command, effect.texts, settings, chosen, outputs, pictures)
        return
    trace = trace_from_options(
        "inspect",
        text,
        saved,
        settings,
        long_text,
        options,
        effect,
        outputs,
        pictures,
        layers=looking.layers,
        model_overrides=model_overrides,
        while_tracing=_checking_words_of(looking),
    )

    from attnviz.analysis.inspection.inspection import Inspection

    command = Command(
        name="inspect",
        argument=trace.text,
        options=changed_options(*groups) | {"query": outputs.query},
    )
    track = partial(with_progress_bar, label="switching heads off", quiet=outputs.quiet)
    view = Inspection(trace=trace, options=looking, track=track).view_for_command(command=command)
    output.deliver_view(view, outputs, pictures)
    text_source.note_text_names_file(text.text, quiet=outputs.quiet)
    if options.verify:
        print_checks(run_checks(trace), outputs)


def _checking_words_of(looking: InspectOptions) -> Callable[[], AbstractContextManager[None]]:
    """Return what refuses tokens and answers that are not there, before the model runs."""

    def prepare() -> AbstractContextManager[None]:
        from attnviz.analysis.inspection.token_query import checking_words_of

        return checking_words_of(looking)

    return prepare


def refuse_beside_texts(text: TextOptions, saved: SavedOptions, options: LookingOptions) -> None:
    """Refuse, beside --texts, another text or trace, and what is only shown of one text."""
    for name, value in (
        ("a text", text.text),
        (f"{opt.file}", text.file),
        (f"{opt.trace}", saved.trace),
    ):
        if value is not None:
            raise AttnvizError(f"{name} and {opt.texts} are both given", "give one of them")
    if options.by != "effect":
        raise AttnvizError(
            f"{opt.texts} switches heads off on many texts, but {opt.by:is {options.by}}",
            f"give {opt.by:effect}",
            about="texts",
        )
    for name in ("predict", "verify"):
        if getattr(options, name):
            raise AttnvizError(
                f"{opt[name]} is about one text, and {opt.texts} gives many",
                f"leave {opt[name]} out, or give one text",
                about=name,
            )
