"""Fills the template of a page: words, heads, script, policy, provenance."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from attnviz.renderers import Look
from attnviz.renderers.colors import DEFAULT_THEME, THEMES, color_anchors, find_theme
from attnviz.renderers.page.head_tables import pack_heads
from attnviz.renderers.page.packing import (
    BITS_OF_A_BYTE,
    compress_bits,
    encode_base64,
    pack_fixed_point,
    pack_float_planes,
)
from attnviz.renderers.page.tables_and_steps import page_panels, step_markup
from attnviz.renderers.page.tags import NO_MARKUP, Markup, join_markup, tag
from attnviz.renderers.page.theming import theme_rules
from attnviz.renderers.page.vector_tables import without_stored_vectors
from attnviz.views.grids.live_model import LiveModel
from attnviz.views.view import View
from attnviz.wording.printable import exact_json, printable_text

LOADER_SCRIPT = "script/loader.js"  # unpacks the others, which are most of a page, and runs them
# The script of a page: first the data, last what begins. Between them any order does: no script
# needs another one, but for the data, before all are there.
FIRST_SCRIPT, LAST_SCRIPT = "data.js", "main.js"
ALL_SCRIPTS = {path.name for path in Path(__file__).with_name("script").glob("*.js")}
OTHER_SCRIPTS = ALL_SCRIPTS - {FIRST_SCRIPT, LAST_SCRIPT, LOADER_SCRIPT.removeprefix("script/")}
SCRIPT_FILES = (FIRST_SCRIPT, *sorted(OTHER_SCRIPTS), LAST_SCRIPT)
# Only a page that computes has these, the first of them only one that draws vectors from a seed.
DRAWING_SCRIPT_FILES = ("drawn_numbers.js", "hashing.js", "live_pieces.js")
LIVE_FILES = (
    *DRAWING_SCRIPT_FILES,
    *("live_tokens.js", "forward_pass.js", "live_heads.js", "live.js", "tour.js", "tour_answer.js"),
    *("live.css", "tour.css"),
)
ANSWER_FILES = ("tour_answer.js",)
POINT_FILES = ("points.js", "points.css")
STEP_FILES = ("steps.js", "markup.js")
PASSAGE_FILES = ("passages.js", "passages.css")
STYLE_FILES = (
    "style.css",
    "controls.css",
    "panels.css",
    "matrix.css",
    "arithmetic.css",
    "lines.css",
    "reading.css",
    "passages.css",
    "points.css",
    "live.css",
    "tour.css",
    "layout.css",
    "paper.css",
)
# Only what is in the page itself: no network, no frames, no plug-ins, no forms.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {style}; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
COMMENT_LINES = re.compile(r"^[ \t]*(?://.*|/\*(?:(?!\*/)[\s\S])*\*/)[ \t]*\n", re.MULTILINE)
TRAILING_COMMENT = re.compile(r"^([^\"'`/]*?)\s+// .*$")
JOINED_STRINGS = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)")
NO_DIVISION = re.compile(r"(?<! )/|/(?! )|`.*`.*`")  # may begin a regular expression or nest
STYLE_SPACE = re.compile(r"\s*([{},;>])\s*|(?<=[\w-]:) ")
SPACED_SIGN = re.compile(r" ?([=,;:?(){}\[\]<>&|*%^!]) ?")
LONG_TITLE_LETTERS = 80
# `it (12)` and `2.9–3.7` stay on one line.
UNBROKEN_WORDS = re.compile(r"((?<!\S)\S{1,20} \(\d+\)|(?<!\S)\(?[\d.]+–[\d.]+)")
BLOCKS_PLACEHOLDER = "$blocks"  # of the packed heads
MAX_EXACT_NUMBERS = 20_000  # of a model; larger ones have 24 bits for each
MAX_STEP_LETTERS = 2_500_000  # of the steps of all tokens: about 200 kB in a page


def html(view: View, look: Look) -> Iterator[bytes]:
    """Yield the bytes of the page: its beginning, each block of packed numbers, and its end."""
    about, blocks = dict[str, Any](), dict[str, str]()
    if view.heads is not None:
        explorer = view.heads if view.live is None else without_stored_vectors(view.heads)
        about, blocks = pack_heads(explorer, vectors=look.vectors)
    live, model_blocks = ({}, {}) if view.live is None else pack_live(view.live)
    blocks |= pack_steps(view) | model_blocks
    words = _page_texts(view, look, about, live)
    before, after = map(Template, read_page_file("page.html").split(BLOCKS_PLACEHOLDER))
    yield before.substitute(words).encode()
    for name, block in blocks.items():
        yield f'<script type="application/octet-stream" id="{name}">{block}</script>\n'.encode()
    yield after.substitute(words).encode()


def _page_texts(
    view: View, look: Look, about: Mapping[str, Any], live: Mapping[str, Any]
) -> dict[str, str]:
    """Return the texts for the placeholders in page.html; `about` describes the heads, and `live`
    the model that the page computes: {} without any.
    """
    unused = _unused_files(view, about)
    styles = [
        strip_style(read_page_file(f"style/{name}")) for name in STYLE_FILES if name not in unused
    ]
    style = theme_rules(look.colors) + "".join(styles)
    script = join_scripts(tuple(f"script/{name}" for name in SCRIPT_FILES if name not in unused))
    loader = join_scripts((LOADER_SCRIPT,))
    theme_name = "" if look.theme == DEFAULT_THEME else look.theme
    title = view.headline if view.has_chosen_title else view.title
    points = None if view.cloud is None else asdict(view.cloud)
    script_data = {
        "attention": about,
        "points": points,
        "live": live or None,
        "look": _theme_colors(look),
        "about": title,
    }
    return {
        "policy": content_security_policy(style, loader, script),
        "theme": f' class="{theme_name}"' if theme_name else "",
        "explorer": "" if about else " hidden",
        "title": escape(view.headline or view.title),
        "headline": _page_title(view.headline or view.title),
        "described": escape(view.screen.description),
        "settings": _paragraph(view.settings, "settings"),
        "caveat": _paragraph(view.screen.caveat or " " * bool(live), "caveat"),
        "accuracy": _paragraph(about.get("accuracy", ""), "accuracy"),
        "closing": join_markup(
            tag("p", _without_headline(note, view.headline)) for note in view.notes
        ),
        "panels": page_panels(view),
        "made": provenance_details(view),
        "provenance": _escape_json(view.provenance_text or "null"),
        "data": _escape_json(exact_json(script_data)),
        "style": style,
        "script": pack_script(script),
        "loader": loader,
    }


def _without_headline(note: str, headline: str) -> str:
    """Return a note without the headline and colon that it begins with, then with a capital."""
    start, text = note[: len(headline) + 2], note[len(headline) + 2 :]
    return f"{text[:1].upper()}{text[1:]}" if headline and start == f"{headline}: " else note


def _page_title(title: str) -> Markup:
    """Return the title as a heading, in smaller letters if it is long; numbers stay on one line."""
    parts = [tag("span", piece, class_="whole") if number % 2 else piece
             for number, piece in enumerate(UNBROKEN_WORDS.split(title))]  # fmt: skip
    return tag("h1", *parts, class_="long" if len(title) > LONG_TITLE_LETTERS else None)


def _paragraph(text: str, element_id: str) -> Markup:
    return tag("p", text, id=element_id) if text else NO_MARKUP


def _theme_colors(look: Look) -> dict[str, Any]:
    """Return the colours of both themes, and the theme of the look, '' for the reader's system's.

    The light one is the default, so that it is never asked for.
    """
    return {
        "theme": look.theme if look.theme != DEFAULT_THEME else "",
        "colors": {name: _color_table(look, name) for name in THEMES},
    }


def _color_table(look: Look, name: str) -> dict[str, Any]:
    """Return the colours of a theme and the anchors of its scales, as JSON data."""
    theme = find_theme(name)
    names = ("series", "heads", "paper", "ink", "faint", "hidden", "hatch")
    return {
        "sequential": color_anchors(look.colors, name, "sequential").astype(int).tolist(),
        "diverging": color_anchors(look.colors, name, "diverging").astype(int).tolist(),
        **{color: getattr(theme, color) for color in names},
    }


def _escape_json(json: str) -> str:
    """Return JSON in which nothing looks like the end of a script element, or like a comment."""
    return json.replace("<", "\\u003c").replace(">", "\\u003e")


@lru_cache
def read_page_file(name: str, package: str = "attnviz.renderers.page") -> str:
    """Return the text of a file beside the modules of a package, such as 'style/lines.css'."""
    return files(package).joinpath(name).read_text("utf-8")


def _unused_files(view: View, about: Mapping[str, Any]) -> set[str]:
    """Return the scripts and styles that a page does without, which has little room for a model;
    `about` describes its heads.
    """
    live = view.live
    draws = live is not None and (live.vocabulary is None or "pieces" in live.blocks)
    answers = None if live is None or live.vocabulary is None else live.vocabulary["answers"]
    used = {
        LIVE_FILES: live is not None,
        ANSWER_FILES: bool(answers),
        DRAWING_SCRIPT_FILES: draws,
        POINT_FILES: view.cloud is not None,
        STEP_FILES: view.query_steps is not None,
        PASSAGE_FILES: bool(about.get("passages")),
    }
    return {name for names, is_used in used.items() if not is_used for name in names}


@lru_cache
def join_scripts(names: tuple[str, ...], *texts: str) -> str:
    """Return the script of a page: these files beside this module, then texts of other scripts."""
    parts = "".join(map(strip_script, (*map(read_page_file, names), *texts)))
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def strip_script(text: str) -> str:
    """Return a script without comments and needless white space: a page has room for little else.

    Lines with several templates, or with a slash that may begin a regular expression, stay as they
    are.
    """
    lines = (_strip_line(line) for line in COMMENT_LINES.sub("", text).splitlines())
    return "".join(lines)


def _strip_line(line: str) -> str:
    """Return a line of a script, with its end only where the next line could not go on."""
    plain = TRAILING_COMMENT.sub(r"\1", line.strip())
    if not NO_DIVISION.search(plain):
        parts = JOINED_STRINGS.split(plain)
        parts[::2] = [SPACED_SIGN.sub(r"\1", part) for part in parts[::2]]
        plain = "".join(parts)
    return plain if not plain or (plain[-1] in "{,;([" and "//" not in plain) else f"{plain}\n"


def strip_style(text: str) -> str:
    """Return a style sheet without comments and needless white space."""
    parts = JOINED_STRINGS.split(COMMENT_LINES.sub("", text))
    parts[::2] = [STYLE_SPACE.sub(lambda sign: sign[1] or "", part) for part in parts[::2]]
    return "".join(parts).strip().replace(";}", "}")


@lru_cache
def pack_script(script: str) -> str:
    """Return a script as a block of the page, which `loader.js` unpacks: a fourth of its size."""
    return encode_base64(compress_bits(script.encode()))


def content_security_policy(style: str, *scripts: str) -> str:
    """Return the policy of a page that has this style and these scripts alone."""
    return CONTENT_SECURITY_POLICY.format(
        scripts=" ".join(map(_hash_source, scripts)), style=_hash_source(style)
    )


def _hash_source(text: str) -> str:
    """Return the SHA-256 of a text as a content security policy has it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def pack_steps(view: View) -> dict[str, str]:
    """Return {'steps': block} with the steps of each token; {} if no token can be followed.

    Texts that several tokens share are stored once.
    """
    if view.query_steps is None or view.heads is None:
        return {}
    parts: dict[str, int] = {}
    steps_by_token = {
        position: {"title": title, "parts": [parts.setdefault(step, len(parts)) for step in steps]}
        for position, title, steps in _steps_within_limit(view)
    }
    text = exact_json({"parts": list(parts), "of": steps_by_token})
    return {"steps": encode_base64(zlib.compress(text.encode(), 9))}


