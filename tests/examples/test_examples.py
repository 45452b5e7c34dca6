"""Examples: the tutorials' digits are computed, wrong digits noticed, bad files refused."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attnviz import trace
from attnviz.attention.mistakes import MISTAKES
from attnviz.views.steps.scene import StepSettings
from attnviz.views.steps.walk import step_sections
from attnviz.wings.examples import checking, example_names
from attnviz.wings.examples.draws import MatrixDraw, Recipe, draw_recipe
from tests.conftest import Attnviz
from tests.evaluate import holds
from tests.refusals import refusal_lines

NAMES = example_names.example_names()

LESSON = """\
title = "Mine"

[settings]
variant = "plain"

[given]
tokens = ["a", "b"]
embeddings = [[1, 0], [0, 2]]

[[expect]]
step = "scores"
values = [[1, 0], [0, 4]]

[[expect]]
step = "softmax"
query = "a"
values = [0.7311, 0.2689]
"""


@pytest.fixture
def lesson_file(tmp_path: Path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(LESSON)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_the_digits_of_every_example_come_out(name: str) -> None:
    example = example_names.example(name)

    findings = list(checking.check_example(example))

    assert len(findings) >= 1
    assert [finding for finding in findings if not finding.passed] == []


@pytest.mark.slow_table("sentences", keep=6)
@pytest.mark.parametrize("name", NAMES)
def test_the_arithmetic_of_every_example_keeps_its_word(name: str) -> None:
    example_trace = example_names.example(name).trace()
    for query in (0, len(example_trace.tokens) - 1):
        for section in step_sections(example_trace, StepSettings(query=query, full=True)):
            for line in (each.text for each in section.sums):
                assert line.endswith("= −∞") or holds(line), line


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistakes_own_arithmetic_is_written_out(name: str) -> None:
    trace_with_mistake = trace("I am learning this", variant="causal", head_dim=2, mistake=name)
    sections = {
        each.name: each for each in step_sections(trace_with_mistake, StepSettings(query=1))
    }

    assert sections["softmax"].sums
    for section in sections.values():
        lines = [each.text for each in section.sums]
        assert all(line.endswith("= −∞") or holds(line) for line in lines)
    softmax_grid = sections["softmax"].grids[0]
    weights = trace_with_mistake.layers[0].attended.weights[0, 1].numpy()
    assert (
        softmax_grid.hidden[0]
        == ((weights == 0) & ~trace_with_mistake.layers[0].visible[1].numpy())
    ).all()


def test_a_sum_with_terms_left_out_is_never_called_equal(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")  # a sum in one line
    out = attnviz("example", "show", "why-scaling-64", "--query", "2").out

    lines = [line for line in out.splitlines() if "…" in line and "(" in line.split("=")[0]]
    assert lines
    assert all(" ≈ " in line for line in lines)


def test_the_examples_are_those_of_seven_tutorials_and_of_torch_itself() -> None:
    examples = [example_names.example(name) for name in NAMES]

    assert len({example.source for example in examples}) == 8
    mistakes_shown = {example.mistake for example in examples if example.mistake}
    assert mistakes_shown == {"softmax-twice", "softmax-all", "zero-scores", "zero-weights"}
    assert mistakes_shown < set(MISTAKES)
    assert sum(checking.printed_number_count(example) for example in examples) > 750
    assert all(example.title and example.notice for example in examples)


def change_one_digit(text: str, index: int) -> str:
    """The text with one digit of one printed number changed by one."""
    numbers = [
        match
        for match in re.finditer(r"\d+\.\d+", text.partition("arithmetic")[0])
        if "values" in text[: match.start()]
    ]
    match = numbers[index % len(numbers)]
    number = Decimal(match[0]) + Decimal(1).scaleb(-len(match[0].partition(".")[2]))
    return f"{text[: match.start()]}{number}{text[match.end() :]}"


@pytest.mark.parametrize("name", ["simplified", "trainable", "journey-simple", "journey-linear"])
@pytest.mark.parametrize("index", [0, 7, -1])
def test_a_digit_that_is_off_by_one_is_found(
    attnviz: Attnviz, tmp_path: Path, name: str, index: int
) -> None:
    text = (example_names.EXAMPLES_FOLDER / f"{name}.toml").read_text("utf-8")
    start = text.index("[[expect]]")
    path = tmp_path / f"{name}.toml"
    path.write_text(text[:start] + change_one_digit(text[start:], index), "utf-8")

    result = attnviz("example", "check", str(path))

    assert result.status == 1
    assert result.out.count("✗ ") == 2  # the expectation, and the verdict
    assert re.search(r"✗ \w+.*: (row \d+ )?column \d+: expected \S+, found \S+\n", result.out)
    assert "✗ 1 expectation not met" in result.out


def test_check_prints_every_expectation_and_a_verdict(attnviz: Attnviz, lesson_file: Path) -> None:
    result = attnviz("example", "check", str(lesson_file))

    assert result.status == 0
    assert result.out == (
        "my: Mine\n  ✓ scores: 4 numbers\n  ✓ softmax of 1 a: 2 numbers\n\n"
        "1 example, 2 expectations, 6 printed numbers: all ✓\n"
    )


def test_quiet_prints_what_differs_alone(attnviz: Attnviz, lesson_file: Path) -> None:
    lesson_file.write_text(LESSON.replace("0.7311", "0.7312"))

    result = attnviz("example", "check", "-q", "simplified", str(lesson_file))

    assert result.status == 1
    assert result.out.splitlines() == [
        "my: ✗ softmax of 1 a: column 1: expected 0.7312, found 0.73106",
        "2 examples, 10 expectations, 73 printed numbers: ✗ 1 expectation not met",
    ]


def test_a_lesson_of_ones_own_can_be_shown(attnviz: Attnviz, lesson_file: Path) -> None:
    result = attnviz("example", "show", str(lesson_file), "--query", "b", "--step", "scores")

    assert result.status == 0
    assert "score(b, b) = 0·0 + 2·2 = 4" in result.out


def test_the_list_names_every_example(attnviz: Attnviz) -> None:
    lines = attnviz("example", "list").out.splitlines()

    assert [line.split()[0] for line in lines[: len(NAMES)]] == NAMES
    assert lines[0].endswith("Self-attention without trainable weights")


@pytest.mark.parametrize("name", ["mistake-softmax-twice", "mistake-zero-scores"])
def test_a_mistake_is_shown_as_one(attnviz: Attnviz, name: str) -> None:
    result = attnviz("example", "show", name)

    assert "✗ A mistake: " in result.out
    assert "✗ weights" in result.out


@pytest.mark.slow("formats")
def test_every_output_of_steps_is_there_for_an_example(attnviz: Attnviz, tmp_path: Path) -> None:
    out = [
        word
        for suffix in (".md", ".txt", ".png", ".gif", ".json", ".csv", ".npz")
        for word in ("-o", str(tmp_path / f"a{suffix}"))
    ]

    result = attnviz("example", "show", "simplified", "--step", "5-8", *out)

    assert result.status == 0, result.err
    assert len(list(tmp_path.iterdir())) == 7


@given(seed=st.integers(0, 2**32), skip=st.integers(0, 50), bias=st.booleans())
def test_draws_are_those_of_torchs_own_stream(seed: int, skip: int, bias: bool) -> None:
    recipe = Recipe(
        seed=seed,
        skip=skip,
        draws=(
            MatrixDraw(name="x", kind="rand", shape=(4, 3)),
            MatrixDraw(name="w_query", kind="linear", shape=(3, 2), options={"bias": bias}),
            MatrixDraw(name="n", kind="randn", shape=(2, 5)),
            MatrixDraw(name="i", kind="randint", shape=(3, 2), options={"low": 0, "high": 10}),
        ),
    )

    drawn_matrices = draw_recipe(recipe)

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.rand(skip)
        assert torch.equal(drawn_matrices["x"], torch.rand(4, 3))
        linear = nn.Linear(3, 2, bias=bias)
        assert torch.equal(drawn_matrices["w_query"], linear.weight.T)
        assert not bias or torch.equal(drawn_matrices["b_query"], linear.bias)
        assert torch.equal(drawn_matrices["n"], torch.randn(2, 5))
        assert torch.equal(drawn_matrices["i"], torch.randint(0, 10, (3, 2)).float())


@given(digits=st.integers(1, 6), value=st.floats(-100, 100))
def test_a_number_as_printed_is_met_and_the_next_one_is_not(digits: int, value: float) -> None:
    as_printed = Decimal(f"{value:.{digits}f}")
    numbers = torch.tensor([value], dtype=torch.float64)

    assert checking.find_differences([as_printed], numbers) == []
    next_printed_number = as_printed + 2 * Decimal(1).scaleb(-digits)
    assert len(checking.find_differences([next_printed_number], numbers)) == 1


def test_whole_numbers_are_meant_exactly() -> None:
    assert checking.find_differences([4], torch.tensor([4.0])) == []
    assert len(checking.find_differences([4], torch.tensor([4.01]))) == 1


def test_minus_infinity_is_a_number_like_others() -> None:
    scores = torch.tensor([-torch.inf, 1.0])

    assert checking.find_differences([Decimal("-inf"), Decimal("1.00")], scores) == []
    assert len(checking.find_differences([Decimal("-inf"), Decimal("-inf")], scores)) == 1


CLAIM = "[[expect]]\nclaim = 'loops agree'"
# What follows the title: its line, the problem, and the hint where it is not to change a value.
BAD_FILES: dict[str, tuple[Any, ...]] = {
    'titel = "Mine"': (1, "there is no key 'titel'", "did you mean 'title'?"),
    'source = "me"': (1, "an example needs a title", "begin with: title ="),
    "[settings]\nvariant = 'plain'\nhaeds = 2": (
        4,
        "there is no setting 'haeds'",
        "did you mean 'heads'?",
    ),
    "[settings]\nvariant = 'plian'": (3, "there is no variant 'plian'", "did you mean 'plain'?"),
    "[settings]\ndim = 'eight'": (3, "'dim' is not a whole number"),
    "[settings]\nscale = 'no'": (3, "'scale' is not true or false"),
    "[settings]\nvariant = 3": (3, "'variant' is not text in quotes"),
    "[recipe]\ndraws = 3": (3, "'draws' is not a list of draws"),
    "[recipe]\nseed = 99999999999999999999": (3, "'seed' is not a whole number"),
    "[recipe]\nskip = 9999999999": (3, "'skip' is not a whole number"),
    "[recipe]\ndraws = [{ name = 'x', rand = [200000, 200000] }]": (
        3,
        "a draw of 40,000,000,000 numbers is too large",
        "at most 100,000,000",
    ),
    "[recipe]\ndraws = [{ name = 'x', randint = [2], low = 5, high = 1 }]": (
        3,
        "randint draws from low to high, but here from 5 to 1",
        "give low = 0",
    ),
    "[recipe]\ndraws = [{ name = 'x', linear = [2, 2], bias = 3 }]": (
        3,
        "'bias' is not true or false",
    ),
    "[recipe]\ndraws = [{ name = 'x', rand = [2] }, { name = 'x', rand = [2] }]": (
        3,
        "two draws are called 'x'",
        "give each a name of its own",
    ),
    "[recipe]\ndraws = [{ name = 'embedings', rand = [2, 2] }]": (
        3,
        "the draw 'embedings' is not used",
        "did you mean 'embeddings'?",
    ),
    "[given]\nqueries = { product = 3 }": (
        3,
        "'queries': this way to make a matrix is not known",
        "write { product",
    ),
    f"[given]\nscores = [[nan]]\n{CLAIM}": (3, "'scores' in", "make every number finite"),
    f"[given]\nscores = [[1, 2], [3]]\n{CLAIM}": (3, "row 2 of 'scores' in", "give every row"),
    "[settings]\ndim = 4\n[[expect]]\nstep = 'scores'\nvalues = [[1]]": (
        None,
        "there is no text, and nothing in",
        "give a sentence",
    ),
    "[[expect]]\nstep = 'context'\narithmetic = 3": (
        4,
        "'arithmetic' is not a list of sums in quotes",
    ),
    "[[expect]]\nstep = 'scores'\nshape = 3": (4, "'shape' is not a list of sizes"),
    "[[expect]]\nstep = 'scores'\nwith = 3\nvalues = [1]": (4, "'with' is not a table"),
    "[[expect]]\nstep = 'scores'\nwith = { dim = 'q' }\nvalues = [1]": (
        4,
        "'dim' is not a whole number",
    ),
    "[[expect]]\nstep = 'scores'\nitem = 'x'\nvalues = [1]": (
        4,
        "'item' is not a whole number from 1",
    ),
    "[[expect]]\nstep = 'scores'\nparameters = 'x'": (
        4,
        "'parameters' is not a whole number from 1",
    ),
    "[recipe]\nsede = 3": (3, "there is no key of a recipe 'sede'", "did you mean 'seed'?"),
    "[recipe]\ndraws = [\n{ name = 'x', rnad = [2, 2] },\n]": (
        4,
        "there is no kind of draw 'rnad'",
        "did you mean 'rand'?",
    ),
    "[recipe]\ndraws = [\n{ name = 'x', rand = [2, 2], bias = true },\n]": (
        4,
        "there is no key of a draw with rand 'bias'",
        "known: name, rand",
    ),
    "[recipe]\ndraws = [\n{ name = 'x', rand = 2 },\n]": (
        4,
        "the draw 'x' has no shape",
        "rand = [4, 3]",
    ),
    "[recipe]\nseed = 'x'": (3, "'seed' is not a whole number"),
    "[recipe]\nseed = 1\ndraws = [\n{ name = 'x', rand = [2, 2] },\n]\n[given]\nembeddings = 'y'": (
        8,
        "'embeddings': there is no draw 'y'",
        "known: x",
    ),
    "[recipe]\ndraws = [\n{ name = 'u', rand = [2, 2] },\n]\n"
    "[given]\nqueries = { product = ['u', 'x'] }": (
        7,
        "'queries': there is no draw 'x'",
        "known: u",
    ),
    "[given]\nw_kee = [[1]]": (3, "there is no matrix to give 'w_kee'", "did you mean 'w_key'?"),
    "mistake = 'softmax-thrice'": (
        2,
        "there is no mistake 'softmax-thrice'",
        "did you mean 'softmax-twice'?",
    ),
    "[[expect]]\nstep = 'scroes'\nvalues = [1]": (
        3,
        "there is no step to expect something of 'scroes'",
        "did you mean 'scores'?",
    ),
    "[[expect]]\nstep = 'scores'\nvalues = [1]\n\n[[expect]]\nstep = 'keys'\nvlaues = [1]": (
        8,
        "there is no key of an expectation 'vlaues'",
        "did you mean 'values'?",
    ),
    "[[expect]]\nstep = 'scores'": (3, "nothing is expected of 'scores'", "give one of"),
    "[[expect]]\nvalues = [1]": (2, "an expectation names no step", "step = one of"),
    "[[expect]]\nclaim = 'rows sum to one'": (
        3,
        "there is no claim 'rows sum to one'",
        "did you mean 'rows sum to 1'?",
    ),
    "given = [1, 2": (None, "is not valid TOML", "write each line as name"),
    "query == 1": (None, "(at line 2, column 8)", "write each line as name"),
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(attnviz: Attnviz, tmp_path: Path, text: str) -> None:
    line, expected_problem, *expected_hint = BAD_FILES[text]
    path = tmp_path / "bad.toml"
    path.write_text(text if line == 1 else f'title = "Bad"\n{text}\n')

    result = attnviz("example", "check", str(path))
    problem, hint = refusal_lines(result, out=result.out)

    assert result.out.endswith(f"✗ {path} is refused\n")
    assert expected_problem in problem
    assert problem.startswith(f"line {line}" if line else "")
    assert str(path) in problem
    assert hint.startswith(*expected_hint or ["change its value"])


NO_SUCH_STEP = "is expected, but this example has no such step"
IMPOSSIBLE_EXPECTATIONS = {  # after `step = `, in line 13 of the file
    "'dropout'\nvalues = [[1, 0], [0, 4]]": f"'dropout' {NO_SUCH_STEP}",
    "'joined'\nvalues = [[1, 0], [0, 4]]": "'joined' is expected",
    "'mask'\nvalues = [[1, 0], [0, 4]]": "'mask' is expected",
    "'b_query'\nvalues = [1]": f"'b_query' {NO_SUCH_STEP}",
    "'scores'\nvalues = [[1, 0, 0], [0, 4, 0]]": "2 × 3 numbers are expected of 'scores', which is "
    "2 × 2",
    "'scores'\nvalues = [[1, 0], [0]]": "the rows expected of 'scores' differ in length",
    "'scores'\nvalues = [[1, 0], [0, 'four']]": "'four' in row 2 column 2 is no",
}
IMPOSSIBLE_CHOICES = {  # whose lines are not known
    "'scores'\nitem = 3\nvalues = [[1, 0], [0, 4]]": "there is no batch",
    "'scores'\nquery = 'c'\nvalues = [1, 0]": "no token of the sentence",
}


@pytest.mark.parametrize("expectation", IMPOSSIBLE_EXPECTATIONS | IMPOSSIBLE_CHOICES)
def test_an_expectation_that_cannot_be_held_against_anything_is_refused(
    attnviz: Attnviz, lesson_file: Path, expectation: str
) -> None:
    start = LESSON.partition("[[expect]]")[0]
    lesson_file.write_text(f"{start}# two\n# more\n[[expect]]\nstep = {expectation}\n")

    result = attnviz("example", "check", str(lesson_file))

    assert result.status == 2, result.out
    if expectation in IMPOSSIBLE_CHOICES:
        assert IMPOSSIBLE_CHOICES[expectation] in result.err
    else:
        problem = f"line 13 of '{lesson_file}': {IMPOSSIBLE_EXPECTATIONS[expectation]}"
        assert result.err.startswith(f"error: {problem}")


def test_an_example_that_is_not_there_is_refused(attnviz: Attnviz) -> None:
    result = attnviz("example", "show", "simpel")

    assert result.status == 2
    assert "there is no example 'simpel'" in result.err
    assert "did you mean 'simplified'?" in result.err
    assert "there is no file 'a/b.toml'" in attnviz("example", "check", "a/b.toml").err


def test_a_name_is_needed(attnviz: Attnviz) -> None:
    assert refusal_lines(attnviz("example", "show")) == (
        "attnviz example show needs a NAME",
        "attnviz example list names them",
    )


def test_a_broken_file_does_not_keep_the_others_from_being_checked(
    attnviz: Attnviz, lesson_file: Path, tmp_path: Path
) -> None:
    broken_file = tmp_path / "broken.toml"
    broken_file.write_text("title = 3")

    result = attnviz("example", "check", str(broken_file), str(lesson_file))

    assert result.status == 2
    assert "✓ scores: 4 numbers" in result.out
    assert "'title' is not text" in result.err


REFUSED_IN_A_FILE = {  # settings that cannot be, and what to try: in keys, for there are no options
    "heads = 3": "try heads = 2, dim = 9, or give head_dim",
    "temperature = 0.0": "try temperature = 0.5 (sharper) or temperature = 2 (flatter)",
    'norm = "pre"': "give layers = 1",
    'variant = "plain"\nhead_dim = 3': "try head_dim = 8, or variant = 'scaled'",
}


@pytest.mark.parametrize("settings", REFUSED_IN_A_FILE)
def test_what_to_try_in_a_file_is_said_in_its_keys(
    attnviz: Attnviz, tmp_path: Path, settings: str
) -> None:
    odd_file = tmp_path / "odd.toml"
    odd_file.write_text(
        f'title = "Odd"\ntext = "a b"\n[settings]\ntokenizer = "words"\n{settings}\n'
        '[[expect]]\nstep = "scores"\nshape = [2, 2]\n'
    )

    for command in ("check", "show"):
        result = attnviz("example", command, str(odd_file))
        assert (result.status, result.err.splitlines()[1]) == (
            2,
            f" hint: {REFUSED_IN_A_FILE[settings]}",
        )
        assert "--" not in result.err
        assert "✓" not in result.out


def test_nothing_is_called_right_of_what_was_refused(
    attnviz: Attnviz, lesson_file: Path, tmp_path: Path
) -> None:
    broken_file, other_broken_file = tmp_path / "broken.toml", tmp_path / "other.toml"
    broken_file.write_text("title = 3")
    other_broken_file.write_text("title = 4")

    result_of_one = attnviz("example", "check", str(broken_file))
    assert (result_of_one.status, result_of_one.out) == (2, f"✗ {broken_file} is refused\n")

    result = attnviz(
        "example", "check", str(broken_file), str(lesson_file), str(other_broken_file), "-q"
    )
    assert result.out.splitlines() == [
        f"✗ {broken_file} is refused",
        f"✗ {other_broken_file} is refused: line 1 of '{other_broken_file}': 'title' is not text",
        "1 example, 2 expectations, 6 printed numbers: ✓, and 2 examples refused",
    ]


def test_a_query_that_an_example_has_not_is_refused(attnviz: Attnviz) -> None:
    result = attnviz("example", "show", "simplified", "--query", "zebra")

    assert result.err.startswith("error: no token of the sentence is 'zebra'\n hint: ")


def test_a_file_that_expects_nothing_is_refused(attnviz: Attnviz, lesson_file: Path) -> None:
    lesson_file.write_text(LESSON.partition("[[expect]]")[0])

    result = attnviz("example", "check", str(lesson_file))

    assert result.status == 2
    assert "expects nothing" in result.err
