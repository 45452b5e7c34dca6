"""The colours of a page, as CSS: those of the themes, and a class for each shade of a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnviz.renderers.colors import gradient, shade, theme

RULE, EDGE, SOFT = 0.14, 0.5, 0.05  # how much ink there is in rules, in edges, and behind words
ACCENT = 1  # of the colours of lines, the one of what is chosen
SHADES = 17  # of each scale, from its low end to its high one
KINDS = ("sequential", "diverging")


def theme_rules(palette: str) -> str:
    """Light, as paper is; dark on a screen, where the system is so or somebody chose it."""
    light, dark = (_rule(name, palette) for name in ("light", "dark"))
    system = f"@media screen and (prefers-color-scheme: dark) {{ :root:not(.light) {{ {dark} }} }}"
    chosen = f"@media screen {{ :root.dark {{ {dark} }} }}"
    return "\n".join([f":root {{ {light} }}", system, chosen, *_classes()])


def _rule(name: str, palette: str) -> str:
    of = theme(name)
    colors = {
        "paper": of.paper,
        "ink": of.ink,
        "faint": of.faint,
        "hidden": of.hidden,
        "hatch": of.hatch,
        "accent": of.series[ACCENT],
        "rule": _mixed(of.paper, of.ink, RULE),
        "edge": _mixed(of.paper, of.ink, EDGE),
        "soft": _mixed(of.paper, of.ink, SOFT),
        "on-hidden": _readable_on(np.array([*bytes.fromhex(of.hidden[1:])])),
        **{f"line-{place}": color for place, color in enumerate(of.series)},
        **dict(_shades(name, palette)),
    }
    said = "; ".join(f"--{each}: {color}" for each, color in colors.items())
    return f"color-scheme: {name}; {said};"


def _shades(name: str, palette: str) -> Iterator[tuple[str, str]]:
    """The colour of each shade, and of the words on it."""
    for kind in KINDS:
        places = np.linspace(0, 1, SHADES)
        for place, color in enumerate(shade(places, 0, 1, gradient(palette, name, kind))):
            yield f"{kind[0]}{place}", f"#{bytes(color).hex()}"
            yield f"on-{kind[0]}{place}", _readable_on(color)


def _classes() -> Iterator[str]:
    for place in range(len(theme("light").series)):
        yield f".line-{place} {{ color: var(--line-{place}) }}"
    for kind in KINDS:
        for place in range(SHADES):
            own = f"{kind[0]}{place}"
            yield f".{own} {{ background: var(--{own}); color: var(--on-{own}) }}"


def shade_class(share: float, kind: str) -> str:
    """The class of a cell that is so far from the low end of its scale to the high one.

    >>> shade_class(0.5, "diverging"), shade_class(1.0, "sequential")
    ('d8', 's16')
    """
    return f"{kind[0]}{round(min(max(share, 0.0), 1.0) * (SHADES - 1))}"


def _mixed(paper: str, ink: str, share: float) -> str:
    """
    >>> _mixed("#ffffff", "#000000", 0.5)
    '#808080'
    """
    pairs = zip(bytes.fromhex(paper[1:]), bytes.fromhex(ink[1:]), strict=True)
    return f"#{bytes(round(one + share * (other - one)) for one, other in pairs).hex()}"


def _readable_on(color: np.ndarray) -> str:
    """Black or white, whichever stands out more: by WCAG's ratio at least 4.5 to 1."""
    part = color / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"
