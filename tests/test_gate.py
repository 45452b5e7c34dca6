"""Nothing that a stranger wrote reaches a screen or a file raw, whichever field it stands in.

The fields are found from the types: one that is new is tried without being named here.
"""

from __future__ import annotations

import csv
import io
import json
import re
import types
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from xml.etree import ElementTree

import numpy as np
import pptx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import attnviz as library
from attnviz.analysis.quiz.lesson import Lesson, LessonText
from attnviz.analysis.quiz.quiz_from_lesson import build_quiz
from attnviz.attention.variants import Variant
from attnviz.cli.app import COMMANDS, EXAMPLE_COMMANDS, ExampleCommandGroup, app
from attnviz.errors import AttnvizError
from attnviz.examples.example import Example
from attnviz.learning.progress import Answer
from attnviz.renderers import EXERCISE_RENDERERS, FORMATS
from attnviz.tokens.tokens import Tokens
from attnviz.traces.matrices import Matrices, parse_matrices
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Provenance, Trace
from attnviz.views.grids.section import Section
from attnviz.views.quiz.quiz_view import view as quiz_view
from attnviz.views.view import MACHINE_FIELDS, View, printable_value
from attnviz.wording.commands import PATH_OPTIONS, shell_quote
from attnviz.wording.printable import exact_json, is_printable, printable_text
from tests import LONGEST
from tests.conftest import Attnviz
from tests.learned_by_hand import make_learned
from tests.untrained import traced, untrained

CODES = (
    *range(0x01, 0x20),
    *range(0x7F, 0xA0),
    *(0xA0, 0xAD, 0x200B, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069),
    *(0x3000, 0xE000, 0xFE0F, 0xFEFF, 0xFFF9, 0xFFFE, 0xFFFF, 0x1FFFE, 0xE0041, 0x10FFFF),
)
SEQUENCES = "\x1b[31m\x1b]0;owned\x1b\\\x1b]8;;http://x\x07\x9b2J\x90q\x9c\r\x08"
# As a file may be called, in at most 255 bytes.
OF_A_NAME = f"I{SEQUENCES.replace('/', '')}{''.join(map(chr, CODES[40:]))}\udce9J"
HOSTILE = f"I{SEQUENCES}{''.join(map(chr, CODES))}\ud800\udce9\x00<&>\"'`J"
TEXT = "I am here"
MADE_IN = ("attnviz.views", "attnviz.wording")


def raw(text: str) -> list[str]:
    """What of a text may not be printed, but for the ends of lines and the space of `64 %`."""
    bare = re.sub("(?<=[0-9])\xa0%", "%", text)
    return sorted({each for each in bare if not each.isprintable() and each != "\n"})


# What every kind of file says, as text.


def _of_svg(content: bytes) -> str:
    ElementTree.fromstring(content)
    return content.decode()


def _of_picture(content: bytes) -> str:
    picture = Image.open(io.BytesIO(content))
    return str({key: _text(each) for key, each in picture.info.items()})


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _of_pdf(content: bytes) -> str:
    """The words about the file, which stand in parentheses, in UTF-16 if they must."""
    start = content.index(b"/Creator")
    found = re.findall(rb"/\w+ \(((?:\\.|[^()\\])*)\)", content[start:], re.DOTALL)
    words = [re.sub(rb"\\(.)", rb"\1", each, flags=re.DOTALL) for each in found]
    return "\n".join(
        each.decode("utf-16" if each.startswith(b"\xfe\xff") else "ascii") for each in words
    )


def _of_slides(content: bytes) -> str:
    deck = pptx.Presentation(io.BytesIO(content))
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        written = [parts.read(name).decode() for name in parts.namelist() if "slides/" in name]
    return "\n".join((*written, deck.core_properties.title, deck.core_properties.comments))


def _of_json(content: bytes) -> str:
    json.loads(content)
    return content.decode()


def _of_csv(content: bytes) -> str:
    rows = list(csv.reader(io.StringIO(content.decode())))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if re.match(r"[=@].|[+-](?![\d.,]*$)", cell)]
    return content.decode()


