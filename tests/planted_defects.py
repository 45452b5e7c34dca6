"""Defects planted one by one: does `make test` notice each, and if it does not, does the rest?

    .venv/bin/python -m tests.planted_defects                    all, in a copy of the checkout
    .venv/bin/python -m tests.planted_defects "the wrong quote"  those with these words

Each is a mistake that somebody could make in a line or two. `make test` must notice 20 of 24.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 1800.0  # seconds that all tests of a tier may take
TIERS = {"make test": "not slow", "make test-rest": "slow or hypothesis"}


@dataclass(frozen=True)
class Defect:
    """A mistake in a file of attnviz: `right` stands there once, and is replaced by `wrong`."""

    name: str
    file: str  # below attnviz/
    right: str
    wrong: str

    def plant(self, checkout: Path) -> None:
        path = checkout / "attnviz" / self.file
        text = path.read_text("utf-8")
        assert text.count(self.right) == 1, f"{self.name}: {text.count(self.right)} times"
        path.write_text(text.replace(self.right, self.wrong), "utf-8")


DEFECTS = (
    Defect(
        "a mask that shows the next token",
        "attention/mask_rule.py",
        "after=0 if variant.causal else reach",
        "after=1 if variant.causal else reach",
    ),
    Defect(
        "a window that is one token too wide",
        "attention/mask_rule.py",
        "else variant.window - 1",
        "else variant.window",
    ),
    Defect(
        "sums that are not rescaled from tile to tile",
        "attention/tiles.py",
        "for sums in (self.sums, self.contexts, *others):",
        "for sums in (self.contexts, *others):",
    ),
    Defect(
        "rotary angles of the next pair",
        "vectors/positions.py",
        "torch.arange(0, width, 2, dtype=torch.float64)",
        "torch.arange(2, width + 2, 2, dtype=torch.float64)",
    ),
    Defect(
        "pooled blocks divided by the wrong side",
        "cells.py",
        "divisor = heights[:, None] if share else cells",
        "divisor = widths[None, :] if share else cells",
    ),
    Defect(
        "a format character that is not escaped",
        "wording/printable.py",
        '{"Cc", "Cf", "Cs",',
        '{"Cc", "Cs",',
    ),
    Defect(
        "a text that becomes markup",
        "renderers/page/tags.py",
        "part if isinstance(part, Markup) else escape(part) for",
        "part for",
    ),
    Defect(
        "a formula in a table for spreadsheets",
        "renderers/data.py",
        're.compile(r"[=@＝',
        're.compile(r"[=＝',
    ),
    Defect(
        "the wrong quote in a command",
        "wording/commands.py",
        "return shlex.quote(word) if word.isprintable()",
        "return f'\"{word}\"' if word.isprintable()",
    ),
    Defect(
        "a lost note about heads that are off",
        "views/notes.py",
        "lambda trace: bool(heads_off_names(trace)),",
        "lambda trace: False,",
    ),
    Defect(
        "4-bit numbers with another offset",
        "wings/gguf/blocks.py",
        "_subtract(_unpack(blocks[:, 2:], 4, 16), 8)",
        "_subtract(_unpack(blocks[:, 2:], 4, 16), 7)",
    ),
    Defect(
        "an interval with half of its correction",
        "wings/corpora/mean_estimates.py",
        "(steps - skewness / (6 * counts))",
        "(steps - skewness / (3 * counts))",
    ),
    Defect(
        "the previous token taken for the next",
        "analysis/inspection/patterns.py",
        "tokens.steps(query, key) == -1",
        "tokens.steps(query, key) == 1",
    ),
    Defect(
        "training sentences measured as held out",
        "learning/grammar.py",
        'return (held_out == (stream == "held out"))',
        'return (held_out == (stream == "learned"))',
    ),
    Defect(
        "a digit of a tutorial that may be wrong by a whole unit",
        "wings/examples/checking.py",
        "0.5 * 10.0**exponent",
        "5.0 * 10.0**exponent",
    ),
    Defect(
        "a page whose softmax is too flat",
        "renderers/page/script/forward_pass.js",
        "Math.exp(each - most)",
        "Math.exp((each - most) / 1.01)",
    ),
    Defect(
        "a slide without the notes of its view",
        "wings/slides/deck.py",
        "*(view.notes if first else ())",
        "*()",
    ),
    Defect(
        "labels of rows from the bottom up",
        "renderers/picture/panel_labels.py",
        "y = bottom + height * (1 - (position + 0.5) / rows.count)",
        "y = bottom + height * ((position + 0.5) / rows.count)",
    ),
    Defect(
        "a share of attention beside the wrong base rate",
        "views/received.py",
        "return self.even_sums / (self.even_sums.sum() or 1.0)",
        "return np.full_like(self.even_sums, 1 / len(self.even_sums))",
    ),
    Defect(
        "shared keys given to the wrong heads",
        "traces/trained/captured_attention.py",
        "return shared[torch.arange(self.heads)[heads] // (self.heads // groups)]",
        "return shared[torch.arange(self.heads)[heads] % groups]",
    ),
    Defect(
        "token numbers that count from 0 in a command",
        "tokens/tokens.py",
        "position = int(number) - 1\n",
        "position = int(number)\n",
    ),
    Defect(
        "a mistake of a user that ends as a bug",
        "cli/app.py",
        "    return 2\n",
        "    return 1\n",
    ),
    Defect(
        "a base rate of one key too many",
        "analysis/inspection/token_query.py",
        "return 1 / int((~self.visible[0].map_row.patch.hidden).sum())",
        "return 1 / int((~self.visible[0].map_row.patch.hidden).sum() + 1)",
    ),
    Defect(
        "a gigabyte of 1024 megabytes",
        "machine/memory.py",
        '"GB": 10**9',
        '"GB": 2**30',
    ),
)


def first_failure(checkout: Path, tier: str) -> str:
    """The first test that fails, or "" where all pass; not the one that looks for planted lines."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "--dist", "loadfile"]
    process = subprocess.run(
        [*words, "-p", "no:cacheprovider", "--ignore=tests/test_tiers.py", "-m", tier],
        cwd=checkout, text=True, check=False, timeout=LONGEST,
        env={**os.environ, "PYTHONPATH": str(checkout), "CI": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    failure = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", process.stdout, re.MULTILINE)
    return failure[1] if failure else "" if process.returncode == 0 else process.stdout[-500:]


def copy_checkout(folder: Path) -> Path:
    """A copy of the files that git knows."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True,
        timeout=LONGEST,
    )  # fmt: skip
    for name in filter(None, listing.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def main(words: str = "") -> None:
    counts = dict.fromkeys([*TIERS, "nobody"], 0)
    with tempfile.TemporaryDirectory() as folder:
        checkout = copy_checkout(Path(folder))
        for defect in (each for each in DEFECTS if words in each.name):
            original = (checkout / "attnviz" / defect.file).read_text("utf-8")
            defect.plant(checkout)
            start, noticed_by, failure = time.monotonic(), "nobody", ""
            for name, tier in TIERS.items():
                if failure := first_failure(checkout, tier):
                    noticed_by = name
                    break
            (checkout / "attnviz" / defect.file).write_text(original, "utf-8")
            counts[noticed_by] += 1
            seconds = time.monotonic() - start
            print(
                f"{defect.name} ({defect.file})\n    {noticed_by}, {seconds:.0f} s: {failure}",
                flush=True,
            )
    print(" · ".join(f"{count} noticed by {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
