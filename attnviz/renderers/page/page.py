"""A View as one HTML page: its words, heads, script, followed tokens, and how it was made."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from attnviz.renderers import Look
from attnviz.renderers.colors import DEFAULT_THEME, THEMES, gradient, theme
from attnviz.renderers.page.heads import packed_heads
from attnviz.renderers.page.packing import text_of
from attnviz.renderers.page.panels import panels, step
from attnviz.renderers.page.tags import NONE, Markup, tag, together
from attnviz.renderers.page.theming import theme_rules
from attnviz.renderers.provenance import provenance_of
from attnviz.views.view import View
from attnviz.wording.printable import exact_json, printable

if TYPE_CHECKING:
    from attnviz.views.view import View


# One after another they are the script of the page: what stands first is known to all others.
SCRIPTS = (
    "elements.js",
    "data.js",
    "unpacking.js",
    "state.js",
    "places.js",
    "printing.js",
    "numbers.js",
    "colors.js",
    "color_bar.js",
    "reading.js",
    "matrix.js",
    "matrix_layout.js",
    "matrix_names.js",
    "matrix_cells.js",
    "matrix_marks.js",
    "matrix_pointer.js",
    "matrix_keys.js",
    "matrix_zoom.js",
    "both.js",
    "most_read.js",
    "together.js",
    "strongest.js",
    "strokes.js",
    "lines.js",
    "lines_layout.js",
    "lines_words.js",
    "lines_painting.js",
    "lines_picture.js",
    "overview.js",
    "overview_maps.js",
    "sentence.js",
    "texts.js",
    "markup.js",
    "steps.js",
    "table.js",
    "controls.js",
    "finding.js",
    "shortcuts.js",
    "picture.js",
    "picture_words.js",
    "csv.js",
    "copying.js",
    "main.js",
)
STYLES = (
    "style.css",
    "controls.css",
    "panels.css",
    "matrix.css",
    "lines.css",
    "reading.css",
    "layout.css",
    "paper.css",
)
# Nothing but what stands in the page itself: no network, no frames, no plug-ins, no forms.
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
LONG_TITLE = 80  # letters
WHOLE = re.compile(r"((?<!\S)\S{1,20} \(\d+\)|(?<!\S)\(?[\d.]+–[\d.]+)")  # `it (12)`, `2.9–3.7`
BLOCKS = "$blocks"  # where the heads stand in the page


def html(view: View, look: Look) -> Iterator[bytes]:
    """The page, its blocks of bytes one by one."""
    about, blocks = ({}, {}) if view.heads is None else packed_heads(view.heads)
    blocks |= packed_steps(view)
    words = _words(view, look, about)
    before, after = map(Template, _file("page.html").split(BLOCKS))
    yield before.substitute(words).encode()
    for name, block in blocks.items():
        yield f'<script type="application/octet-stream" id="{name}">{block}</script>\n'.encode()
    yield after.substitute(words).encode()


def _words(view: View, look: Look, about: Mapping[str, Any]) -> dict[str, str]:
    """What stands in the page in place of each name after a dollar."""
    style, script = (
        theme_rules(look.palette) + "".join(_file(f"style/{each}") for each in STYLES),
        _script(),
    )
    asked = "" if look.theme == DEFAULT_THEME else look.theme
    return {
        "policy": POLICY.format(script=_hash(script), style=_hash(style)),
        "theme": f' class="{asked}"' if asked else "",
        "explorer": "" if about else " hidden",
        "title": escape(view.headline or view.title),
        "headline": _heading(view.headline or view.title),
        "described": escape(view.screen.description),
        "settings": _paragraph(view.settings, "settings"),
        "caveat": _paragraph(view.screen.caveat, "caveat"),
        "accuracy": _paragraph(about.get("accuracy", ""), "accuracy"),
        "closing": _closing(view),
        "panels": panels(view),
        "made": made(view),
        "provenance": _in_a_page(provenance_of(view) or "null"),
        "data": _in_a_page(exact_json(_data(view, look, about))),
        "style": style,
        "script": script,
    }


def _data(view: View, look: Look, about: Mapping[str, Any]) -> dict[str, Any]:
    """What the script needs; `about` is what was done, which is true of each head alone, too."""
    done = view.headline if view.titled else view.title
    return {"attention": about, "look": _look(look), "about": done}


def _closing(view: View) -> Markup:
    """What there is to say in the end, but for what the title says."""
    return together(tag("p", _beyond(each, view.headline)) for each in view.notes)


def _beyond(note: str, headline: str) -> str:
    """What a sentence says beyond the title that it begins with."""
    start, rest = note[: len(headline) + 2], note[len(headline) + 2 :]
    return f"{rest[:1].upper()}{rest[1:]}" if headline and start == f"{headline}: " else note


def _heading(title: str) -> Markup:
    """A long one in smaller letters; a token stays with its number, and a range is not parted."""
    parts = [tag("span", each, class_="whole") if place % 2 else each
             for place, each in enumerate(WHOLE.split(title))]  # fmt: skip
    return tag("h1", *parts, class_="long" if len(title) > LONG_TITLE else None)


def _paragraph(text: str, place: str) -> Markup:
    return tag("p", text, id=place) if text else NONE


def _look(look: Look) -> dict[str, Any]:
    """The colours of both themes, and which of them is asked for: none is the system's own."""
    return {
        "theme": look.theme if look.theme != DEFAULT_THEME else "",
        "colors": {name: _colors(look, name) for name in THEMES},
    }


