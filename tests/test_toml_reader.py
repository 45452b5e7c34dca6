"""The TOML reader: each key has its line, and errors of tables name it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.errors import AttnvizError
from attnviz.traces import toml_reader as toml
from attnviz.wording.surfaces import opt

# Every number is the line that it stands on.
NUMBERED_LINES = r'''"first key" = 1
# [not] a = { table
text = """
[b]
c = 9 \"""\
"""
[a]  # [c]
'[b]' = 8
"\u0063".d . "e.f" = 9
a.b = { x = 10, y = [10, 10], z = { x = 10 } }
rows = [ # [
  [12, 12], {x = 12, "]" = 12},
  [

    15], { y = 15 },
  "x = 1", '[', 16,
]
times = [1979-05-27 07:32:00, 1.5e+3, -inf, true, {n = 18}]
n = 19
[[list]]
n = 21
[list.a]
n = 23
[[list.a.list]]
n = 25
[[list.a.list]]
n = 27
[[ list ]]
n = 29
  [ list . "a" ]
    n = 31
'''


def numbers(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Each whole number of a parsed text, and the path to it."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from numbers(inner, (*path, key))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, value


def test_every_key_and_every_element_of_a_list_has_its_line() -> None:
    numbers_by_path = dict(numbers(toml.parse(NUMBERED_LINES, "x.toml")))
    lines = toml.key_lines(NUMBERED_LINES)

    assert len(numbers_by_path) == 22
    assert {path: lines.find(path) for path in numbers_by_path} == numbers_by_path | {
        ("a", "rows", 2, 0): 13
    }


NAME = st.sampled_from(["a", '"a b"', "'x = [1]'", '"\\" = {"', "1", "b.c", '"b.c"'])
VALUES = (
    "{line}",
    "[{line}, {line}]",
    "{{ a = {line}, b.c = [{line}] }}",
    "[[{line}], {{ a = {line} }}]",
    "[\n  {below}, # [ ]\n]",
    "[\n  [{below}]\n]",
    "[\n  [[{below}]], {below}]",
    '["]", "\\"", {line}]',
    '[[\n"""{{\n"""]]',
    "'''\n[a]\nb = 1'''",
)
HEADING = st.sampled_from(["[{}]", "[[{}]]", "  [ {} ] # ["])


@given(
    st.lists(
        st.one_of(st.tuples(NAME, st.sampled_from(VALUES)), st.tuples(NAME, HEADING, st.just(0)))
    )
)
def test_the_lines_of_any_text_are_those_on_which_its_keys_stand(statements: list[Any]) -> None:
    text = ""
    for number, (name, form, *heading) in enumerate(statements):
        line = text.count("\n") + 1
        value = form.format(name if heading else "", line=line, below=line + 1)
        text += f"{value}\n" if heading else f"k{number}.{name} = {value}\n"
    try:
        contents = toml.parse(text, "x.toml")
    except AttnvizError:  # a heading that is there twice
        return

    lines = toml.key_lines(text)
    for path, line in numbers(contents):
        assert lines.find(path) == line


TABLE = """\
title = "a"
[given]
layers.1.w_query = 1
[[heads]]
names = ["a"]
[[heads]]
names = ["b", "c", "b"]
near = 0.5
[heads.query]
x = 1
"""
KINDS = {
    "names": toml.NAMES_TYPE,
    "near": toml.POSITIVE_TYPE,
    "query": toml.TABLE_TYPE,
}


def second_head(text: str = TABLE) -> toml.Table:
    file = toml.TomlFile(Path("a.toml"), text)
    return toml.Table(file, toml.parse(text, "a.toml")).tables("heads")[1]


CHANGES = {  # what is written in place of what, and the two lines of the error
    "unknown": ("near", "naer", "line 8 {}: there is no key 'naer'", "did you mean 'near'?"),
    "kind": ("0.5", "-1", "line 8 {}: 'near' is not a number from 0, such as 0.02", "change its"),
    "missing": ('names = ["b"', '# ["b"', "line 6 {}: there is no 'names'", "write names = ["),
    "table": ("[heads.query]\nx", "query", "line 9 {}: 'query' is not a table", "write [heads.que"),
    "twice": ("", "", "line 7 {}: 'b' is in 'names' twice", "leave one of them out"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_errors_of_a_table_name_the_line_in_it_and_not_in_another(case: str) -> None:
    old, new, problem, hint = CHANGES[case]
    table = second_head(TABLE.replace(old, new))

    def check_table() -> None:
        table.check("key", KINDS, "names")
        table.names("names")

    with pytest.raises(AttnvizError) as error:
        check_table()

    assert str(error.value) == problem.format("of 'a.toml'")
    assert error.value.hint.startswith(hint)


def test_an_error_gets_the_line_of_the_key_that_it_is_about_and_once() -> None:
    table = second_head()
    error = AttnvizError("--near is odd", "try --near 2", about="near")

    with (
        pytest.raises(AttnvizError) as located_error,
        table.locating_errors(),
        table.locating_errors("names", 1),
    ):
        raise error
    assert str(located_error.value) == "line 8 of 'a.toml': --near is odd"

    locating_options = table.locating_errors("query", about="x: ", options=True)
    with pytest.raises(AttnvizError) as located_error, locating_options:
        raise AttnvizError(f"{opt.dim} is odd", f"try {opt.dim:2}")
    assert str(located_error.value) == "line 9 of 'a.toml': x: dim is odd"
    assert located_error.value.hint == "try dim = 2"
