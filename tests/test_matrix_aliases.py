"""Names that torch, models and courses have for matrices: what to give in their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnviz.errors import AttnvizError
from attnviz.traces import matrix_names as table
from attnviz.traces.matrices import parse_matrices
from attnviz.traces.matrix_names import alias_hint
from attnviz.traces.parts import GIVEN_NAMES
from tests.conftest import Attnviz

TRANSPOSE_HINT = " Transpose the matrix of a torch.nn.Linear first: weight.T"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Q", "did you mean 'queries'?"),
        ("W_q", f"did you mean 'w_query'?{TRANSPOSE_HINT}"),
        ("model.layers.0.self_attn.o_proj.weight", f"did you mean 'w_out'?{TRANSPOSE_HINT}"),
        (
            "bert.encoder.layer.0.attention.self.query.weight",
            f"did you mean 'w_query'?{TRANSPOSE_HINT}",
        ),
        ("attention.self.value.bias", "did you mean 'b_value'?"),
        ("h.0.attn.c_proj.weight", "did you mean 'w_out'?"),
        ("h.0.mlp.c_proj.weight", "did you mean 'w_2'?"),
        ("h.0.ln_1.weight", "did you mean 'attention_gain'?"),
        ("h.0.ln_2.bias", "did you mean 'feed_forward_shift'?"),
        ("wpe.weight", "did you mean 'positions'?"),
        ("attn_weights", "did you mean 'weights'?"),
        ("x_2", "did you mean 'key_embeddings'?"),
    ],
)
def test_what_is_called_so_elsewhere_has_a_name_here(name: str, hint: str) -> None:
    assert alias_hint(name) == hint


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("in_proj_weight", "each third, transposed (weight.T), as 'w_query'"),
        ("self_attn.in_proj_bias", "of a bias as 'b_query'"),
        ("h.0.attn.c_attn.weight", "each third of its columns as 'w_query'"),
        ("valid_lens", "give 'visible', [item, key]: 1 for each key that may be read"),
        ("key_padding_mask", "give 'hidden', [item, key], where True hides a key"),
        ("attention_mask", "give 'visible' where 1 may be read"),
        ("relative_attention_bias.weight", "is called 'mask'"),
        ("model.layers.0.mlp.gate_proj.weight", "and no gate"),
    ],
)
def test_what_holds_more_or_something_else_is_told_in_words(name: str, part: str) -> None:
    assert part in alias_hint(name)


def test_nobody_knows_every_name() -> None:
    assert (
        alias_hint("colour") == alias_hint("weight") == alias_hint("bias") == alias_hint("") == ""
    )


def test_every_name_that_is_told_can_be_given_and_no_other_name_can() -> None:
    names_with_alias = [
        *table.table_by_word("names").values(),
        *" ".join(table.table_by_word("layers").values()).split(),
    ]
    aliases = [name for kind in ("names", "layers", "hints") for name in table.table_by_word(kind)]
    assert set(names_with_alias) <= set(GIVEN_NAMES)
    assert not set(aliases) & set(GIVEN_NAMES)


def test_a_file_of_matrices_says_so_in_two_lines(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "course.json"
    path.write_text(json.dumps({"valid_lens": [2, 3]}))
    result = attnviz("run", "--given", str(path))
    assert result.status == 2
    problem, hint = result.err.splitlines()
    assert "there is no matrix 'valid_lens' to give" in problem
    assert hint.startswith(" hint: give 'visible', [item, key]")


def test_what_nobody_knows_gets_the_names_that_there_are() -> None:
    with pytest.raises(AttnvizError) as error:
        parse_matrices({"colour": [1]})
    assert "known: tokens, key_tokens" in error.value.hint


def test_a_lesson_says_so_too(attnviz: Attnviz, tmp_path: Path) -> None:
    lesson = tmp_path / "lesson.toml"
    lesson.write_text('title = "t"\n[given]\nW_q = [[1]]\n')
    result = attnviz("example", "check", str(lesson))
    assert f"did you mean 'w_query'?{TRANSPOSE_HINT}" in " ".join(result.err.split())