def _colors(look: Look, name: str) -> dict[str, Any]:
    of = theme(name)
    return {
        "sequential": gradient(look.palette, name, "sequential").astype(int).tolist(),
        "diverging": gradient(look.palette, name, "diverging").astype(int).tolist(),
        "series": of.series,
        "heads": of.heads,
        "paper": of.paper,
        "ink": of.ink,
        "faint": of.faint,
        "hidden": of.hidden,
        "hatch": of.hatch,
    }


def _in_a_page(json: str) -> str:
    """JSON in which nothing looks like the end of what holds it, or like a comment."""
    return json.replace("<", "\\u003c").replace(">", "\\u003e")


@lru_cache
def _file(name: str) -> str:
    return files("attnviz.renderers.page").joinpath(name).read_text("utf-8")


@lru_cache
def _script() -> str:
    parts = "\n".join(_file(f"script/{each}") for each in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


ROOM = 2_500_000  # letters of all steps, which are about 200 kB in a page


def packed_steps(view: View) -> dict[str, str]:
    """The block that a page unpacks; none where there is nothing to follow."""
    if view.following is None or view.heads is None:
        return {}
    parts: dict[str, int] = {}
    found = {
        place: {"title": title, "parts": [parts.setdefault(each, len(parts)) for each in steps]}
        for place, title, steps in _with_room(view)
    }
    text = exact_json({"parts": list(parts), "of": found})
    return {"steps": text_of(zlib.compress(text.encode(), 9))}


def _with_room(view: View) -> Iterator[tuple[int, str, list[str]]]:
    """Each token with its title and the markup of its steps, the one that is asked for first."""
    assert view.heads is not None, "who looks at steps can follow a token"
    asked = view.heads.query or 0
    places = range(len(view.heads.heads[0].reads.labels))
    room = ROOM
    for place in sorted(places, key=lambda each: each != asked):
        title, sections = view.followed(place)
        steps: list[str] = [step(each) for each in sections]
        room -= sum(map(len, steps))
        if room < 0 and place != asked:
            return
        yield place, title, steps


def made(view: View) -> Markup:
    """The command as it is typed; and behind a click whatever else the numbers depend on."""
    if view.provenance is None:
        return NONE
    command = printable(view.provenance.command or "")
    typed = tag("pre", tag("code", command))
    on_paper = tag("p", "Made by ", tag("code", command), class_="on-paper")
    facts = [part for each in _facts(view) for part in each]
    more = tag("details", tag("summary", "How this was made"), typed if command else NONE,
               tag("dl", *facts), id="made")  # fmt: skip
    return together([more, on_paper if command else NONE])


def _facts(view: View) -> Iterator[tuple[Markup, Markup]]:
    """Everything by its name, but for what there is not; numbers and words as Python has them."""
    made_by = view.provenance
    assert made_by is not None, "nobody knows how it was made"
    given = {name: value for name, value in made_by.settings.items() if value is not None}
    facts = {"attnviz": made_by.version, **made_by.versions, **given}
    for name, value in facts.items():
        yield tag("dt", printable(name.replace("_", " "))), tag("dd", printable(str(value)))
