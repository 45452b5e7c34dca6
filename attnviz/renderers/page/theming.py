"""The colours of a page as CSS: those of the themes, and a class for each shade."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnviz.renderers.colors import color_anchors, color_values, find_theme

RULE_INK_SHARE, EDGE_INK_SHARE, SOFT_INK_SHARE = 0.14, 0.5, 0.05  # rules, edges, behind words
ACCENT_SERIES = 1  # the index of the accent colour among those of lines
SHADES_PER_SCALE = 17
SHADED_SCALE_KINDS = ("sequential", "diverging")


def theme_rules(palette: str) -> str:
    """Return the CSS of both themes, and that of the classes of lines and shades.

    The light theme is on paper, and by default; the dark one on screens whose system, or whose
    page, asks for it.
    """
    light, dark = (_theme_rule(name, palette) for name in ("light", "dark"))
    system = f"@media screen and (prefers-color-scheme: dark) {{ :root:not(.light) {{ {dark} }} }}"
    chosen_rule = f"@media screen {{ :root.dark {{ {dark} }} }}"
    return "\n".join([f":root {{ {light} }}", system, chosen_rule, *_color_classes()])


def _theme_rule(name: str, palette: str) -> str:
    theme = find_theme(name)
    colors = {
        **{color: getattr(theme, color) for color in ("paper", "ink", "faint", "hidden", "hatch")},
        "accent": theme.series[ACCENT_SERIES],
        "rule": _mix_colors(theme.paper, theme.ink, RULE_INK_SHARE),
        "edge": _mix_colors(theme.paper, theme.ink, EDGE_INK_SHARE),
        "soft": _mix_colors(theme.paper, theme.ink, SOFT_INK_SHARE),
        "on-hidden": _readable_ink(np.array([*bytes.fromhex(theme.hidden[1:])])),
        **{f"line-{number}": color for number, color in enumerate(theme.series)},
        **dict(_shade_variables(name, palette)),
    }
    declarations = "; ".join(f"--{variable}: {color}" for variable, color in colors.items())
    return f"color-scheme: {name}; {declarations};"


def _shade_variables(name: str, palette: str) -> Iterator[tuple[str, str]]:
    """Yield (name, colour) of the CSS variables of each shade, and of letters on it."""
    for kind in SHADED_SCALE_KINDS:
        shares, anchors = np.linspace(0, 1, SHADES_PER_SCALE), color_anchors(palette, name, kind)
        for number, color in enumerate(color_values(shares, 0, 1, anchors)):
            yield f"{kind[0]}{number}", f"#{bytes(color).hex()}"
            yield f"on-{kind[0]}{number}", _readable_ink(color)


def _color_classes() -> Iterator[str]:
    """Yield the CSS rules for the classes of lines and of shades."""
    for number in range(len(find_theme("light").series)):
        yield f".line-{number} {{ color: var(--line-{number}) }}"
    for kind in SHADED_SCALE_KINDS:
        for number in range(SHADES_PER_SCALE):
            shade = f"{kind[0]}{number}"
            yield f".{shade} {{ background: var(--{shade}); color: var(--on-{shade}) }}"


def shade_class(share: float, kind: str) -> str:
    """Return the CSS class of a cell's shade; `share`: from 0 at the scale's low end to 1, clipped.

    `kind`: 'sequential' or 'diverging'.

    >>> shade_class(0.5, "diverging"), shade_class(1.0, "sequential")
    ('d8', 's16')
    """
    return f"{kind[0]}{round(min(max(share, 0.0), 1.0) * (SHADES_PER_SCALE - 1))}"


def _mix_colors(paper: str, ink: str, share: float) -> str:
    """Return a colour between paper and ink, with a share of ink.

    >>> _mix_colors("#ffffff", "#000000", 0.5)
    '#808080'
    """
    pairs = zip(bytes.fromhex(paper[1:]), bytes.fromhex(ink[1:]), strict=True)
    return f"#{bytes(round(one + share * (other - one)) for one, other in pairs).hex()}"


def _readable_ink(color: np.ndarray) -> str:
    """Return black or white, whichever contrasts more with an RGB colour: at least 4.5 to 1."""
    part = color / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"
