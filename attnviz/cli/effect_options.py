"""The options of head ablation (--texts, --pairs …), which inspect and heads share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from attnviz.analysis.inspection.inspect_options import ABLATION_DESCRIPTIONS, InspectOptions
from attnviz.cli.help import section_option
from attnviz.errors import AttnvizError
from attnviz.wording.commands import option_name

_heads_option = partial(section_option, "Heads")


@dataclass(frozen=True, kw_only=True)
class EffectOptions:
    """The options about switching heads off: on which texts, what is compared, in which way."""

    texts: Annotated[
        Path | None,
        _heads_option(
            metavar="PATH",
            help="Switch the heads of a trained transformer off on many texts: a UTF-8 file with "
            "one on each line, perhaps followed by two answers whose logits are compared, with "
            "tabs between. Blank lines separate documents.",
            short="Switch heads off on many texts, one on each line of a file: --texts texts.txt",
            example="texts.txt",
        ),
    ] = None
    toward: Annotated[
        str | None,
        _heads_option(
            metavar="TOKEN",
            help="The answer whose logit, minus that of --instead-of, heads change; or whose "
            "gradient --weigh gradient takes.  [default: the most likely one]",
            example="tired",
        ),
    ] = None
    instead_of: Annotated[
        str | None,
        _heads_option(
            metavar="TOKEN", help="The answer that --toward is compared with.", example="wide"
        ),
    ] = None
    ablation: Annotated[
        str,
        _heads_option(
            metavar="HOW",
            help="What a head that is switched off writes: "
            f"{'; '.join(f'{name} ({about})' for name, about in ABLATION_DESCRIPTIONS.items())}.",
            among=ABLATION_DESCRIPTIONS,
        ),
    ] = InspectOptions.ablation
    pairs: Annotated[
        int | None,
        _heads_option(
            metavar="N", help="Also switch off all pairs of the N strongest heads.", example="4"
        ),
    ] = None

    def changed(self) -> dict[str, Any]:
        """Return the options that were changed, but the file of texts."""
        names = [field.name for field in fields(self) if field.name != "texts"]
        return {name: getattr(self, name) for name in names
                if getattr(self, name) != getattr(EffectOptions, name)}  # fmt: skip

    def refuse_without_texts(self, chosen_heads: Iterable[str]) -> None:
        """Refuse options that only mean something with texts of one's own, if none are given;
        `chosen_heads` are those about heads ("layer") that were typed."""
        for name in (*chosen_heads, *self.changed()) if self.texts is None else ():
            raise AttnvizError(
                f"{option_name(name)} is about switching heads off on texts, and none are given",
                "give a file with a text on each line: --texts texts.txt",
                about=name,
            )
