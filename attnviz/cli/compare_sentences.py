"""`attnviz compare` with a trained model: two sentences, or one of them in two precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.analysis.aspects import ASPECTS, TEXT, refuse_unknown_aspect
from attnviz.analysis.inspection.looking import Looking
from attnviz.cli import output, source
from attnviz.cli.options import command_line
from attnviz.errors import AttnvizError
from attnviz.traces import early_checks
from attnviz.wording.commands import Command, option
from attnviz.wording.commands import chosen as chosen_options

if TYPE_CHECKING:
    from attnviz.analysis.inspection.sentences import Sentences
    from attnviz.cli.compare import ComparisonOptions
    from attnviz.cli.options import Typed
    from attnviz.cli.output_options import OutputOptions, PictureOptions
    from attnviz.cli.trace_options import TextOptions
    from attnviz.traces.settings import Settings
    from attnviz.traces.trace import Trace

BY = ("dtype", "device")  # in which the same model can be run twice
USUAL = {"dtype": ["float32", "bfloat16"]}
MEANS_NOTHING = ("repeats", "curves", "mean", "reference")
EXAMPLE = 'attnviz compare "it was too tired" "it was too wide" --model minilm'


def compare_sentences(
    text: TextOptions,
    saved: Trace | None,
    settings: Settings,
    chosen: ComparisonOptions,
    wanted: OutputOptions,
    pictures: PictureOptions,
    typed: Typed,
) -> None:
    """Run the model on both, and show how the attention of its heads changes."""
    refuse_odd(chosen, typed)
    early_checks.refuse_settings(settings)
    words = None if saved is not None else source.read_or_given(text, settings, "attnviz compare")
    looking = Looking(layer=chosen.layer, head=chosen.head, query=wanted.query)
    command = command_line("compare", text, settings, chosen, wanted, pictures)
    found = _held(saved or str(words), settings, chosen, looking, command)
    asked = chosen_options(settings, looking) | {"by": chosen.by, "values": chosen.values}
    made = Command(
        name="compare",
        argument=found.first.text,
        second=chosen.other,
        options={name: each for name, each in asked.items() if each is not None},
    )
    output.deliver(found.view(full=wanted.full, command=made), wanted, pictures)
    quiet = wanted.quiet or saved is not None
    source.ask_about_files(text.text, chosen.other, quiet=quiet)
    source.ask_about_words(text.text, chosen.other, quiet=quiet)


def _held(
    first: str | Trace,
    settings: Settings,
    chosen: ComparisonOptions,
    looking: Looking,
    command: str,
) -> Sentences:
    """Two sentences against each other; or one, as the model reads it in two ways."""
    from attnviz.analysis.inspection import sentences  # torch, for which errors need not wait
    from attnviz.traces.from_text import trace
    from attnviz.traces.trained.tracing import model_of

    if chosen.other is not None:
        return sentences.compare_sentences(
            first,
            chosen.other,
            settings,
            layer=looking.layer,
            head=looking.head,
            query=looking.query,
            command=command,
        )
    by, values = str(chosen.by), _values(chosen)
    words = first if isinstance(first, str) else first.text
    ways = [ASPECTS[by].choose(settings, each) for each in values]
    if not isinstance(first, str):
        model_of(first)  # which is refused unless it made the trace
    both = [trace(words, each, command=command) for each in ways]
    return sentences.held(both[0], both[1], (values[0], values[1]), looking)


def refuse_odd(chosen: ComparisonOptions, typed: Typed) -> None:
    """Refuse what no trained model can be compared by, before it is loaded."""
    for name in MEANS_NOTHING:
        if name in typed.names:
            raise AttnvizError(
                f"{option(name)} changes how attention is computed, which is fixed in a trained "
                "model",
                f"leave {option(name)} out",
                about=name,
            )
    by = chosen.by or (None if chosen.other is None and chosen.values is None else TEXT)
    if by is None or (by == TEXT and chosen.other is None):
        raise AttnvizError(
            "there is no second sentence to compare with the first", f"give both: {EXAMPLE}"
        )
    refuse_unknown_aspect(by)
    if by not in (*BY, TEXT):
        raise AttnvizError(
            f"--by {by} changes how attention is computed, which is fixed in a trained model",
            f"give a second sentence, or {' or '.join(f'--by {each}' for each in BY)}",
            about="by",
        )
    if by in BY and chosen.other is not None:
        raise AttnvizError(
            f"--by {by} cannot be combined with a second sentence",
            "leave one of them out",
            about="by",
        )
    if by == TEXT and chosen.values is not None:
        raise AttnvizError(
            "--values cannot be combined with a second sentence: the sentences are compared",
            "leave --values out",
        )
    if by in BY:
        _values(chosen)


def _values(chosen: ComparisonOptions) -> list[str]:
    """The two ways in which one sentence is read."""
    by = str(chosen.by)
    names = chosen.names()
    found = USUAL.get(by, [*ASPECTS[by].values()]) if names is None else names
    if len({*found}) != 2 or len(found) != 2:
        few = f"only {found[0]}" if len(found) == 1 else ", ".join(found) or "none"
        raise AttnvizError(
            f"a trained model is compared in two ways, but --by {by} has {few}",
            f"give two, such as --values {','.join(USUAL.get(by, ['cpu', 'cuda']))}",
        )
    return found
