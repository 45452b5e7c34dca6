"""Segments are cut by the offsets of the whole text, and the messages of a chat by its template."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import AttnvizError, load, trace
from attnviz.tokens.segments import Segments, cut_into_segments
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens
from attnviz.traces.trained.chat_template import fill_in_template
from attnviz.traces.trained.pieces import cut_text
from tests.conftest import Attnviz
from tests.small_transformers import KINDS, save
from tests.test_pieces import model as piece_model

Saved = Callable[[str], Path]
PARAGRAPHS = "One cat.\n\nTwo dogs. Mr. B. slept.\n \nThree\nlines."
LETTERS = st.text("ab .!?\n\téß漢🙂", min_size=1, max_size=40).filter(str.strip)


def texts_of(tokens: Tokens, segments: Segments) -> list[str]:
    """The text of each segment: of a tokenizer whose pieces are all of it."""
    joined = (b"".join(tokens.pieces[token] for token in group) for group in segments.groups)
    return [text.decode(errors="surrogateescape") for text in joined]


def starts_by_hand(text: str, kind: str) -> list[int]:
    """The bytes at which parts begin, by a scan of the characters."""
    starts, breaks = [], 2
    for position, letter in enumerate(text):
        if letter in " \t\n\r\x0b\x0c":
            breaks += letter == "\n"
            continue
        if breaks >= {"lines": 1, "paragraphs": 2}[kind]:
            starts.append(len(text[:position].encode()))
        breaks = 0
    return starts


@given(LETTERS, st.sampled_from(["lines", "paragraphs"]), st.sampled_from(["gpt2", "bytes"]))
def test_each_token_is_in_the_segment_in_which_its_first_visible_letter_is(
    text: str, kind: str, tokenizer: str
) -> None:
    tokens = tokenize(text, tokenizer)
    starts = starts_by_hand(text, kind)
    if len(starts) < 2:
        with pytest.raises(AttnvizError, match=f"the text is one {kind.removesuffix('s')}"):
            cut_into_segments(tokens, kind)
        return
    try:
        segments = cut_into_segments(tokens, kind)
    except AttnvizError:  # one token may begin in the part before
        return
    place, before = 0, starts[0]
    number_of = {token: index for index, group in enumerate(segments.groups) for token in group}
    assert sorted(number_of) == [*range(len(tokens))]
    homes = []
    for token, piece in enumerate(tokens.pieces):
        visible = place + len(piece) - len(piece.lstrip())
        place += len(piece)
        before = visible if piece.strip() else before  # a blank token goes with the one before
        homes.append((max(start for start in starts if start <= max(before, starts[0])), token))
    own = [home for home, _ in homes]
    assert [number_of[token] for _, token in homes] == [sorted({*own}).index(each) for each in own]


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("paragraphs", ["One cat.\n\n", "Two dogs. Mr. B. slept.\n \n", "Three\nlines."]),
        ("lines", ["One cat.\n\n", "Two dogs. Mr. B. slept.\n \n", "Three\n", "lines."]),
        ("sentences", ["One cat.\n\n", "Two dogs.", " Mr. B. slept.\n \n", "Three\nlines."]),
    ],
)
def test_a_text_is_cut_at_empty_lines_at_breaks_or_where_sentences_end(
    kind: str, parts: list[str]
) -> None:
    tokens = tokenize(PARAGRAPHS, "gpt2")

    assert texts_of(tokens, cut_into_segments(tokens, kind)) == parts


def test_paragraphs_are_found_where_a_tokenizer_drops_line_breaks_and_case() -> None:
    tokens = cut_text(piece_model("wordpiece"), "The Animal.\n\nIt slept.")

    segments = cut_into_segments(tokens, "paragraphs")

    assert not b"".join(tokens.pieces).count(b"\n")
    assert [group[0] for group in segments.groups] == [1, tokens.labels.index("It")]
    assert tokens.special.isdisjoint({token for group in segments.groups for token in group})


def test_a_token_across_a_border_belongs_to_the_segment_where_it_begins() -> None:
    tokens = tokenize("unbelievable stories", "gpt2")
    assert tokens.labels == ("un", "bel", "iev", "able", "stories")

    segments = cut_into_segments(tokens, {"A": "unbeli", "B": "evable stories"})

    assert segments.labels == ("A", "B")
    assert segments.groups == ((0, 1, 2), (3, 4))
    assert segments.crossing == 1  # iev


def test_parts_cut_alone_have_other_tokens_than_the_whole() -> None:
    parts = ["Answer:", " yes\n", "\nQuestion", "s?"]
    alone = sum(len(tokenize(part, "gpt2")) for part in parts)
    tokens = tokenize("".join(parts), "gpt2")

    assert len(tokens) < alone
    assert sum(map(len, cut_into_segments(tokens, "lines").groups)) == len(tokens)


def test_equal_sentences_are_numbered_and_equal_names_take_the_next_occurrence() -> None:
    tokens = tokenize("It slept. It slept. It woke.", "gpt2")

    sentences = cut_into_segments(tokens, "sentences")
    named = cut_into_segments(tokens, {"first": "It slept.", "second": "It slept."})

    assert sentences.labels[:2] == ("It slept.", "It slept.")
    assert sentences.numbers == (1, 2, 3)
    assert named.groups[:2] == sentences.groups[:2]
    assert named.labels == ("first", "second", "rest")


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"A": "slept", "B": ""}, "the segment 'B' is empty"),
        ({"A": "slept", "B": "ran"}, "'B' is not in the text: \"ran\""),
        ({"A": "slept", "B": "slept"}, "'B' is only where another segment is"),
        ({"A": "It sl", "B": range(1, 3)}, "the segments 'A' and 'B' overlap"),
        ({"A": range(3, 9)}, "tokens 4 to 9 of 'A' are not in the text, which has 3 tokens"),
        ({"A": range(2, 2)}, "tokens 3 to 2 of 'A' are not in the text"),
        ({"A": "ept"}, "no token begins in 'A'"),
        ({"sink": "slept"}, "'sink' is what another segment is called"),
        ({"A": "It slept."}, "the text is one segment"),
    ],
)
def test_segments_that_cannot_be_are_refused(named: dict[str, str | range], problem: str) -> None:
    tokens = tokenize("It slept.", "gpt2")

    with pytest.raises(AttnvizError, match=re.escape(problem)) as refusal:
        cut_into_segments(tokens, named)

    assert refusal.value.hint


def test_what_the_model_writes_is_a_segment_of_its_own(small_transformer: Saved) -> None:
    traced = trace("It was\n\ntired", model=small_transformer("llama"), generate=3)

    segments = cut_into_segments(traced.tokens, "paragraphs", traced.prompt)

    assert traced.prompt is not None
    assert segments.labels[-1] == "answer"
    assert segments.groups[-1] == tuple(range(traced.prompt, len(traced.tokens)))


# Conversations

MESSAGES = [
    {"role": "system", "content": " user "},  # a word that templates write, too
    {"role": "user", "content": "the animal"},
    {"role": "assistant", "content": "it was tired"},
    {"role": "user", "content": "the animal"},
]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_2 = (  # the system message is written into the first of the user's
    "{% for m in messages %}{% if m.role == 'system' %}[INST] <<SYS>>{{ m.content }}<</SYS>> "
    "{% elif m.role == 'user' %}{{ '' if loop.index == 2 else '[INST] ' }}{{ m.content | trim }} "
    "[/INST]{% else %} {{ m.content | trim }} </s>{% endif %}{% endfor %}"
)
LLAMA_3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n"
)
GEMMA = (  # the assistant is called model; no system message
    "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content | trim }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)
FAMILIES = {"ChatML": CHATML, "Llama 2": LLAMA_2, "Llama 3": LLAMA_3, "Gemma": GEMMA}


def with_template(template: str, folder: Path) -> Path:
    save(KINDS["llama"], folder, max_position_embeddings=512)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    return folder


@pytest.mark.slow("processes")
@pytest.mark.parametrize("family", FAMILIES)
def test_messages_are_where_the_template_of_each_family_puts_them(
    family: str, tmp_path: Path
) -> None:
    folder = with_template(FAMILIES[family], tmp_path / "model")

    traced = trace(json.dumps(MESSAGES), model=str(folder), chat=True)
    traced.save(tmp_path / "trace.npz")

    tokens = traced.tokens
    spans = [tokens.read[start:stop].strip() for _, start, stop in tokens.roles]
    assert spans == [message["content"].strip() for message in MESSAGES]
    assert [role for role, _, _ in tokens.roles] == [message["role"] for message in MESSAGES]
    starts = [start for _, start, _ in tokens.roles]
    assert starts == sorted(starts)
    segments = cut_into_segments(tokens, "roles")
    assert {*segments.labels} == {"template", "system", "user 1", "assistant", "user 2"}
    groups = dict(zip(segments.labels, segments.groups, strict=True))
    words = ("".join(f" {tokens.labels[token]}" for token in groups[name]) for name in groups)
    text_of = dict(zip(groups, words, strict=True))
    assert text_of["user 1"] == text_of["user 2"]
    assert groups["user 1"] < groups["assistant"] < groups["user 2"]
    assert load(str(tmp_path / "trace.npz")).tokens == tokens


@pytest.mark.slow("processes")
@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages if m.role != 'system' %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
        "{% for m in messages %}{{ m.role }}: {{ m.content | replace('s', 'S') }}\n{% endfor %}",
    ],
)
def test_a_message_that_a_template_drops_or_rewrites_is_refused_by_its_number_and_role(
    template: str, tmp_path: Path
) -> None:
    folder = with_template(template, tmp_path / "model")

    with pytest.raises(AttnvizError, match=r"leaves message 1, of the role 'system', out"):
        trace(json.dumps(MESSAGES), model=str(folder), chat=True)


@pytest.mark.slow("processes")
def test_all_conversations_are_filled_in_by_one_process(small_transformer: Saved) -> None:
    class Tokenizer:
        special_tokens_map: dict[str, str] = {}

        def get_chat_template(self) -> str:
            return CHATML

    texts = fill_in_template(Tokenizer(), [MESSAGES[:1], MESSAGES[1:2]])

    assert [text.count("<|im_start|>") for text in texts] == [2, 2]
    assert "the animal" in texts[1]


@pytest.mark.parametrize(
    "content", ["", "{", '{"role": "user"}', "[]", '[{"role": "user"}]', '[{"content": 3}]', "[1]"]
)
def test_a_chat_file_of_another_shape_is_refused_in_two_lines(
    content: str, tmp_path: Path, attnviz: Attnviz
) -> None:
    path = tmp_path / "messages.json"
    path.write_text(content)

    result = attnviz("inspect", "--chat", str(path), "--model", "minilm")

    assert result.status == 2
    problem, hint = result.err.splitlines()
    assert "is no list of messages" in problem
    assert '"role"' in hint
