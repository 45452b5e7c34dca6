"""How large a page is, how soon it is written and opens, beside the pages of bertviz and inspectus.

Random causal weights of 12 layers × 12 heads, the worst case: no two numbers are alike. Written:
from a View whose numbers are in memory to the bytes of the file, the best of some runs. Opened: in
Chromium, from the start of the navigation to the first matrix that is drawn; then the pointer moves
over it, and frames are counted. Then long texts, which have blocks of tokens and single rows.

`python -m benchmarks.page [--runs 3] [--peers FOLDER]`: peers are measured where they can be
imported, or lie in a folder (`pip install --target FOLDER bertviz inspectus ipython`). Pages of
bertviz are of the first layer alone, times 12, where there are many tokens: all do not fit in 4 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnviz import from_weights
from attnviz.renderers import render_chunks
from benchmarks.inspection import ATTNVIZ, decoder, measured, text_of

LAYERS = HEADS = 12
FRAMES = 50  # a second, at least, while the pointer moves over so many
MOVES = 200
MORE_MEMORY = 1000  # megabytes more than the same run without a page, at most
LONG = ((4096, 2, 8), (2048, 12, 12))  # tokens, layers, heads
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Bounds:
    """What a page of so many tokens may have, at most."""

    megabytes: float
    written: float  # seconds
    opened: float


BOUNDS = {128: Bounds(2, 0.4, 1), 512: Bounds(25, 3, 3)}
FEW_LAYERS = {"bertviz": {512: 1}}
PEERS = {
    "bertviz": """
from bertviz import model_view
layers = [layer[None] for layer in torch.from_numpy(weights)]
page = model_view(layers, tokens, html_action="return")
size = len(page.data.encode())
""",
    "inspectus": """
