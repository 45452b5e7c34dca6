"""Pictures of at most 255 colours, as a GIF's are: those of the largest areas as they are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped
from PIL import Image

COMMON = 160  # colours that are kept as they are; the other places go to what the rest are like
COLORS = 255  # and one more for what shows the frame before
UNCHANGED = 1 << 24  # behind the last colour

Row = Shaped[np.ndarray, "color"]
Pixels = Shaped[np.ndarray, "down across"]  # red, green and blue of a pixel in one number


def indexed(pixels: Pixels) -> Image.Image:
    """At most 255 colours, those of the largest areas as they are, and one that is transparent."""
    found = _colors(pixels)
    kept = found if len(found) <= COLORS else _fewer(found)
    nearest = np.empty(UNCHANGED + 1, dtype=np.uint8)  # a table by colour, with few entries
    nearest[UNCHANGED] = COLORS
    nearest[found] = _most_alike(found, kept)
    image = Image.fromarray(nearest[pixels], mode="P")
    image.putpalette(_channels(kept).astype(np.uint8).tobytes().ljust(3 * (COLORS + 1), b"\0"))
    image.info["transparency"] = COLORS
    return image


def _colors(pixels: Pixels) -> Row:
    """Each colour once, that of the largest area first; counted by runs, of which there are few."""
    row = pixels.ravel()
    starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
    lengths = np.diff(np.append(starts, len(row)))
    found, which = np.unique(row[starts], return_inverse=True)
    colors: Row = found[np.argsort(-np.bincount(which, weights=lengths), kind="stable")]
    seen: Row = colors[colors != UNCHANGED]
    return seen


def _most_alike(colors: Row, kept: Row) -> Row:
    """For each colour the place of the nearest of those that are kept."""
    near = _channels(kept)
    # (a - b)² = a² - 2ab + b², and a² is the same for all that are compared.
    distances = (near**2).sum(axis=1) - 2 * _channels(colors) @ near.T
    places: Row = distances.argmin(axis=1)
    return places


def _fewer(colors: Row) -> Row:
    """The first ones, and a few that stand for all the others."""
    rest = Image.fromarray(_channels(colors[COMMON:]).astype(np.uint8)[None])
    summed_up = rest.quantize(COLORS - COMMON, kmeans=1, dither=Image.Dither.NONE)
    channels = np.array(summed_up.getpalette(), dtype=np.uint32).reshape(-1, 3)
    few = channels[:, 0] << 16 | channels[:, 1] << 8 | channels[:, 2]
    kept: Row = np.concatenate([colors[:COMMON], few[: COLORS - COMMON]])
    return kept


def _channels(colors: Shaped[np.ndarray, "color"]) -> Shaped[np.ndarray, "color 3"]:
    return np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=-1).astype(np.float64)
