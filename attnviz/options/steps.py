"""The options of steps: which are shown, and how numbers are written."""

from __future__ import annotations

from attnviz.options.option import option_group, options_under

STEPS = "attnviz.views.steps.step_selection"
steps_option = options_under("Steps")

# Each option is a row of a table.
# fmt: off


@option_group(frozen=True, kw_only=True)
class StepOptions:
    """Which steps are shown, and how numbers are written."""

    step: str | None = steps_option(metavar="STEPS", example="scores",
        choices=f"{STEPS}:STEP_CHOICES", several=True,
        short="Show only some steps: a name (--step scores), a number (5), or a range (5-8).",
        help="Show only some steps: a name (scores), a number (5), a range (5-8), or several with "
        "commas.")
    key: str | None = steps_option(metavar="TOKEN", is_token=True,
        help="With --query: only the score of this key, in step 5 as two arrows and the angle "
        "between them.")
    digits: int = steps_option(2, metavar="N", also="decimals precision-digits round",
        short="How many decimals numbers have, if not 2: --digits 4",
        help="How many decimals numbers have.")
    layer: int | None = steps_option(metavar="N",
        help="Which of several layers, from 0.  [default: the first]")
    head: int | None = steps_option(metavar="N", example="0",
        help="Only this head, from 0.  [default: all]")
    seconds_per_step: float = steps_option(5.0, metavar="S", python="seconds",
        help="How many seconds a .gif shows each step; the film lasts at most five times that.")
