"""What may be chosen: every choice has a field, and a choice that makes no sense is refused."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import Settings
from attnviz.errors import AttnvizError
from attnviz.traces.settings import CHOICES_BY_SETTING, chosen_variant, head_width
from attnviz.wording.commands import option_name
from tests.conftest import Attnviz

NUMBERS = (
    "dim",
    "heads",
    "kv_heads",
    "head_dim",
    "window",
    "seed",
    "item",
    "layers",
    "feed_forward",
)
# What else must be given for a setting to mean anything.
REQUIRED_SETTINGS: dict[str, dict[str, Any]] = {
    "item": {"given": "matrices.toml"},
    "feed_forward": {"layers": 1},
}


def test_every_setting_is_an_option_of_run(attnviz: Attnviz) -> None:
    modes = ("", "--model minilm", "--layers 2", "--given a.npz", "--stream")
    help_text = "".join(attnviz("run", *mode.split(), "--help-all").out for mode in modes)

    assert [
        field.name for field in fields(Settings) if option_name(field.name) not in help_text
    ] == []


def build_settings(**settings: Any) -> Settings:
    return Settings(**settings)


def is_accepted(name: str, value: int) -> bool:
    try:
        return bool(
            getattr(build_settings(**{name: value}, **REQUIRED_SETTINGS.get(name, {})), name)
            == value
        )
    except AttnvizError:
        return False


@pytest.mark.parametrize("name", NUMBERS)
@given(value=st.integers())
def test_a_number_is_taken_or_the_nearest_that_is_taken_is_named(name: str, value: int) -> None:
    if is_accepted(name, value):
        return

    with pytest.raises(AttnvizError, match=f"^{name} is {value}, and must be ") as error:
        build_settings(**{name: value}, **REQUIRED_SETTINGS.get(name, {}))

    suggestion = re.fullmatch(rf"try {name}=(\d+)", error.value.hint)
    assert error.value.about == name
    assert suggestion
    assert is_accepted(name, int(suggestion[1]))


@pytest.mark.parametrize("name", CHOICES_BY_SETTING)
def test_a_word_that_is_in_no_table_is_refused_with_those_that_are(name: str) -> None:
    kind, known_words = CHOICES_BY_SETTING[name]

    with pytest.raises(AttnvizError, match=f"there is no {kind} 'no such'") as error:
        build_settings(**{name: "no such"})

    assert error.value.about == name
    assert error.value.hint.endswith(f"known: {', '.join(known_words)}")


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"soft_cap": 0.0}, "soft_cap"),
        ({"soft_cap": float("inf")}, "soft_cap"),
        ({"soft_cap": float("nan")}, "soft_cap"),
        ({"kv_heads": 1, "variant": "plain"}, "kv_heads"),
        ({"scoring": "additive", "variant": "average"}, "scoring"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
        ({"item": 2}, "item"),
        ({"norm": "pre"}, "norm"),
        ({"activation": "gelu"}, "activation"),
        ({"feed_forward": 16}, "feed_forward"),
        ({"norm": "none"}, "norm"),
        ({"positions": "rotary", "position_base": 0.5}, "position_base"),
        ({"positions": "rotary", "position_base": float("inf")}, "position_base"),
        ({"positions": "alibi", "position_base": 500.0}, "position_base"),
        ({"memory": "it rains", "variant": "plain"}, "memory"),
    ],
)
def test_a_choice_that_means_nothing_says_which_it_is(settings: dict[str, Any], about: str) -> None:
    with pytest.raises(AttnvizError) as error:
        build_settings(**settings)

    assert error.value.about == about


def test_a_block_is_one_by_its_layers_or_by_a_second_sentence() -> None:
    assert not Settings().has_blocks
    assert Settings(layers=1).has_blocks
    assert Settings(memory="it rains").has_blocks


def test_every_property_of_a_variant_can_be_overridden() -> None:
    variant = chosen_variant(
        Settings(heads=2, scale=False, causal=True, window=3, temperature=0.5, dropout=0.1)
    )

    assert (variant.heads, variant.scaled, variant.causal, variant.window) == (2, False, True, 3)
    assert (variant.temperature, variant.dropout, variant.joined) == (0.5, 0.1, True)


@given(dim=st.integers(1, 60), heads=st.integers(1, 20))
def test_the_hint_for_heads_that_do_not_fit_is_one_that_fits(dim: int, heads: int) -> None:
    variant = chosen_variant(Settings(heads=heads))
    if dim % heads == 0:
        assert head_width(Settings(), variant, dim) == dim // heads
        return

    with pytest.raises(AttnvizError) as error:
        head_width(Settings(), variant, dim)

    hint = re.fullmatch(r"try heads=(\d+), dim=(\d+), or give 'head_dim'", error.value.hint)
    assert hint is not None
    assert dim % int(hint[1]) == 0
    assert int(hint[2]) % heads == 0
