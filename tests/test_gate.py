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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
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
from attnviz.attention.variants import Variant
from attnviz.cli.app import COMMANDS, app
from attnviz.errors import AttnvizError
from attnviz.learning.progress import Answer
from attnviz.renderers import EXERCISE_RENDERERS, FORMATS
from attnviz.tokens.tokens import Tokens
from attnviz.traces.matrices import Matrices, parse_matrices
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Provenance, Trace
from attnviz.views.grids.section import Section
from attnviz.views.view import MACHINE_FIELDS, View, printable_value
from attnviz.wings.examples.example import Example
from attnviz.wings.examples.group import EXAMPLE_COMMANDS, ExampleCommandGroup
from attnviz.wings.quiz.lesson import Lesson, LessonText
from attnviz.wings.quiz.quiz import build_quiz
from attnviz.wings.quiz.view import view as quiz_view
from attnviz.wording.commands import is_path, shell_quote
from attnviz.wording.printable import exact_json, is_printable, printable_text
from tests import LONGEST
from tests.conftest import Attnviz
from tests.learned_by_hand import make_learned
from tests.untrained import trace_model, untrained_model

CODE_POINTS = (
    *range(0x01, 0x20),
    *range(0x7F, 0xA0),
    *(0xA0, 0xAD, 0x200B, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069),
    *(0x3000, 0xE000, 0xFE0F, 0xFEFF, 0xFFF9, 0xFFFE, 0xFFFF, 0x1FFFE, 0xE0041, 0x10FFFF),
)
SEQUENCES = "\x1b[31m\x1b]0;owned\x1b\\\x1b]8;;http://x\x07\x9b2J\x90q\x9c\r\x08"
# A possible name of a file, in at most 255 bytes.
HOSTILE_FILE_NAME = f"I{SEQUENCES.replace('/', '')}{''.join(map(chr, CODE_POINTS[40:]))}\udce9J"
HOSTILE = f"I{SEQUENCES}{''.join(map(chr, CODE_POINTS))}\ud800\udce9\x00<&>\"'`J"
TEXT = "I am here"
MODULES_OF_VIEWS = ("attnviz.views", "attnviz.wording")


def unprintable_characters(text: str) -> list[str]:
    """The characters that may not be printed; ends of lines and the space of `64 %` may."""
    text_without_percent = re.sub("(?<=[0-9])\xa0%", "%", text)
    return sorted(
        {each for each in text_without_percent if not each.isprintable() and each != "\n"}
    )


# The text in every kind of file.


def _text_of_svg(content: bytes) -> str:
    ElementTree.fromstring(content)
    return content.decode()


def _text_of_picture(content: bytes) -> str:
    picture = Image.open(io.BytesIO(content))
    return str({key: _decode(each) for key, each in picture.info.items()})


def _decode(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _text_of_pdf(content: bytes) -> str:
    """The words about the file, which stand in parentheses, in UTF-16 if they must."""
    start = content.index(b"/Creator")
    matches = re.findall(rb"/\w+ \(((?:\\.|[^()\\])*)\)", content[start:], re.DOTALL)
    words = [re.sub(rb"\\(.)", rb"\1", each, flags=re.DOTALL) for each in matches]
    return "\n".join(
        each.decode("utf-16" if each.startswith(b"\xfe\xff") else "ascii") for each in words
    )


def _text_of_slides(content: bytes) -> str:
    deck = pptx.Presentation(io.BytesIO(content))
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        xml_of_slides = [
            parts.read(name).decode() for name in parts.namelist() if "slides/" in name
        ]
    return "\n".join((*xml_of_slides, deck.core_properties.title, deck.core_properties.comments))


def _text_of_json(content: bytes) -> str:
    json.loads(content)
    return content.decode()


def _text_of_csv(content: bytes) -> str:
    rows = list(csv.reader(io.StringIO(content.decode())))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if re.match(r"[=@].|[+-](?![\d.,]*$)", cell)]
    return content.decode()


class _PageWords(HTMLParser):
    """All text of a page: words, attributes, and the data of its script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag.isalnum()
        self.words += [f"{name} {value or ''}" for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _text_of_page(content: bytes) -> str:
    """The page's source and its text; the data in it must be JSON."""
    page = content.decode()
    for data in re.findall(r'<script type="application/json" id="\w+">(.*?)</script>', page):
        json.loads(data)
    return "\n".join([page, *_PageWords(page).words])


def _text_of_npz(content: bytes) -> str:
    np.load(io.BytesIO(content), allow_pickle=False)
    return ""


