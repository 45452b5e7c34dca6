"""The colours of a page, as CSS: those of the themes, and a class for each shade of a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnviz.renderers.colors import color_anchors, color_values, find_theme

RULE_INK_SHARE, EDGE_INK_SHARE, SOFT_INK_SHARE = (
    0.14,
    0.5,
    0.05,
)  # how much ink there is in rules, in edges, and behind words
ACCENT_SERIES = 1  # of the colours of lines, the one of what is chosen
SHADES_PER_SCALE = 17  # of each scale, from its low end to its high one
SHADED_SCALE_KINDS = ("sequential", "diverging")


def theme_rules(palette: str) -> str:
    """Light, as paper is; dark on a screen, where the system is so or somebody chose it."""
    light, dark = (_theme_rule(name, palette) for name in ("light", "dark"))
    system = f"@media screen and (prefers-color-scheme: dark) {{ :root:not(.light) {{ {dark} }} }}"
    chosen_rule = f"@media screen {{ :root.dark {{ {dark} }} }}"
    return "\n".join([f":root {{ {light} }}", system, chosen_rule, *_parse_word_classes()])


def _theme_rule(name: str, palette: str) -> str:
    theme_colors = find_theme(name)
    colors = {
        "paper": theme_colors.paper,
        "ink": theme_colors.ink,
        "faint": theme_colors.faint,
        "hidden": theme_colors.hidden,
        "hatch": theme_colors.hatch,
        "accent": theme_colors.series[ACCENT_SERIES],
        "rule": _mix_colors(theme_colors.paper, theme_colors.ink, RULE_INK_SHARE),
        "edge": _mix_colors(theme_colors.paper, theme_colors.ink, EDGE_INK_SHARE),
        "soft": _mix_colors(theme_colors.paper, theme_colors.ink, SOFT_INK_SHARE),
        "on-hidden": _readable_ink(np.array([*bytes.fromhex(theme_colors.hidden[1:])])),
        **{f"line-{number}": color for number, color in enumerate(theme_colors.series)},
        **dict(_shade_variables(name, palette)),
    }
    declarations = "; ".join(f"--{variable}: {color}" for variable, color in colors.items())
    return f"color-scheme: {name}; {declarations};"


def _shade_variables(name: str, palette: str) -> Iterator[tuple[str, str]]:
    """The colour of each shade, and of the words on it."""
    for kind in SHADED_SCALE_KINDS:
        shares = np.linspace(0, 1, SHADES_PER_SCALE)
        for number, color in enumerate(
            color_values(shares, 0, 1, color_anchors(palette, name, kind))
        ):
            yield f"{kind[0]}{number}", f"#{bytes(color).hex()}"
            yield f"on-{kind[0]}{number}", _readable_ink(color)


def _parse_word_classes() -> Iterator[str]:
    for number in range(len(find_theme("light").series)):
        yield f".line-{number} {{ color: var(--line-{number}) }}"
    for kind in SHADED_SCALE_KINDS:
        for number in range(SHADES_PER_SCALE):
            class_name = f"{kind[0]}{number}"
            yield f".{class_name} {{ background: var(--{class_name}); color: var(--on-{class_name}) }}"


def shade_class(share: float, kind: str) -> str:
    """The class of a cell that is so far from the low end of its scale to the high one.

    >>> shade_class(0.5, "diverging"), shade_class(1.0, "sequential")
    ('d8', 's16')
    """
    return f"{kind[0]}{round(min(max(share, 0.0), 1.0) * (SHADES_PER_SCALE - 1))}"


def _mix_colors(paper: str, ink: str, share: float) -> str:
    """
    >>> _mix_colors("#ffffff", "#000000", 0.5)
    '#808080'
    """
    pairs = zip(bytes.fromhex(paper[1:]), bytes.fromhex(ink[1:]), strict=True)
    return f"#{bytes(round(one + share * (other - one)) for one, other in pairs).hex()}"


def _readable_ink(color: np.ndarray) -> str:
    """Black or white, whichever stands out more: by WCAG's ratio at least 4.5 to 1."""
    part = color / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"
