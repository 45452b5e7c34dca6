"""Options in errors and notes: marks become words of the command line, of Python or of TOML."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from string import Formatter

import pytest

from attnviz.cli.rule_listing import MODE_TABLES, RULE_TABLES, AnyValue
from attnviz.errors import AttnvizError, Note
from attnviz.wording.rules import Rule
from attnviz.wording.surfaces import (
    Mark,
    Marks,
    Surface,
    cmd,
    in_words,
    naming_options,
    opt,
    phrase,
    speaking,
)
from tests.conftest import ROOT
from tests.test_guesses import commands, options

MESSAGES = ("AttnvizError", "Note", "Rule", "model_error", "rules_for", "warn_with_note")
TYPED_WORDS = re.compile(r"(?<![\w'-])--[a-z]|(?<![\w-])-[a-z] |\battnviz [a-z]+ [A-Z-]")
OTHER_PROGRAMS = re.compile(
    r"pip |iconv |mkdir |ulimit |--force-reinstall|--nproc-per-node|--nnodes"
)
ONLY_TYPED = ("parsing.py", "help.py")  # about the words of a command line itself


@pytest.mark.parametrize(
    ("message", "typed", "in_python", "in_toml"),
    [
        (
            f"{opt.merge:rollout} uses all layers, but {opt.layer} picks one",
            "--merge rollout uses all layers, but --layer picks one",
            "merge=\"rollout\" uses all layers, but 'layer' picks one",
            "merge = 'rollout' uses all layers, but layer picks one",
        ),
        (
            f"give both: {opt.source:it} {opt.to:animal}",
            "give both: --from it --to animal",
            'give both: source="it", to="animal"',
            "give both: source = 'it' to = 'animal'",
        ),
        (
            f"leave out {opt.predict}, or {opt.as_:arcs}",
            "leave out --predict, or --as arcs",
            'leave out predict=True, or as_="arcs"',
            "leave out predict, or as_ = 'arcs'",
        ),
        (
            f"try {opt.scale:no}, {opt.size:8x5} or {opt.head_dim:4}",
            "try --no-scale, --size 8x5 or --head-dim 4",
            'try scale=False, size="8x5" or head_dim=4',
            "try scale = false, size = '8x5' or head_dim = 4",
        ),
        (
            f"{opt.dim:is 0}, and {opt.scale:is False}",
            "--dim is 0, and --scale is False",
            "dim is 0, and scale is False",
            "dim is 0, and scale is False",
        ),
        (
            f"try {opt.query:1}, {opt.memory:TEXT} or {opt.source:'I am'}",
            "try --query 1, --memory TEXT or --from 'I am'",
            'try query=0, memory="…" or source="I am"',
            "try --query 1, memory = 'TEXT' or source = 'I am'",
        ),
        (
            f"{opt.part:3:5} in {opt.out:heads.png}, of {opt.file:a.txt} or {opt.trace}",
            "--window 3:5 in -o heads.png, of --file a.txt or --trace",
            'part="3:5" in save("heads.png"), of Path("a.txt") or load("…")',
            "part = '3:5' in -o heads.png, of file = 'a.txt' or trace",
        ),
        (
            f"allow more with: {opt.limit:20MB}",
            "allow more with: --limit 20MB",
            "allow more with: --limit 20MB",
            "allow more with: --limit 20MB",
        ),
        (
            f"{cmd.run:TEXT --model m -t words -o trace.npz}, or {opt.layer:0}",
            "attnviz run TEXT --model m -t words -o trace.npz, or --layer 0",
            'trace("…", model="m", tokenizer="words").save("trace.npz"), or layer=0',
            "attnviz run TEXT --model m -t words -o trace.npz, or layer = 0",
        ),
        (
            f"{cmd.compare:--learn sort --by heads}; {cmd.heads:--texts a.txt}; {cmd.example:list}",
            "attnviz compare --learn sort --by heads; attnviz heads --texts a.txt; "
            "attnviz example list",
            'compare_learning("sort", by="heads"); head_effects(Path("a.txt")); '
            "attnviz example list",
            "attnviz compare --learn sort --by heads; attnviz heads --texts a.txt; "
            "attnviz example list",
        ),
    ],
)
def test_an_option_is_called_what_it_is_where_a_message_is_read(
    message: str, typed: str, in_python: str, in_toml: str
) -> None:
    assert [in_words(message, surface) for surface in Surface] == [typed, in_python, in_toml]


def test_an_error_and_a_note_speak_as_the_surface_on_which_they_are_created() -> None:
    with speaking(Surface.COMMAND_LINE):
        typed = AttnvizError(f"{opt.dim:is 0}", f"try {opt.dim:1}", python_hint="x")
        with speaking(Surface.TOML):
            key = Note(f"{opt.dim:1}")
    in_python = AttnvizError(f"{opt.dim:is 0}", "x", python_hint=f"try {opt.dim:1}")

    assert (str(typed), typed.hint) == ("--dim is 0", "try --dim 1")
    assert str(key) == "dim = 1"
    assert (str(in_python), in_python.hint) == ("dim is 0", "try dim=1")


def test_a_thread_with_the_context_of_a_command_speaks_as_the_command() -> None:
    with speaking(Surface.COMMAND_LINE), ThreadPoolExecutor(1) as thread:
        message = thread.submit(copy_context().run, in_words, f"{opt.dim}").result()

    assert message == "--dim"


def test_options_and_phrases_have_other_names_inside_a_block() -> None:
    with naming_options(toward="its first answer", answers="its two answers"):
        assert in_words(f"{opt.toward} is {opt.dim:1}") == "its first answer is dim=1"
        assert phrase("answers", "both") == "its two answers"
    assert phrase("answers", "both") == "both"


@pytest.mark.parametrize(
    "text", ["\x02", "\x02dim", "\x02dim\x1f", "\x1f\x03", "a\x02b\x03", "\x03"]
)
def test_control_characters_of_a_text_are_no_marks_and_are_escaped(text: str) -> None:
    error = AttnvizError(f"'{text}' is odd", f"try {opt.query:{text}}")

    assert all(line.isprintable() for line in (str(error), error.hint))


def test_a_text_that_looks_like_a_mark_names_nothing_that_a_shell_would_run() -> None:
    error = AttnvizError("'\x02command run; ls\x1f'\x03'", "\x02rm\x1f-rf\x03")

    assert str(error) == "'attnviz run; ls ''"
    assert error.hint == "--rm -rf"


def calls_of_messages() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "attnviz").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "func", None)
            if getattr(name, "id", getattr(name, "attr", "")) in MESSAGES:
                assert isinstance(node, ast.Call)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def marked_text(node: ast.AST) -> str:
    """A string in source code, with marks as they are, and `7` for other values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(marked_text, node.values))
    if not isinstance(node, ast.FormattedValue):
        return ""
    spec = marked_text(node.format_spec) if node.format_spec else ""
    match node.value:
        case ast.Attribute(value=ast.Name(id="opt" | "cmd" as namespace), attr=name):
            marks: Marks = opt if namespace == "opt" else cmd
            return format(getattr(marks, name), spec)
        case ast.Subscript(value=ast.Name(id="opt")):
            return format(opt.query, spec)
    return "7"


