"""Any text with any options gives a result or two lines, never a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnviz.analysis.aspects import ASPECTS
from attnviz.attention.choices import ACTIVATIONS
from attnviz.attention.variants import VARIANTS
from attnviz.cli.app import main
from attnviz.renderers import suffixes
from attnviz.renderers.colors import PALETTES
from attnviz.tokens.tokenizers import TOKENIZERS
from attnviz.traces.parts import SHOWN
from attnviz.traces.settings import DTYPES, POSITIONS


def option(name: str, values: st.SearchStrategy[object]) -> st.SearchStrategy[str]:
    return values.map(lambda value: f"{name}={value}")


LETTERS = st.characters(categories=["Cs", "Cc", "Cf", "Mn", "Zs", "So", "L"])
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=LETTERS, min_size=1, max_size=30),
    st.sampled_from(
        ["I am learning this", "the cat the dog", "日本語 🎉", "a" * 300, "x y " * 60, "-x"]
    ),
)
OPTION = st.one_of(
    option("--tokenizer", st.sampled_from([*TOKENIZERS, "nonsense"])),
    option("--variant", st.sampled_from([*VARIANTS, "Plain"])),
    option("--dim", st.integers(0, 40)),
    option("--heads", st.sampled_from([1, 2, 4, 3])),
    option("--head-dim", st.integers(0, 9)),
    option("--window", st.integers(0, 9)),
    option("--kv-heads", st.integers(0, 4)),
    option("--soft-cap", st.floats(1e-6, 1e9) | st.floats()),
    option("--scoring", st.sampled_from(["dot", "additive", "general"])),
    option("--temperature", st.floats(0.01, 100) | st.floats()),
    option("--dropout", st.floats(0, 0.99) | st.floats(-0.5, 1.5)),
    option("--positions", st.sampled_from(POSITIONS)),
    option("--layers", st.integers(0, 3)),
    option("--norm", st.sampled_from(["pre", "post", "none"])),
    option("--activation", st.sampled_from(ACTIVATIONS)),
    option("--feed-forward", st.integers(0, 9)),
    option("--memory", TEXTS),
    option("--seed", st.integers(0, 2**64)),
    option("--dtype", st.sampled_from(DTYPES)),
    option("--show", st.lists(st.sampled_from([*SHOWN]), max_size=3).map(",".join)),
    option("--query", st.integers(0, 9) | st.sampled_from("Ia") | st.text(max_size=3)),
    option("--theme", st.sampled_from(["light", "dark", "blue"])),
    option("--colors", st.sampled_from([*PALETTES])),
    option("--size", st.sampled_from(["16:9", "4:3", "1x1", "0x0"])),
    st.sampled_from(["--scale", "--no-scale", "--causal", "--no-causal", "--no-numbers"]),
    st.sampled_from(["--json", "--full", "--verify", "--quiet"]),
)
OPTIONS = st.lists(OPTION, max_size=5)
SCREENS = st.sampled_from(
    [{}, {"COLUMNS": "40"}, {"COLUMNS": "80", "FORCE_COLOR": "1"}, {"COLUMNS": "1"}]
)
FILES = st.sampled_from([None] * 12 + suffixes())


VALUES = ["unscaled", "scaled", "causal", "zero-scores", "softmax-all", "1", "2", "0.5", "words"]
OF_A_TRACE = ("--show", "--verify", "--layers", "--norm", "--activation", "--feed", "--memory")
STEPS = st.lists(
    st.one_of(
        option("--step", st.sampled_from(["1-9", "scores", "8,2", "4b", "99", "x", ""])),
        option("--digits", st.integers(-1, 14)),
        option("--layer", st.integers(0, 2)),
        option("--head", st.integers(0, 2)),
    ),
    max_size=3,
)


@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(text=TEXTS, options=OPTIONS, screen=SCREENS, suffix=FILES)
def test_anything_gives_exit_0_or_2(
    text: str, options: list[str], screen: dict[str, str], suffix: str | None
) -> None:
    ended = _ended("run", [text], options, screen, suffix)

    assert ended.status in (0, 2)
    assert ended.faults == []


WAYS = st.lists(
    st.one_of(
        option("--by", st.sampled_from([*ASPECTS, "nonsense"])),
        option("--values", st.lists(st.sampled_from(VALUES), max_size=3).map(",".join)),
        option("--reference", st.sampled_from(VALUES)),
        option("--repeats", st.integers(-1, 12)),
        st.sampled_from(["--curves", "--mean"]),
    ),
    max_size=3,
)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=2),
    options=OPTIONS,
    ways=WAYS,
    screen=SCREENS,
    suffix=FILES,
)
def test_any_comparison_gives_exit_0_or_2(
    texts: list[str],
    options: list[str],
    ways: list[str],
    screen: dict[str, str],
    suffix: str | None,
) -> None:
    ours = [each for each in options if not each.startswith(OF_A_TRACE)]
    written = suffix if suffix in suffixes("arrays", "picture") else None

    ended = _ended("compare", texts, [*ours, *ways], screen, written)

    assert ended.status in (0, 2)
    assert ended.faults == []


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(text=TEXTS, options=OPTIONS, steps=STEPS, screen=SCREENS, suffix=FILES)
def test_any_steps_give_exit_0_or_2(
    text: str, options: list[str], steps: list[str], screen: dict[str, str], suffix: str | None
) -> None:
    ours = [each for each in options if not each.startswith(("--show", "--verify"))]
    pictures = suffix is None or suffix in suffixes("picture")  # drawing is slow, and tested

    ended = _ended("steps", [text], [*ours, *steps], screen, suffix if pictures else ".md")

    assert ended.status in (0, 2)
    assert ended.faults == []


def test_what_ends_badly_is_seen() -> None:
    assert _Ended(0, "\x1b[1mbold\x1b[0m", "note: one", ["a.txt"]).faults == []
    assert _Ended(2, "", "error: one\n hint: two", []).faults == []
    assert len(_Ended(2, "\x1b[2J", "Traceback", ["a.txt"]).faults) == 4


@dataclass(frozen=True)
class _Ended:
    """How a command ended: what it said, and which files it left."""

    status: int
    out: str
    err: str
    files: list[str]

    @property
    def faults(self) -> list[str]:
        """What must never be, whatever was typed."""
        refused = self.status != 0
        found = {
            "an error is not two lines": refused and len(self.err.splitlines()) != 2,
            "there is a traceback": "Traceback" in self.err,
            "an error left files": refused and bool(self.files),
            # Colours are ours to print; nothing else begins with an escape.
            "an escape is on the screen": "\x1b" in re.sub("\x1b\\[[0-9;]*m", "", self.out),
        }
        return [f"{fault}: {self}" for fault, there in found.items() if there]


def _ended(
    command: str, texts: list[str], options: list[str], screen: dict[str, str], suffix: str | None
) -> _Ended:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        out = stack.enter_context(contextlib.redirect_stdout(_stream()))
        err = stack.enter_context(contextlib.redirect_stderr(_stream()))
        stack.enter_context(mock.patch.dict(os.environ, screen))
        stack.enter_context(mock.patch("sys.stdin", _stream(b"typed")))
        written = [] if suffix is None else ["-o", f"{folder}/a{suffix}"]

        status = main([command, *options, *written, "--", *texts])

        return _Ended(
            status, _text(out), _text(err), sorted(each.name for each in Path(folder).iterdir())
        )


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(errors="replace")