class _Words(HTMLParser):
    """All that a page says: its words, those of its attributes, and the data of its script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag.isalnum()
        self.said += [f"{name} {value or ''}" for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def _of_page(content: bytes) -> str:
    """What it says, and what it is written in; the data that it holds are JSON."""
    page = content.decode()
    for data in re.findall(r'<script type="application/json" id="\w+">(.*?)</script>', page):
        json.loads(data)
    return "\n".join([page, *_Words(page).said])


def _of_npz(content: bytes) -> str:
    np.load(io.BytesIO(content), allow_pickle=False)
    return ""


SAYS: dict[str, Callable[[bytes], str]] = {
    ".png": _of_picture,
    ".gif": _of_picture,
    ".svg": _of_svg,
    ".pdf": _of_pdf,
    ".html": _of_page,
    ".txt": bytes.decode,
    ".md": bytes.decode,
    ".pptx": _of_slides,
    ".json": _of_json,
    ".csv": _of_csv,
    ".npz": _of_npz,
}
QUICK = tuple(suffix for suffix in FORMATS if suffix not in (".png", ".gif", ".pdf", ".pptx"))


def faults(view: View, suffixes: tuple[str, ...] = QUICK) -> dict[str, list[str]]:
    """What is raw, in each kind of file; a terminal prints what a .txt says."""
    said = {suffix: SAYS[suffix](view.render(suffix)) for suffix in suffixes}
    screen = replace(view, as_screen=True).render(".svg")
    found = {suffix: raw(text) for suffix, text in {**said, "screen": _of_svg(screen)}.items()}
    return {suffix: letters for suffix, letters in found.items() if letters}


# Which fields hold texts, by their types.


@cache
def holds_text(hint: object) -> bool:
    """Whether a value of this type can be a text of anybody's, or a sequence of texts."""
    if hint is str:
        return True
    origin = get_origin(hint)
    inner = get_args(hint) if origin in (tuple, list, Union, types.UnionType) else ()
    return any(holds_text(each) for each in inner)


@cache
def texts_of(kind: type) -> dict[str, object]:
    hints = _hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if holds_text(hints[each.name])}


def _hints(kind: type) -> dict[str, Any]:
    from attnviz.traces import trace  # names that only type checkers know there
    from attnviz.wording.commands import Command

    names = {"Provenance": trace.Provenance, "Trace": Trace, "Matrices": Matrices}
    return get_type_hints(kind, localns={**names, "Command": Command})


def held(kind: type, found: dict[type, None] | None = None) -> dict[type, None]:
    """A dataclass and all that it can hold, as far as they are to be seen."""
    found = {} if found is None else found
    if kind not in found:
        found[kind] = None
        hints = {name: each for name, each in _hints(kind).items() if name not in MACHINE_FIELDS}
        for each in fields(kind):
            for inner in _inside(hints.get(each.name)):
                held(inner, found)
    return found