TEXT_OF_FILE_TYPE: dict[str, Callable[[bytes], str]] = {
    ".png": _text_of_picture,
    ".gif": _text_of_picture,
    ".svg": _text_of_svg,
    ".pdf": _text_of_pdf,
    ".html": _text_of_page,
    ".txt": bytes.decode,
    ".md": bytes.decode,
    ".pptx": _text_of_slides,
    ".json": _text_of_json,
    ".csv": _text_of_csv,
    ".npz": _text_of_npz,
}
QUICK_FORMATS = tuple(
    suffix for suffix in FORMATS if suffix not in (".png", ".gif", ".pdf", ".pptx")
)


def unprintable_by_suffix(
    view: View, suffixes: tuple[str, ...] = QUICK_FORMATS
) -> dict[str, list[str]]:
    """The unprintable characters in each kind of file; a terminal prints what a .txt has."""
    text_by_suffix = {suffix: TEXT_OF_FILE_TYPE[suffix](view.render(suffix)) for suffix in suffixes}
    screen = replace(view, as_screen=True).render(".svg")
    raw_by_suffix = {
        suffix: unprintable_characters(text)
        for suffix, text in {**text_by_suffix, "screen": _text_of_svg(screen)}.items()
    }
    return {suffix: letters for suffix, letters in raw_by_suffix.items() if letters}


# Which fields hold texts, by their types.


@cache
def holds_text(hint: object) -> bool:
    """Whether a value of this type can be any text, or a sequence of texts."""
    if hint is str:
        return True
    origin = get_origin(hint)
    inner = get_args(hint) if origin in (tuple, list, Union, types.UnionType) else ()
    return any(holds_text(each) for each in inner)


@cache
def text_fields(kind: type) -> dict[str, object]:
    hints = _type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if holds_text(hints[each.name])}


def _type_hints(kind: type) -> dict[str, Any]:
    from attnviz.traces import trace  # names that only type checkers know there
    from attnviz.wording.commands import Command

    names = {"Provenance": trace.Provenance, "Trace": Trace, "Matrices": Matrices}
    return get_type_hints(kind, localns={**names, "Command": Command})


def kinds_held_by(kind: type, kinds: dict[type, None] | None = None) -> dict[type, None]:
    """A dataclass and all dataclasses that its shown fields can hold."""
    kinds = {} if kinds is None else kinds
    if kind not in kinds:
        kinds[kind] = None
        hints = {
            name: each for name, each in _type_hints(kind).items() if name not in MACHINE_FIELDS
        }
        for each in fields(kind):
            for inner in _dataclasses_in(hints.get(each.name)):
                kinds_held_by(inner, kinds)
    return kinds


def _dataclasses_in(hint: object) -> Iterator[type]:
    if (
        isinstance(hint, type)
        and is_dataclass(hint)
        and hint.__module__.startswith(MODULES_OF_VIEWS)
    ):
        yield hint
    for each in get_args(hint) if get_origin(hint) is not Literal else ():
        yield from _dataclasses_in(each)


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


