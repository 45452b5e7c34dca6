"""`attnviz pairs`: which heads of a trained model follow the meaning of minimal pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from attnviz.cli import output
from attnviz.cli.help import section_argument
from attnviz.cli.options import accept_options, settings_from_options
from attnviz.cli.output_options import OutputOptions, PictureOptions
from attnviz.cli.trace_options import (
    ONE_TEXT_OPTIONS,
    AttentionOptions,
    ModelOptions,
    TextOptions,
    TrainedOptions,
)
from attnviz.renderers import suffixes
from attnviz.traces.models.model_names import MINILM
from attnviz.wings.corpora.pair_file import read_pairs
from attnviz.wording.commands import Command, changed_options, path_without_folders


@dataclass(frozen=True, kw_only=True)
class PairFileOptions:
    """The argument of `attnviz pairs`: the file of pairs."""

    file: Annotated[
        Path,
        section_argument(
            "Text",
            metavar="FILE",
            help="A file with a pair on each line, in five columns with tabs between them: "
            "sentence A, sentence B, a token, candidate 1 (which it means in A), candidate 2 (in "
            "B).",
            short="A file of pairs: sentence A, sentence B, token, candidates 1 and 2, with tabs.",
            show_default=False,
        ),
    ]


@accept_options(without=(*ONE_TEXT_OPTIONS, "query"))
def pairs_command(
    pair_file: PairFileOptions,
    model: ModelOptions,
    trained: TrainedOptions,
    attention: AttentionOptions,
    outputs: OutputOptions,
    pictures: PictureOptions,
) -> None:
    """Show which heads follow the meaning when one word changes.

    A head's shift: how much more of its attention the token gives a candidate in the sentence where
    it is meant than in the other sentence; the mean of both candidates, then of all pairs. It is
    tested against 0 by flipping the signs of pairs, corrected for the number of heads, and has a
    95 % interval. What a head gives a candidate whatever the sentence means cancels.

    \b
    attnviz pairs sample_texts/pairs.tsv
    attnviz pairs pairs.tsv --model my-folder -o heads.csv
    """
    output.refuse_undeliverable(outputs, pictures, suffixes("arrays"))
    read_pairs(pair_file.file)  # a mistake in it is found before torch is loaded
    model = replace(model, model=model.model or MINILM)
    settings = settings_from_options(TextOptions(), model, trained, attention)

    from attnviz.wings.corpora.pairs import pairs

    command = Command(
        name="pairs",
        argument=path_without_folders(str(pair_file.file)),
        options=changed_options(model, trained, attention),
    )
    output.deliver_result(pairs(pair_file.file, settings), command, outputs, pictures)
