"""`attnviz pairs`: which heads of a trained model follow the meaning of minimal pairs."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path

from attnviz.cli import output
from attnviz.cli.options import accept_options, changed_beside_output, settings_from_options
from attnviz.options.option import CommandOptions, option_class, options_under
from attnviz.options.output import DeliveryOptions
from attnviz.options.traces import CodeOptions, ModelOptions, NumberOptions
from attnviz.renderers import suffixes
from attnviz.traces.models.model_names import MINILM
from attnviz.wings.corpora.pair_file import read_pairs
from attnviz.wording.commands import Command, path_without_folders


@option_class(frozen=True, kw_only=True)
class PairsOptions(ModelOptions, CodeOptions, NumberOptions, DeliveryOptions, CommandOptions):
    """The options of `attnviz pairs`."""

    file: Path = options_under("Text")(
        MISSING,
        metavar="FILE",
        help="A file with a pair on each line, in five columns with tabs between them: sentence A, "
        "sentence B, a token, candidate 1 (which it means in A), candidate 2 (in B).",
        short="A file of pairs: sentence A, sentence B, token, candidates 1 and 2, with tabs.",
        is_argument=True,
        is_path=True,
        is_read=True,
        shows_default=False,
    )


@accept_options(without=("query",))
def pairs_command(options: PairsOptions) -> None:
    """Show which heads follow the meaning when one word changes.

    A head's shift: how much more of its attention the token gives a candidate in the sentence where
    it is meant than in the other sentence; the mean of both candidates, then of all pairs. It is
    tested against 0 by flipping the signs of pairs, corrected for the number of heads, and has a
    95 % interval. What a head gives a candidate whatever the sentence means cancels.

    \b
    attnviz pairs sample_texts/pairs.tsv
    attnviz pairs pairs.tsv --model my-folder -o heads.csv
    """
    output.refuse_undeliverable(options, suffixes("arrays"))
    read_pairs(options.file)  # a mistake in it is found before torch is loaded
    settings = settings_from_options(options, model=options.model or MINILM)

    from attnviz.wings.corpora.pairs import pairs

    command = Command(
        name="pairs",
        argument=path_without_folders(str(options.file)),
        options=changed_beside_output(options, "file") | {"model": settings.model},
    )
    output.deliver_result(pairs(options.file, settings), command, options)