def raw_texts(texts: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """What cannot be printed in texts, by the field in which it stands."""
    return {path: raw for path, text in texts if (raw := unprintable_characters(text))}


def fill_with_hostile_text(value: Any, hint: object = None) -> Any:
    """The same value with hostile text in place of every text that can be any."""
    if isinstance(value, str):
        return HOSTILE if holds_text(hint) else value
    if isinstance(value, (tuple, list)):
        inner = next((each for each in (hint, *get_args(hint)) if get_origin(each) is tuple), None)
        kinds = get_args(inner) or (None,)
        return type(value)(fill_with_hostile_text(each, kinds[0] if kinds[-1:] == (...,) else str if
                                    holds_text(inner) else None) for each in value)  # fmt: skip
    if is_dataclass(value) and type(value).__module__.startswith(MODULES_OF_VIEWS):
        hints = _type_hints(type(value))
        names = [each.name for each in fields(value) if each.name not in MACHINE_FIELDS]
        hostile_fields = {
            name: fill_with_hostile_text(getattr(value, name), hints[name]) for name in names
        }
        return replace(value, **hostile_fields)  # type: ignore[type-var]
    return value


@cache
def views() -> tuple[View, ...]:
    """Views in which there is everything that a View can hold."""
    trace = library.trace(TEXT, tokenizer="words")
    walk = library.steps(trace, query="2", key="1")
    comparison = library.compare(TEXT, by="dim", tokenizer="words").view(curves=True, repeats=2)
    other_shapes = [
        trace.view(as_="arcs"),
        trace.view(query="2"),
        trace.view(query="2", as_="sentence"),
    ]
    answers = trace_model(untrained_model()).view(predict=True)
    learned_view = make_learned(answers=[Answer(7, "are", 0.6)]).view()
    heads = library.trace("a b a b a b", tokenizer="words", layers=2, heads=2)
    inspections = [library.inspect(heads).view(), library.inspect(heads, query="2").view()]
    long_texts = [library.trace(TEXT, tokenizer="words", stream=True, heads=2).view()]
    long_texts.append(trace.view(show=["received"]))
    lesson = Lesson((LessonText("I am learning this", Settings(dim=2)),))
    views_of_other_results = (*long_texts, quiz_view(build_quiz(lesson), answers=True))
    return (
        trace.view(),
        walk.view(),
        comparison,
        *other_shapes,
        answers,
        learned_view,
        *inspections,
        *views_of_other_results,
    )


def test_every_kind_of_part_that_a_view_can_hold_is_tried() -> None:
    tried_fields = {path for view in views() for path, text in every_text((view, view.shots))}
    known_fields = {
        f"{kind.__name__}.{name}" for kind in kinds_held_by(View) for name in text_fields(kind)
    }

    assert {"Axis.labels", "Section.about", "Sum.right", "Arrow.name", "Curve.name"} <= known_fields
    assert known_fields - tried_fields <= {"Axis.spaced", "Grid.pooled", "Section.stages"}


@pytest.mark.parametrize("index", range(13))
def test_a_view_lets_nothing_raw_through_whatever_field_it_stands_in(index: int) -> None:
    view = fill_with_hostile_text(views()[index])

    texts = dict.fromkeys(every_text(view))

    assert sum("owned" in text for _, text in texts) > 10
    assert raw_texts(texts) == {}


def test_frames_that_are_made_when_they_are_wanted_pass_the_gate() -> None:
    learned_view = make_learned(answers=[Answer(7, "are", 0.6)]).view()
    shots = [replace(fill_with_hostile_text(shot), title=HOSTILE) for shot in learned_view.shots]

    texts = dict.fromkeys(every_text(replace(learned_view, film=lambda: tuple(shots)).shots))

    assert sum("owned" in text for _, text in texts) > 3
    assert raw_texts(texts) == {}


@pytest.mark.slow_table("formats", keep=4)
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_view_of_hostile_words_alone_is_written_to_every_kind_of_file(suffix: str) -> None:
    trace = library.trace(TEXT, tokenizer="words").view()
    words = dict.fromkeys(("title", "headline", "settings"), HOSTILE)

    assert (
        unprintable_by_suffix(
            replace(fill_with_hostile_text(trace), has_chosen_title=True, **words), (suffix,)
        )
        == {}
    )


@pytest.mark.slow("formats")
@pytest.mark.parametrize("suffix", EXERCISE_RENDERERS)
def test_a_quiz_of_hostile_words_alone_is_written_to_a_page_and_on_paper(suffix: str) -> None:
    view = replace(fill_with_hostile_text(views()[-1]), has_chosen_title=True, headline=HOSTILE)

    assert unprintable_by_suffix(view, (suffix,)) == {}


def test_what_is_all_right_is_not_made_anew() -> None:
    view = views()[1]

    copy = replace(view)

    assert copy.screen is view.screen
    assert printable_value(view.closing) is view.closing


@given(st.text(st.characters()))
def test_the_gate_has_nothing_to_do_twice(text: str) -> None:
    printable = printable_text(text)

    assert printable_text(printable) == printable
    assert is_printable(printable)
    assert text != printable or is_printable(text)
    assert json.loads(exact_json(text)) == re.sub(
        "[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text
    )
    assert exact_json(text).isprintable()
    assert shell_quote(text).isprintable()


# Fields that any input can set.


def _plain_trace() -> Trace:
    return library.trace(TEXT, tokenizer="words")


def _replace_field(value: Any, name: str, hint: object) -> Any:
    """The value with hostile text in one field, in a sequence if its type has one."""
    is_sequence = any(get_origin(each) in (tuple, list) for each in (hint, *get_args(hint)))
    return replace(value, **{name: (HOSTILE, HOSTILE, "=1+1") if is_sequence else HOSTILE})


def _view_with_part(part: str, name: str, hint: object) -> View:
    """A view of a trace of which this part has hostile text in a field."""
    trace = _plain_trace()
    hostile_part = _replace_field(getattr(trace, part), name, hint)
    keys = {"keys": hostile_part} if part == "tokens" else {}
    return replace(trace, **{part: hostile_part}, **keys).view()


def _view_with_matrices(name: str, hint: object) -> View:
    scores = parse_matrices({"scores": np.ones((3, 3))}, "x.toml")
    return library.trace(None, given=_replace_field(scores, name, hint)).view()


def _view_with_settings(name: str, hint: object) -> View:
    """Where the setting is a path, the file exists and has the expected contents."""
    value, text = HOSTILE, None if name == "given" else TEXT
    if is_path(name):
        value = f"{HOSTILE_FILE_NAME}.toml" if name == "given" else f"{HOSTILE_FILE_NAME}.txt"
        Path(value).write_text("scores = [[1]]" if name == "given" else "I 1\nam 2\nhere 3\n")
    options: dict[str, Any] = {"tokenizer": "words", name: value}
    return library.trace(text, Settings(**options)).view()


def _view_with_example(name: str, hint: object) -> View:
    chosen_example = library.example("simplified")
    return _replace_field(chosen_example, name, hint).view(step="tokens")  # type: ignore[no-any-return]


VIEW_WITH_FIELD: dict[type, Callable[[str, object], View]] = {
    Settings: _view_with_settings,
    Matrices: _view_with_matrices,
    Example: _view_with_example,
    Tokens: partial(_view_with_part, "tokens"),
    Variant: partial(_view_with_part, "variant"),
    Trace: lambda name, hint: _replace_field(_plain_trace(), name, hint).view(),
    Provenance: partial(_view_with_part, "provenance"),
}
REFUSED_WHEN_READ = {(Example, "mistake")}  # a file that names another is refused when it is read
TEXT_FIELDS = [
    (kind, name)
    for kind in VIEW_WITH_FIELD
    for name in text_fields(kind)
    if (kind, name) not in REFUSED_WHEN_READ
]


def test_the_fields_are_found() -> None:
    names = {f"{kind.__name__}.{name}" for kind, name in TEXT_FIELDS}

    assert {"Settings.memory", "Settings.given", "Settings.embeddings", "Example.title"} <= names
    assert {"Example.notice", "Example.source", "Matrices.tokens", "Tokens.words"} <= names


@pytest.mark.slow_table("calls", keep=9)
@pytest.mark.parametrize(("kind", "name"), TEXT_FIELDS)
def test_whatever_text_an_input_sets_is_shown_clean_or_refused_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        view = VIEW_WITH_FIELD[kind](name, text_fields(kind)[name])
    except AttnvizError:
        return  # refused: how that is told, a test below asks of the command line

    assert unprintable_by_suffix(view) == {}


@dataclass(frozen=True)
class TypedArgument:
    """An option, or a word, that a command takes."""

    command: str
    name: str  # empty for what has none


def options_and_words() -> Iterator[TypedArgument]:
    import typer

    root: Any = typer.main.get_command(app)
    groups = [
        ("", root, COMMANDS),
        ("example ", ExampleCommandGroup(name="example"), EXAMPLE_COMMANDS),
    ]
    for prefix, group, table in groups:
        for name in table:
            command: Any = group.get_command(None, name)
            for each in getattr(command, "params", ()):
                if not getattr(each, "is_flag", False):
                    option = each.opts[0] if each.param_type_name == "option" else ""
                    yield TypedArgument(f"{prefix}{name}", option)


@pytest.mark.slow_table("calls", keep=45)
@pytest.mark.parametrize(
    "argument", [*options_and_words()], ids=lambda each: f"{each.command} {each.name}".strip()
)
def test_whatever_is_typed_is_printed_clean(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: TypedArgument
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = HOSTILE.replace("\x00", "").replace("\ud800", "")  # no argument can hold these
    text = [TEXT] if argument.command in ("run", "steps", "compare") else ["simplified"]
    arguments = [*text, f"{argument.name}={hostile}"] if argument.name else [hostile]
    if argument.command == "example check":
        arguments = arguments[-1:]

    result = attnviz(*argument.command.split(), *arguments)

    assert result.status in (0, 2)
    assert unprintable_characters(result.out + result.err) == []


LESSON = 'title = "{0}"\nnotice = "{0}"\nsource = "{0}"\n[given]\ntokens = ["{0}", "b"]\n'
VECTORS = "embeddings = [[1, 0], [0, 1]]\n[[expect]]\nstep = 'softmax'\nshape = [2, 2]\n"


@pytest.mark.parametrize("subcommand", ["show", "check"])
def test_a_lesson_from_a_stranger_writes_nothing_but_words(
    attnviz: Attnviz, tmp_path: Path, subcommand: str
) -> None:
    escaped_text = "".join(
        f"\\U{ord(each):08x}" for each in HOSTILE if not "\ud800" <= each <= "\udfff"
    )
    lesson = tmp_path / "lesson.toml"
    lesson.write_text(LESSON.format(escaped_text) + VECTORS)

    result = attnviz("example", subcommand, str(lesson))

    assert result.status == 0
    assert unprintable_characters(result.out + result.err) == []
    assert "owned" in result.out


@pytest.mark.slow_table("formats", keep=4)
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_name_that_is_no_utf_8_is_written_out_in_every_kind_of_file(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("caf\udce9\x1b[2J.toml").write_text("scores = [[1, 2], [3, 4]]")

    result = attnviz("run", "--given", "caf\udce9\x1b[2J.toml", "-o", f"x{suffix}")

    assert (result.status, result.err) == (0, f"wrote x{suffix}\n")
    assert unprintable_characters(TEXT_OF_FILE_TYPE[suffix](Path(f"x{suffix}").read_bytes())) == []


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_provenance_spells_what_cannot_be_seen(
    attnviz: Attnviz, tmp_path: Path, suffix: str
) -> None:
    out, text = tmp_path / f"x{suffix}", "I \x1b\x85\x9b\u200f\u202e\ufeff\ufff9\ufffe\uffff"

    attnviz("run", text, "-t", "words", "-o", str(out), "--size", "3x3", "--dpi", "30")

    text_in_file = TEXT_OF_FILE_TYPE[suffix](out.read_bytes())
    assert unprintable_characters(text_in_file) == []
    assert "attnviz run" in text_in_file
    assert "ufffe" in text_in_file


def test_data_keeps_the_text_exactly_and_spells_it(attnviz: Attnviz) -> None:
    text = "a\x1b[2J\u202e \u200f\ufffe b\U000e0041"

    output = attnviz("run", text, "-t", "chars", "--json").out

    assert unprintable_characters(output) == []
    assert json.loads(output)["text"] == text


def test_a_spreadsheet_computes_no_token(attnviz: Attnviz, tmp_path: Path) -> None:
    words = ["=HYPERLINK(1)", "@SUM", "+x", "-x", "-", "=", "-5", "+1.5", "＝x", "a"]
    matrices_file = tmp_path / "x.json"
    matrices_file.write_text(
        json.dumps({"tokens": words, "scores": [[0.0] * len(words)] * len(words)})
    )

    attnviz("run", "--given", str(matrices_file), "-o", str(tmp_path / "x.csv"))

    rows = list(csv.DictReader((tmp_path / "x.csv").read_text("utf-8").splitlines()))
    keys = [row["key"] for row in rows[: len(words)]]
    assert keys == [
        "'=HYPERLINK(1)", "'@SUM", "'+x", "'-x", "-", "=", "-5", "+1.5", "'＝x", "a",
    ]  # fmt: skip


@pytest.mark.parametrize("command", [HOSTILE, "attnviz run 'I", f"attnviz run '{HOSTILE}' -o"])
def test_a_saved_trace_from_a_stranger_is_shown_clean(
    attnviz: Attnviz, tmp_path: Path, command: str
) -> None:
    path_of_trace = tmp_path / "x.json"
    attnviz("run", TEXT, "-t", "words", "-o", str(path_of_trace))
    contents = json.loads(path_of_trace.read_text("utf-8"))
    contents["attnviz"]["command"] = command
    contents["text"] = contents["trace"]["tokens"]["text"] = HOSTILE
    contents["trace"]["tokens"]["words"] = [HOSTILE] * 3
    path_of_trace.write_text(json.dumps(contents))

    for more_options in ([], ["--json"]):
        result = attnviz("run", "--trace", str(path_of_trace), *more_options)
        assert result.status in (0, 2)
        assert unprintable_characters(result.out + result.err) == []


def test_a_word_of_a_command_is_read_by_a_shell_as_what_it_was() -> None:
    import subprocess

    words = ["I am", "it's\x1b[2J\n", "a\\b\t'", "\u202e日\ufffe\U000e0041", "caf\udce9"]
    line = f"printf '%s\\0' {' '.join(map(shell_quote, words))}"

    process = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
        timeout=LONGEST,
    )

    assert process.stdout.decode(errors="surrogateescape").split("\0")[:-1] == words


def test_a_section_that_is_shown_alone_is_clean_as_well() -> None:
    view = fill_with_hostile_text(views()[1])
    section_view = view.of_section(next(iter(view.sections)))

    assert isinstance(section_view.sections[0], Section)
    assert raw_texts(every_text(section_view)) == {}
