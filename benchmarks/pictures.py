"""How long a labelled picture takes once all is imported, an animation of the steps, slides, and
the most memory that a run holds.

`python benchmarks/pictures.py [--runs 7]`; the seconds of matplotlib's own imshow of the same
matrix, with a label at every token that can be read, stand beside ours as the baseline.
"""

from __future__ import annotations

import argparse
import io
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from attnviz import Trace, steps, trace
from attnviz.renderers import render
from attnviz.views.grids.grid import Grid

STORY = Path(__file__).parent.parent / "sample_texts" / "story.txt"
BOUNDS = {128: 0.5, 1024: 1.5}
MEGABYTES = 900
ANIMATION_MEGABYTES = 5
SECONDS_OF_SLIDES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs: int = parser.parse_args().runs
    render(story(8).view(show=["weights"]), ".png")  # the first picture of a process loads fonts
    print(f"medians of {runs} runs\n")
    print(f"{'PNG of':14}{'seconds':>8}{'imshow':>8}{'ratio':>7}{'bound':>8}")
    for tokens, bound in BOUNDS.items():
        print(line(tokens, bound, runs), flush=True)
    print(f"\n{animation()}")
    print(f"\n{slides()}")
    print(f"\n2,000 tokens peak at {peak():.0f} MB (bound {MEGABYTES} MB)")


def line(tokens: int, bound: float, runs: int) -> str:
    view = story(tokens).view(show=["weights"])
    (grid,) = view.picture.panels
    assert isinstance(grid, Grid)
    times = [
        (seconds(lambda: render(view, ".png")), seconds(lambda: imshow(grid))) for _ in range(runs)
    ]
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(mine / other for mine, other in times)
    verdict = "" if ours <= bound else "  too slow"
    return f"{tokens:6,} tokens {ours:8.2f}{theirs:8.2f}{ratio:7.2f}{bound:6.1f} s{verdict}"


def animation() -> str:
    """The steps of 8 tokens as a GIF, beside the page of all steps that it ends with, as a PNG."""
    view = steps(story(8), query="5").view()
    drawn: list[bytes] = []
    took = seconds(lambda: drawn.append(render(view, ".gif")))
    still = seconds(lambda: render(view, ".png"))
    frames = getattr(Image.open(io.BytesIO(drawn[0])), "n_frames", 1)
    size = len(drawn[0]) / 1e6
    return (
        f"GIF of 8 tokens: {frames} frames in {took:.1f} s, {took / frames / still:.2f} of a PNG "
        f"of the page each; {size:.1f} MB (bound {ANIMATION_MEGABYTES} MB)"
    )


def slides() -> str:
    """Five heads, together and each alone, as .pptx."""
    view = story(16, heads=5, dim=40).view(show=["weights"])
    took = seconds(lambda: render(view, ".pptx"))
    return f"6 slides of 16 tokens in {took:.1f} s (bound {SECONDS_OF_SLIDES} s)"


def story(tokens: int, **settings: Any) -> Trace:
    """A trace of so many tokens, being words of the story."""
    words = STORY.read_text(encoding="utf-8").split()
    return trace(" ".join((words * 2)[:tokens]), tokenizer="spaces", **settings)


def imshow(grid: Grid) -> bytes:
    """What one writes by hand: a heatmap with tick labels, at the same size."""
    figure = Figure(figsize=(9.5, 9), layout="tight")
    axes = figure.add_subplot()
    image = axes.imshow(grid.values)
    step = max(1, len(grid.rows) // 64)
    places = range(0, len(grid.rows), step)
    labels = [grid.rows.labels[place] for place in places]
    axes.set_xticks(places, labels, rotation=90, fontsize=6, parse_math=False)
    axes.set_yticks(places, labels, fontsize=6, parse_math=False)
    figure.colorbar(image)
    file = io.BytesIO()
    figure.savefig(file, dpi=200)
    return file.getvalue()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak() -> float:
    """The most memory that `attnviz run` of 2,000 tokens holds at once, in megabytes."""
    words = " ".join((STORY.read_text(encoding="utf-8").split() * 2)[:2000])
    with tempfile.TemporaryDirectory() as folder:
        picture = ["-o", f"{folder}/peak.png"]
        command = [sys.executable, "-m", "attnviz", "run", "-t", "spaces", *picture]
        subprocess.run(command, input=words.encode(), check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000


if __name__ == "__main__":
    main()