def messages_in_source() -> Iterator[tuple[str, str]]:
    """Every string with a mark in attnviz, be it in an error, a note or a table, and its place."""
    for path in sorted((ROOT / "attnviz").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr) and (text := marked_text(node)) != text_of(text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def text_of(message: str) -> str:
    return in_words(message, Surface.PYTHON)


def test_no_error_rule_or_note_spells_an_option_or_a_command_for_a_shell() -> None:
    spelled = {}
    for place, call in calls_of_messages():
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        texts = [text for each in arguments for text in texts_without_marks(each)]
        if not place.partition(":")[0].endswith(ONLY_TYPED):
            spelled_here = filter(TYPED_WORDS.search, texts)
            if own := [text for text in spelled_here if not OTHER_PROGRAMS.search(text)]:
                spelled[place] = own

    assert spelled == {}


def texts_without_marks(node: ast.AST) -> Iterator[str]:
    """The strings of an expression, without `{…}` and what is between the braces of templates."""
    if isinstance(node, ast.Constant | ast.JoinedStr):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
        while text != (inner := re.sub(r"\{[^{}]*\}", "", text)):
            text = inner
        yield text
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts_without_marks(child)


@cache
def known_options() -> frozenset[str]:
    """The fields of all options of all commands."""
    return frozenset(each.name for _, command in commands() for each in options(command))


def all_rules() -> list[Rule]:
    modes = [mode for path in MODE_TABLES.values() for mode in pkgutil.resolve_name(path)]
    tables = [*map(pkgutil.resolve_name, RULE_TABLES.values()), *(mode.rules for mode in modes)]
    return [rule for table in tables for rule in table]


def test_every_rule_has_words_on_each_surface() -> None:
    rules = all_rules()

    assert len(rules) > 60
    for rule in rules:
        words = {"it": AnyValue(), "opt": opt, "cmd": cmd, "option": opt[rule.about]}
        for template in (rule.problem, rule.hint):
            for surface in Surface:
                assert in_words(template.format(**words), surface).isprintable(), template


def test_every_mark_names_an_option_that_some_command_has() -> None:
    named = {}
    for path in sorted((ROOT / "attnviz").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="opt"), attr=name):
                    named[name] = str(path)
    for rule in all_rules():
        for template in (rule.problem, rule.hint):
            for _, field, _, _ in Formatter().parse(template):
                if field and field.startswith("opt."):
                    named[field.removeprefix("opt.")] = rule.about

    assert len(named) > 60
    assert {name: place for name, place in named.items() if name not in known_options()} == {}


def test_every_message_has_words_on_each_surface() -> None:
    messages = dict(messages_in_source())

    assert len(messages) > 300
    for place, message in messages.items():
        for surface in Surface:
            words = in_words(message, surface)
            assert not re.search("[\x00-\x1f]", words), place
    options_left = re.compile(r"(?<!['\w-])--(?!limit|learn|from|kind|force|no-deps)[a-z]")
    assert {
        place: text_of(message)
        for place, message in messages.items()
        if "cli/" not in place and options_left.search(text_of(message).partition("attnviz ")[0])
    } == {}


def test_a_mark_without_a_value_is_the_same_as_its_text() -> None:
    assert str(Mark("dim")) == f"{Mark('dim')}" == f"{opt['dim']}"
