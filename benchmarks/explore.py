"""How long `attnviz explore` takes from a key to the codes for the terminal; 512 tokens, 270 heads.

Run it with the Python that attnviz is installed for: `python benchmarks/explore.py [--tokens 512]`.
The screen has 80 × 24 and 240 × 70 columns and lines. Times are the processor's: others on the
machine do not count. A key is pressed 20 times; the median and the longest time are printed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Iterator

from rich.console import Console
from textual.strip import Strip

from attnviz import trace
from attnviz.__main__ import GARBAGE_THRESHOLD
from attnviz.renderers.terminal.screen import Screen, line_segments
from attnviz.wings.explore.command import ExploreOptions
from attnviz.wings.explore.session import Session
from attnviz.wings.explore.subject import open_subject

BOUND = 0.03  # seconds from a key to the codes
REPEATS = 20
SIZES = (80, 24), (240, 70)
MOVES = {  # what is done, by the keys that are pressed before
    "another row": ((), "down"),
    "another column": ((), "left"),
    "another row, scrolling": (("pagedown", "pagedown"), "up"),
    "another head": ((), "]"),
    "another head, half blocks": (("-",), "]"),
    "another head, numbers": (("+",), "]"),
}


def press_times(session: Session, key: str) -> Iterator[float]:
    """The seconds for each press of a key, up to the codes of all lines that changed."""
    console = Console(color_system="truecolor", force_terminal=True)
    before = session.frame().lines
    for _ in range(REPEATS):
        start = time.process_time()
        session.press(key)
        lines = session.frame().lines
        for old, new in zip(before, lines, strict=True):
            if old is not new and (old.plain, old.spans) != (new.plain, new.spans):
                Strip(line_segments(new, console)).render(console)
        before = lines
        yield time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=512)
    count = parser.parse_args().tokens
    text = " ".join(["the", "old", "dogs", "near"] * count)
    traced = trace(" ".join(text.split()[:count]), model="smollm2")
    subject, place = open_subject(traced)
    gc.freeze()  # as the program does, which also looks for garbage as rarely
    gc.set_threshold(GARBAGE_THRESHOLD)
    print(f"{len(traced.tokens)} tokens, {len(subject.explorer.heads)} heads, milliseconds\n")
    print(f"{'':12}{'':28}{'median':>8}{'longest':>8}")
    for size in SIZES:
        for name, (keys, key) in MOVES.items():
            session = Session(subject, place, Screen(*size, "truecolor"), ExploreOptions())
            for each in (*keys, "down", "up"):
                session.press(each)
            times = [*press_times(session, key)]
            middle, longest = (1000 * each(times) for each in (statistics.median, max))
            verdict = "  too slow" if middle > 1000 * BOUND else ""
            print(f"{size[0]:3} × {size[1]:<6}{name:28}{middle:8.1f}{longest:8.1f}{verdict}")


if __name__ == "__main__":
    main()