def _inside(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and is_dataclass(hint) and hint.__module__.startswith(MADE_IN):
        yield hint
    for each in get_args(hint) if get_origin(hint) is not Literal else ():
        yield from _inside(each)


def every_text(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a value, with the class and field that it stands in."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from every_text(each, path)
    elif is_dataclass(value):
        for each in fields(value):
            if each.name not in MACHINE_FIELDS:
                name = f"{type(value).__name__}.{each.name}"
                yield from every_text(getattr(value, each.name), name)


def poisoned(value: Any, hint: object = None) -> Any:
    """The same with something hostile in place of every text that is not one of a few words."""
    if isinstance(value, str):
        return HOSTILE if holds_text(hint) else value
    if isinstance(value, (tuple, list)):
        inner = next((each for each in (hint, *get_args(hint)) if get_origin(each) is tuple), None)
        kinds = get_args(inner) or (None,)
        return type(value)(poisoned(each, kinds[0] if kinds[-1:] == (...,) else str if
                                    holds_text(inner) else None) for each in value)  # fmt: skip
    if is_dataclass(value) and type(value).__module__.startswith(MADE_IN):
        hints = _hints(type(value))
        names = [each.name for each in fields(value) if each.name not in MACHINE_FIELDS]
        changed = {name: poisoned(getattr(value, name), hints[name]) for name in names}
        return replace(value, **changed)  # type: ignore[type-var]
    return value


@cache
def views() -> tuple[View, ...]:
    """Views in which there is everything that a View can hold."""
    trace = library.trace(TEXT, tokenizer="words")
    walked = library.steps(trace, query="2", key="1")
    compared = library.compare(TEXT, by="dim", tokenizer="words").view(curves=True, repeats=2)
    shapes = [trace.view(as_="arcs"), trace.view(query="2"), trace.view(query="2", as_="sentence")]
    answers = traced(untrained()).view(predict=True)
    taught = make_learned(answers=[Answer(7, "are", 0.6)]).view()
    heads = library.trace("a b a b a b", tokenizer="words", layers=2, heads=2)
    seen = [library.inspect(heads).view(), library.inspect(heads, query="2").view()]
    long_texts = [library.trace(TEXT, tokenizer="words", stream=True, heads=2).view()]
    long_texts.append(trace.view(show=["received"]))
    lesson = Lesson((LessonText("I am learning this", Settings(dim=2)),))
    others = (*long_texts, quiz_view(build_quiz(lesson), answers=True))
    return (trace.view(), walked.view(), compared, *shapes, answers, taught, *seen, *others)


def test_every_kind_of_part_that_a_view_can_hold_is_tried() -> None:
    tried = {path for view in views() for path, text in every_text((view, view.shots))}
    known = {f"{kind.__name__}.{name}" for kind in held(View) for name in texts_of(kind)}

    assert {"Axis.labels", "Section.about", "Sum.right", "Arrow.name", "Curve.name"} <= known
    assert known - tried <= {"Axis.spaced", "Grid.pooled", "Section.stages"}


@pytest.mark.parametrize("place", range(13))
def test_a_view_lets_nothing_raw_through_whatever_field_it_stands_in(place: int) -> None:
    view = poisoned(views()[place])

    texts = dict.fromkeys(every_text(view))

    assert sum("owned" in text for _, text in texts) > 10
    assert {path: raw(text) for path, text in texts if raw(text)} == {}


def test_frames_that_are_made_when_they_are_wanted_pass_the_gate() -> None:
    taught = make_learned(answers=[Answer(7, "are", 0.6)]).view()
    shots = [replace(poisoned(shot), title=HOSTILE) for shot in taught.shots]

    texts = dict.fromkeys(every_text(replace(taught, film=lambda: tuple(shots)).shots))

    assert sum("owned" in text for _, text in texts) > 3
    assert {path: raw(text) for path, text in texts if raw(text)} == {}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_view_of_hostile_words_alone_is_written_to_every_kind_of_file(suffix: str) -> None:
    trace = library.trace(TEXT, tokenizer="words").view()
    words = dict.fromkeys(("title", "headline", "settings"), HOSTILE)

    assert faults(replace(poisoned(trace), has_chosen_title=True, **words), (suffix,)) == {}


@pytest.mark.parametrize("suffix", EXERCISE_RENDERERS)
def test_a_quiz_of_hostile_words_alone_is_written_to_a_page_and_on_paper(suffix: str) -> None:
    view = replace(poisoned(views()[-1]), has_chosen_title=True, headline=HOSTILE)

    assert faults(view, (suffix,)) == {}


def test_what_is_all_right_is_not_made_anew() -> None:
    view = views()[1]

    again = replace(view)

    assert again.screen is view.screen
    assert printable_value(view.closing) is view.closing


@given(st.text(st.characters()))
def test_the_gate_has_nothing_to_do_twice(text: str) -> None:
    once = printable_text(text)

    assert printable_text(once) == once
    assert is_printable(once)
    assert text != once or is_printable(text)
    assert json.loads(exact_json(text)) == re.sub(
        "[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text
    )
    assert exact_json(text).isprintable()
    assert shell_quote(text).isprintable()


# What any input can set.


def _plain_trace() -> Trace:
    return library.trace(TEXT, tokenizer="words")


def _with(value: Any, name: str, hint: object) -> Any:
    """A field as its type has it, and every text in it hostile."""
    many = any(get_origin(each) in (tuple, list) for each in (hint, *get_args(hint)))
    return replace(value, **{name: (HOSTILE, HOSTILE, "=1+1") if many else HOSTILE})


def _of_tokens(name: str, hint: object) -> View:
    trace = _plain_trace()
    tokens = _with(trace.tokens, name, hint)
    return replace(trace, tokens=tokens, keys=tokens).view()


def _of_provenance(name: str, hint: object) -> View:
    trace = _plain_trace()
    return replace(trace, provenance=_with(trace.provenance, name, hint)).view()


def _of_variant(name: str, hint: object) -> View:
    trace = _plain_trace()
    return replace(trace, variant=_with(trace.variant, name, hint)).view()


def _of_trace(name: str, hint: object) -> View:
    return _with(_plain_trace(), name, hint).view()  # type: ignore[no-any-return]


def _of_matrices(name: str, hint: object) -> View:
    scores = parse_matrices({"scores": np.ones((3, 3))}, "x.toml")
    return library.trace(None, given=_with(scores, name, hint)).view()


def _of_settings(name: str, hint: object) -> View:
    """A file of that name holds what is wanted of it."""
    value, text = HOSTILE, None if name == "given" else TEXT
    if name in PATH_OPTIONS:
        value = f"{OF_A_NAME}.toml" if name == "given" else f"{OF_A_NAME}.txt"
        Path(value).write_text("scores = [[1]]" if name == "given" else "I 1\nam 2\nhere 3\n")
    chosen: dict[str, Any] = {"tokenizer": "words", name: value}
    return library.trace(text, Settings(**chosen)).view()


def _of_example(name: str, hint: object) -> View:
    shown = library.example("simplified")
    return _with(shown, name, hint).view(step="tokens")  # type: ignore[no-any-return]


ROUTES: dict[type, Callable[[str, object], View]] = {
    Settings: _of_settings,
    Matrices: _of_matrices,
    Example: _of_example,
    Tokens: _of_tokens,
    Variant: _of_variant,
    Trace: _of_trace,
    Provenance: _of_provenance,
}
OF_A_TABLE = {(Example, "mistake")}  # a file that names another is refused when it is read
SET = [(kind, name) for kind in ROUTES for name in texts_of(kind) if (kind, name) not in OF_A_TABLE]


def test_the_fields_are_found() -> None:
    names = {f"{kind.__name__}.{name}" for kind, name in SET}

    assert {"Settings.memory", "Settings.given", "Settings.embeddings", "Example.title"} <= names
    assert {"Example.notice", "Example.source", "Matrices.tokens", "Tokens.words"} <= names


@pytest.mark.parametrize(("kind", "name"), SET)
def test_whatever_text_an_input_sets_is_shown_clean_or_refused_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        view = ROUTES[kind](name, texts_of(kind)[name])
    except AttnvizError:
        return  # refused: how that is told, a test below asks of the command line

    assert faults(view) == {}


@dataclass(frozen=True)
class Typed:
    """An option, or a word, that a command takes."""

    command: str
    name: str  # empty for what has none


def _typed() -> Iterator[Typed]:
    import typer

    root: Any = typer.main.get_command(app)
    groups = [
        ("", root, COMMANDS),
        ("example ", ExampleCommandGroup(name="example"), EXAMPLE_COMMANDS),
    ]
    for before, group, table in groups:
        for name in table:
            command: Any = group.get_command(None, name)
            for each in getattr(command, "params", ()):
                if not getattr(each, "is_flag", False):
                    option = each.opts[0] if each.param_type_name == "option" else ""
                    yield Typed(f"{before}{name}", option)


@pytest.mark.parametrize(
    "typed", [*_typed()], ids=lambda each: f"{each.command} {each.name}".strip()
)
def test_whatever_is_typed_is_printed_clean(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = HOSTILE.replace("\x00", "").replace("\ud800", "")  # no argument can hold these
    text = [TEXT] if typed.command in ("run", "steps", "compare") else ["simplified"]
    words = [*text, f"{typed.name}={hostile}"] if typed.name else [hostile]
    if typed.command == "example check":
        words = words[-1:]

    ended = attnviz(*typed.command.split(), *words)

    assert ended.status in (0, 2)
    assert raw(ended.out + ended.err) == []


LESSON = 'title = "{0}"\nnotice = "{0}"\nsource = "{0}"\n[given]\ntokens = ["{0}", "b"]\n'
VECTORS = "embeddings = [[1, 0], [0, 1]]\n[[expect]]\nstep = 'softmax'\nshape = [2, 2]\n"


@pytest.mark.parametrize("words", ["show", "check"])
def test_a_lesson_from_a_stranger_writes_nothing_but_words(
    attnviz: Attnviz, tmp_path: Path, words: str
) -> None:
    escaped = "".join(f"\\U{ord(each):08x}" for each in HOSTILE if not "\ud800" <= each <= "\udfff")
    lesson = tmp_path / "lesson.toml"
    lesson.write_text(LESSON.format(escaped) + VECTORS)

    ended = attnviz("example", words, str(lesson))

    assert ended.status == 0
    assert raw(ended.out + ended.err) == []
    assert "owned" in ended.out


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_name_that_is_no_utf_8_is_written_out_in_every_kind_of_file(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("caf\udce9\x1b[2J.toml").write_text("scores = [[1, 2], [3, 4]]")

    ended = attnviz("run", "--given", "caf\udce9\x1b[2J.toml", "-o", f"x{suffix}")

    assert (ended.status, ended.err) == (0, f"wrote x{suffix}\n")
    assert raw(SAYS[suffix](Path(f"x{suffix}").read_bytes())) == []


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_provenance_spells_what_cannot_be_seen(
    attnviz: Attnviz, tmp_path: Path, suffix: str
) -> None:
    out, text = tmp_path / f"x{suffix}", "I \x1b\x85\x9b\u200f\u202e\ufeff\ufff9\ufffe\uffff"

    attnviz("run", text, "-t", "words", "-o", str(out), "--size", "3x3", "--dpi", "30")

    said = SAYS[suffix](out.read_bytes())
    assert raw(said) == []
    assert "attnviz run" in said
    assert "ufffe" in said


def test_data_keeps_the_text_exactly_and_spells_it(attnviz: Attnviz) -> None:
    text = "a\x1b[2J\u202e \u200f\ufffe b\U000e0041"

    told = attnviz("run", text, "-t", "chars", "--json").out

    assert raw(told) == []
    assert json.loads(told)["text"] == text


def test_a_spreadsheet_computes_no_token(attnviz: Attnviz, tmp_path: Path) -> None:
    words = ["=HYPERLINK(1)", "@SUM", "+x", "-x", "-", "=", "-5", "+1.5", "＝x", "a"]
    given = tmp_path / "x.json"
    given.write_text(json.dumps({"tokens": words, "scores": [[0.0] * len(words)] * len(words)}))

    attnviz("run", "--given", str(given), "-o", str(tmp_path / "x.csv"))

    rows = list(csv.DictReader((tmp_path / "x.csv").read_text("utf-8").splitlines()))
    told = [row["key"] for row in rows[: len(words)]]
    assert told == [
        "'=HYPERLINK(1)", "'@SUM", "'+x", "'-x", "-", "=", "-5", "+1.5", "'＝x", "a",
    ]  # fmt: skip


@pytest.mark.parametrize("command", [HOSTILE, "attnviz run 'I", f"attnviz run '{HOSTILE}' -o"])
def test_a_saved_trace_from_a_stranger_is_shown_clean(
    attnviz: Attnviz, tmp_path: Path, command: str
) -> None:
    saved = tmp_path / "x.json"
    attnviz("run", TEXT, "-t", "words", "-o", str(saved))
    contents = json.loads(saved.read_text("utf-8"))
    contents["attnviz"]["command"] = command
    contents["text"] = contents["trace"]["tokens"]["text"] = HOSTILE
    contents["trace"]["tokens"]["words"] = [HOSTILE] * 3
    saved.write_text(json.dumps(contents))

    for more in ([], ["--json"]):
        ended = attnviz("run", "--trace", str(saved), *more)
        assert ended.status in (0, 2)
        assert raw(ended.out + ended.err) == []


def test_a_word_of_a_command_is_read_by_a_shell_as_what_it_was() -> None:
    import subprocess

    words = ["I am", "it's\x1b[2J\n", "a\\b\t'", "\u202e日\ufffe\U000e0041", "caf\udce9"]
    line = f"printf '%s\\0' {' '.join(map(shell_quote, words))}"

    said = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
        timeout=LONGEST,
    )

    assert said.stdout.decode(errors="surrogateescape").split("\0")[:-1] == words


def test_a_section_that_is_shown_alone_is_clean_as_well() -> None:
    view = poisoned(views()[1])
    alone = view.of_section(next(iter(view.sections)))

    assert isinstance(alone.sections[0], Section)
    assert {path: raw(text) for path, text in every_text(alone) if raw(text)} == {}
