"""`attnviz inspect`: the heads of a trained model on a sentence."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated

from attnviz.analysis.inspection.looking import BY, DRAW, MERGE, RANK, WEIGH, Looking
from attnviz.cli import output, source
from attnviz.cli.help import in_section
from attnviz.cli.messages import with_bar
from attnviz.cli.options import Typed, accepts, named_again, refuse_both, settings_of
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.run import print_checks, refuse_lines_without_picture, traced
from attnviz.cli.trace_options import (
    AttentionOptions,
    ModelOptions,
    SavedOptions,
    TextOptions,
    TrainedOptions,
    WithoutOptions,
)
from attnviz.renderers import suffixes
from attnviz.traces.trained.place import MINILM
from attnviz.wording.commands import Command, chosen

PANEL = "Heads"
ON_A_DEVICE = ("device", "dtype")  # what of attention a trained model has not decided
DECIDED = tuple(each.name for each in fields(AttentionOptions) if each.name not in ON_A_DEVICE)


@dataclass(frozen=True, kw_only=True)
class LookingOptions:
    """What is looked at, and how."""

    layer: Annotated[
        int | None,
        in_section(
            PANEL,
            "--layer",
            metavar="N",
            help="Only this layer, from 0.",
            short="One layer; with --head one head of it: --layer 4 --head 7",
            example="4",
        ),
    ] = None
    head: Annotated[
        int | None,
        in_section(PANEL, "--head", metavar="N", help="Only this head, from 0.", example="7"),
    ] = None
    source: Annotated[
        str | None,
        in_section(
            PANEL,
            "--from",
            metavar="TOKEN",
            help="Rank the heads by how much this token attends to --to.",
            short="Rank the heads by one link: --from it --to animal",
            example="it",
        ),
    ] = None
    to: Annotated[
        str | None,
        in_section(
            PANEL,
            "--to",
            metavar="TOKEN",
            help="The token that --from attends to.",
            example="animal",
        ),
    ] = None
    rank: Annotated[
        str,
        in_section(
            PANEL,
            "--rank",
            metavar="HOW",
            help=f"How --from sorts heads: {'; '.join(f'{n} ({t})' for n, t in RANK.items())}.",
            among=RANK,
        ),
    ] = Looking.rank
    by: Annotated[
        str,
        in_section(
            PANEL,
            "--by",
            metavar="KIND",
            help=f"What heads are ranked by: {'; '.join(f'{n} ({t})' for n, t in BY.items())}.",
            among=BY,
        ),
    ] = Looking.by
    merge: Annotated[
        str | None,
        in_section(
            PANEL,
            "--merge",
            metavar="HOW",
            help=f"Several heads as one: {'; '.join(f'{n} ({t})' for n, t in MERGE.items())}.",
            example="mean",
            among=MERGE,
        ),
    ] = None
    weigh: Annotated[
        str,
        in_section(
            PANEL,
            "--weigh",
            metavar="HOW",
            help=f"Each weight {'; '.join(f'{t} ({n})' for n, t in WEIGH.items())}.",
            among=WEIGH,
        ),
    ] = Looking.weigh
    toward: Annotated[
        str | None,
        in_section(
            PANEL,
            "--toward",
            metavar="TOKEN",
            help="The answer whose gradient --weigh gradient takes.  [default: the most likely "
            "one]",
            example="tired",
        ),
    ] = None
    hide_special: Annotated[
        bool,
        in_section(
            PANEL,
            "--hide-special",
            help="Leave out tokens that the tokenizer added, such as [CLS].",
        ),
    ] = False
    hide_first: Annotated[
        bool,
        in_section(PANEL, "--hide-first", help="Leave out the first token, which is often a sink."),
    ] = False
    renormalise: Annotated[
        bool,
        in_section(PANEL, "--renormalise", help="Scale what is left so that rows sum to 1."),
    ] = False
    words: Annotated[
        bool,
        in_section(PANEL, "--words", help="Combine the pieces of each word."),
    ] = False
    log: Annotated[
        bool,
        in_section(PANEL, "--log", help="Colour by logarithm, which shows small weights."),
    ] = False
    predict: Annotated[
        bool,
        in_section(PANEL, "--predict", help="Also show what the model answers."),
    ] = False
    as_: Annotated[
        str | None,
        in_section(
            PANEL,
            "--as",
            metavar="WAY",
            help=f"How weights are drawn: {', '.join(f'{n} ({t})' for n, t in DRAW.items())}.",
            short="Draw lines between words: --layer 5 --head 11 --as arcs",
            among=DRAW,
        ),
    ] = None
    verify: Annotated[
        bool,
        in_section(
            PANEL, "--verify", help="Check the numbers, also against the model's own attention."
        ),
    ] = False

    def looking(self, wanted: OutputOptions) -> Looking:
        """The choices, once it is sure that they make sense."""
        named = {
            name: getattr(self, name) for name in Looking.__dataclass_fields__ if name != "query"
        }
        return Looking(**named, query=wanted.query)


@accepts(
    TextOptions,
    SavedOptions,
    LookingOptions,
    ModelOptions,
    TrainedOptions,
    AttentionOptions,
    WithoutOptions,
    OutputOptions,
    PictureOptions,
    without=("tokenizer", *DECIDED),
)
def inspect(
    text: TextOptions,
    saved: SavedOptions,
    looked: LookingOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    computed: AttentionOptions,
    without: WithoutOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    *,
    typed: Typed,
) -> None:
    """Show what the heads of a trained model do on a sentence.

    Without --layer and --head: small maps of all heads, and what they do. With --query: what one
    token reads (attends to) in each head. With --from and --to: which heads link two tokens.

    \b
    attnviz inspect "The animal didn't cross the street because it was too tired"
    attnviz inspect "The animal was tired" --layer 4 --head 7 -o head.png
    """
    output.refuse_undeliverable(wanted, pictures, suffixes())
    looking = looked.looking(wanted)
    refuse_lines_without_picture(looking.as_, wanted)
    beside = typed.of(text, model, trained, computed, without)
    reads_again = looking.by == "effect" or looking.weigh == "gradient"
    named = named_again(saved.trace, beside) if reads_again else {}
    refuse_both(saved.trace, beside)
    asked = replace(model, model=model.model or MINILM)
    settings = settings_of(text, asked, trained, computed, without)
    groups = (looked, wanted, pictures)
    trace = traced("inspect", text, saved, settings, *groups, kept=looking.layers, named=named)

    from attnviz.analysis.inspection.inspection import Inspection

    made = Command(
        name="inspect",
        argument=trace.text,
        options=chosen(model, trained, computed, without, looked) | {"query": wanted.query},
    )
    track = partial(with_bar, told="switching heads off", quiet=wanted.quiet)
    view = Inspection(trace=trace, looking=looking, track=track).view(command=made)
    output.deliver(view, wanted, pictures)
    source.ask_about_a_file(text.text, quiet=wanted.quiet)
    if looked.verify:
        print_checks(trace, wanted)