def pack_live(live: LiveModel) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the page's script needs to compute a model, as JSON data, and its numbers."""
    tensors_in_order = [*live.tensors.values()]
    block, exponents = pack_fixed_point(tensors_in_order)
    is_exact = sum(tensor.size for tensor in tensors_in_order) <= MAX_EXACT_NUMBERS
    if is_exact:
        block = pack_float_planes(tensors_in_order)
    tensors = [
        {"name": name, "rows": shape[0], "columns": shape[1], "exponent": exponent}
        for (name, tensor), exponent in zip(live.tensors.items(), exponents, strict=True)
        for shape in [(1, *tensor.shape)[-2:]]
    ]
    about = {"text": live.text, "tokenizer": live.tokenizer, "vocabulary": live.vocabulary}
    data: dict[str, Any] = {**live.facts, **about, "tensors": tensors, "places": live.places}
    data |= {"exact": is_exact, "moments": [], "momentBytes": live.moment_bits // BITS_OF_A_BYTE}
    blocks = {"model": block}
    blocks |= {name: zlib.compress(part, 9) for name, part in live.blocks.items()}
    for number, moment in enumerate(live.moments):
        parameters = [moment[name] for name in live.tensors]
        blocks[f"moment-{number}"], exponents = pack_fixed_point(parameters, live.moment_bits)
        data["moments"].append(exponents)
    return data, {name: encode_base64(part) for name, part in blocks.items()}


def _steps_within_limit(view: View) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (token, title, its steps as markup), the followed token first.

    Once the markup exceeds a limit of letters, other tokens have no steps.
    """
    assert view.heads is not None, "who looks at steps can follow a token"
    query = view.heads.query or 0
    positions = range(len(view.heads.heads[0].query_axis.labels))
    letters_left = MAX_STEP_LETTERS
    for position in sorted(positions, key=lambda position: position != query):
        title, sections = view.steps_of_query(position)
        steps: list[str] = [step_markup(section) for section in sections]
        letters_left -= sum(map(len, steps))
        if letters_left < 0 and position != query:
            return
        yield position, title, steps


def provenance_details(view: View) -> Markup:
    """Return the command that made the view, and behind a click all that its numbers depend on.

    Nothing without provenance.
    """
    if view.provenance is None:
        return NO_MARKUP
    command = printable_text(view.provenance.command or "")
    command_block = tag("pre", tag("code", command))
    on_paper = tag("p", "Made by ", tag("code", command), class_="on-paper")
    facts = [part for fact in _provenance_rows(view) for part in fact]
    if not command:
        command_block = on_paper = NO_MARKUP
    summary = tag("summary", "How this was made")
    details = tag("details", summary, command_block, tag("dl", *facts), id="made")
    return join_markup([details, on_paper])


def _provenance_rows(view: View) -> Iterator[tuple[Markup, Markup]]:
    """Yield versions and settings as pairs (name, value) of markup; None is left out."""
    provenance = view.provenance
    assert provenance is not None, "nobody knows how it was made"
    settings = {name: value for name, value in provenance.settings.items() if value is not None}
    facts = {"attnviz": provenance.version, **provenance.versions, **settings}
    for name, value in facts.items():
        yield (
            tag("dt", printable_text(name.replace("_", " "))),
            tag("dd", printable_text(str(value))),
        )