import IPython.display
shown = []
IPython.display.display = shown.append
import inspectus
inspectus.attention(weights, tokens)
size = sum(len(each.data.encode()) for each in shown)
""",
}
PEER = """
import json, sys, time
import numpy as np, torch
weights = np.load(sys.argv[1], mmap_mode="r")[: int(sys.argv[2])]
weights = np.ascontiguousarray(weights)
tokens = [f"w{{n}}" for n in range(weights.shape[-1])]
start = time.perf_counter()
{page}
print("\\n" + json.dumps([size, time.perf_counter() - start]))
"""
WATCHED = """() => {
  window.watched = [];
  const tick = (time) => { window.watched.push(time); requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


def weights_of(tokens: int) -> np.ndarray:
    """Of random scores, the softmax of those that a token may see."""
    random = np.random.default_rng(0)
    scores = random.standard_normal((LAYERS, HEADS, tokens, tokens), dtype=np.float32)
    powers = np.tril(np.exp(scores))
    weights: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return weights


def page_of(weights: np.ndarray, runs: int, path: Path) -> float:
    """The seconds in which a page is written."""
    tokens = [f"w{number}" for number in range(weights.shape[-1])]
    view = from_weights(weights, tokens).view()
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        path.write_bytes(b"".join(render_chunks(view, ".html")))
        times.append(time.perf_counter() - start)
    return min(times)


def peer(name: str, numbers: Path, tokens: int, folder: Path | None) -> tuple[float, float] | None:
    """How many megabytes a peer's page has, and in how many seconds it is there."""
    layers = FEW_LAYERS.get(name, {}).get(tokens, LAYERS)
    found = [str(folder), *sys.path] if folder else sys.path
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(each for each in found if each)}
    command = [sys.executable, "-c", PEER.format(page=PEERS[name]), str(numbers), str(layers)]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        return None
    size, seconds = json.loads(made.stdout.splitlines()[-1])
    return size * LAYERS / layers / 1e6, seconds * LAYERS / layers


@dataclass(frozen=True)
class Opened:
    """What a browser does with a page."""

    seconds: float
    frames: float  # a second, while the pointer moves


def opened(path: Path) -> Opened | None:
    """The first of three times that a page is opened would be that of the browser, too."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if browser is None:
        return None
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        found = [_opened(started, path) for _ in range(3)][1:]
        started.close()
    return Opened(min(each.seconds for each in found), max(each.frames for each in found))


def _opened(browser: Any, path: Path) -> Opened:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    first = "performance.getEntriesByName('first picture').map((entry) => entry.startTime)[0]"
    while (milliseconds := page.evaluate(first)) is None:
        time.sleep(0.02)
    frames = _frames(page)
    page.close()
    return Opened(milliseconds / 1000, frames)


def _frames(page: Any) -> float:
    """How many there are in a second while the pointer moves over the matrix."""
    page.wait_for_timeout(500)
    box = page.locator("#matrix canvas").first.bounding_box()
    page.evaluate(WATCHED)
    for step in range(MOVES):
        share = 0.2 + 0.6 * step / MOVES
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.3 * box["height"])
    times = page.evaluate("window.watched")
    found: float = 1000 * (len(times) - 1) / (times[-1] - times[0])
    return found


def told(number: float | None, bound: float, *, least: bool = False) -> str:
    """A number, its bound, and whether it keeps to it."""
    if number is None:
        return f"{'–':>8}{bound:>8}  "
    kept = number >= bound if least else number <= bound
    return f"{number:8.2f}{bound:>8}{'  ' if kept else ' ✗'}"


def line(tokens: int, runs: int, folder: Path, peers: Path | None) -> list[str]:
    """Ours, and then what others make of the same weights."""
    weights, bounds, path = weights_of(tokens), BOUNDS[tokens], folder / "view.html"
    np.save(folder / "weights.npy", weights)
    written = page_of(weights, runs, path)
    seen = opened(path)
    size = path.stat().st_size / 1e6
    lines = [
        f"{tokens:6} attnviz   {told(size, bounds.megabytes)}{told(written, bounds.written)}"
        f"{told(None if seen is None else seen.seconds, bounds.opened)}"
        f"{told(None if seen is None else seen.frames, FRAMES, least=True)}"
    ]
    for name in PEERS:
        found = peer(name, folder / "weights.npy", tokens, peers)
        row = " not installed" if found is None else f"{found[0]:8.2f}{'':10}{found[1]:8.2f}"
        ratio = "" if found is None else f"   {found[0] / size:.0f} times as large"
        lines.append(f"{tokens:6} {name:10}{row}{ratio}")
    return lines


def long_texts(folder: Path) -> list[str]:
    """The page of a decoder with random weights, and the same run without a page."""
    lines = []
    for tokens, layers, heads in LONG:
        model, text = decoder(folder, layers, heads), text_of(tokens, folder)
        command = [*ATTNVIZ, "--file", str(text), "--model", str(model)]
        plain = measured(command, folder)
        made = measured([*command, "-o", "long.html"], folder)
        size = (folder / "long.html").stat().st_size / 1e6
        lines.append(
            f"{tokens:6} × {layers} × {heads:<4}{told(size, BOUNDS[512].megabytes)}"
            f"{made.seconds:8.1f}{plain.seconds:8.1f}{made.megabytes:10.0f}{plain.megabytes:8.0f}"
            f"{'' if made.megabytes - plain.megabytes <= MORE_MEMORY else ' ✗'}"
        )
        shutil.rmtree(model)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        print(f"{LAYERS} layers × {HEADS} heads of random causal weights\n")
        names = ("MB", "bound", "", "written", "bound", "", "opened", "bound", "", "frames")
        print(f"{'tokens page':17}" + "".join(f"{name:>{8 if name else 2}}" for name in names))
        for tokens in BOUNDS:
            print(*line(tokens, given.runs, folder, given.peers), sep="\n", flush=True)
        print(f"\n{'long texts':16}{'MB':>8}{'bound':>8}{'seconds':>10}{'without':>8}", end="")
        print(f"{'memory':>10}{'without':>8}")
        print(*long_texts(folder), sep="\n")


if __name__ == "__main__":
    main()
