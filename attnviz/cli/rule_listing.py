"""`attnviz help --rules`: which options exclude each other, or may change nothing."""

from __future__ import annotations

import pkgutil
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from attnviz.cli.modes import Mode
from attnviz.wording.no_effect import NO_EFFECT, NoEffect
from attnviz.wording.rules import Rule
from attnviz.wording.surfaces import Surface, cmd, in_words, opt
from attnviz.wording.words import and_list, or_list

RULE_TABLES = {
    "Of every trace": "attnviz.traces.settings:RANGE_RULES",
    "Of attention that is computed": "attnviz.traces.settings:SETTING_RULES",
    "Without a trained transformer": "attnviz.traces.settings:TRAINED_ONLY_RULES",
    "Of a page that computes (--live)": "attnviz.traces.early_checks:LIVE_RULES",
    "Of a part of a text (--window A:B)": "attnviz.views.long_text:BESIDE_PART_RULES",
    "Of ways to draw (--as)": "attnviz.views.drawing_ways:DRAWING_RULES",
    "Of what is received (--show received)": "attnviz.views.drawing_ways:RECEIVED_RULES",
    "Of segments of a prompt (--segments)": "attnviz.views.drawing_ways:SEGMENT_RULES",
    "attnviz inspect": "attnviz.analysis.inspection.inspect_options:INSPECT_RULES",
    "attnviz learn, and attnviz compare --learn": "attnviz.learning.choices:CHOICE_RULES",
}
MODE_TABLES = {"compare": "attnviz.cli.compare:MODES"}  # by command
INDENT = "    "


class AnyValue:
    """Stands in a rule for whatever value an option has."""

    def __getattr__(self, name: str) -> AnyValue:
        return self

    def __format__(self, style: str) -> str:
        return "…"


def rule_lines(width: int) -> Iterator[str]:
    """Yield the lines that list all rules, and what has no effect, in so many columns."""
    for heading, path in RULE_TABLES.items():
        yield from _table_lines(heading, pkgutil.resolve_name(path), width)
    for command, path in MODE_TABLES.items():
        modes: tuple[Mode, ...] = pkgutil.resolve_name(path)
        for mode in modes:
            heading = f"attnviz {command} {mode.example}: {mode.about}"
            yield from _table_lines(heading, mode.rules, width)
    yield "What may change nothing, and why"
    for row in NO_EFFECT:
        yield from _entry_lines(f"{_names(row.options)} {_where(row)}: {row.why}", width)


def _table_lines(heading: str, rules: Iterable[Rule], width: int) -> Iterator[str]:
    """Yield a heading, and each rule as a sentence; one for several options that it holds for."""
    yield heading
    for _, group in groupby(rules, lambda rule: rule.problem):
        rule, *others = group
        marks = [opt[name] for name in dict.fromkeys(each.about for each in (rule, *others))]
        words: dict[str, object] = {"it": AnyValue(), "opt": opt, "cmd": cmd, "option": marks[0]}
        if len(marks) == 1:
            text = f"{rule.problem.format(**words)}; {rule.hint.format(**words)}"
        else:
            text = rule.problem.format(**words | {"option": or_list([*map(str, marks)])})
            hints = {each.hint.format(**words | {"option": "it"}) for each in (rule, *others)}
            text += f"; {hints.pop()}" if len(hints) == 1 else ""
        yield from _entry_lines(in_words(text, Surface.COMMAND_LINE), width)
    yield ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(
        "all options" if name == "*" else in_words(str(opt[name]), Surface.COMMAND_LINE)
        for name in names
    )


def _where(row: NoEffect) -> str:
    """Return where options have no effect, in words."""
    conditions = [
        f"in {and_list([f'attnviz {name}' for name in row.commands])}" if row.commands else "",
        f"beside {_names(row.beside)}" if row.beside else "",
        f"without {_names(row.without)}" if row.without else "",
        f"in files that end in {', '.join(row.files)}" if row.files else "",
    ]
    return ", ".join(filter(None, conditions)) or "everywhere"


def _entry_lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent="  ", subsequent_indent=INDENT, break_on_hyphens=False
    )
