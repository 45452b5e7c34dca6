"""A tokenizer cannot make of a text what no machine has room or time for."""

from __future__ import annotations

import base64
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers

from attnviz.errors import AttnvizError
from attnviz.tokens import tokenizer_limits
from attnviz.tokens.tokenizer_limits import refuse_growing_parts, within_limit
from tests.conftest import Attnviz
from tests.refusals import assert_refused, refusal_of
from tests.small_transformers import Saved

Rule = dict[str, Any]
HINT = "use the tokenizer of the original model"


def sequence(*rules: Rule) -> Rule:
    return {"normalizer": {"type": "Sequence", "normalizers": list(rules)}}


def replacing(content: str, **pattern: str) -> Rule:
    return {"type": "Replace", "pattern": pattern, "content": content}


def charsmap(*texts: str) -> Rule:
    """SentencePiece's table of letters, with a trie of four bytes."""
    table = (4).to_bytes(4, "little") + bytes(4) + b"".join(f"{t}\0".encode() for t in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


def template(added: int, texts: int = 1) -> Rule:
    special = {"SpecialToken": {"id": "[X]", "type_id": 0}}
    single = [special, *[{"Sequence": {"id": "A", "type_id": 0}}] * texts]
    specials = {"[X]": {"id": "[X]", "ids": [0] * added, "tokens": ["[X]"] * added}}
    rule = {"type": "TemplateProcessing", "single": single, "special_tokens": specials}
    return {"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, rule]}}


LIGATURE = "صلى الله عليه وسلم"  # U+FDFA in NFKC, the longest of all
USUAL_PARTS = {
    "llama": sequence({"type": "Prepend", "prepend": "▁"}, replacing("▁", String=" ")),
    "albert": sequence(replacing('"', String="``"), {"type": "NFKD"}, charsmap("a", LIGATURE)),
    "xlm-r": sequence(charsmap(LIGATURE), replacing(" ", Regex=" {2,}")),
    "pegasus": sequence(charsmap(LIGATURE), *[replacing(" ", Regex=" {2,}")] * 2),
    "a decoder": {"decoder": replacing(" ", String="▁")},
    "bert": template(2),
}
ODD_PARTS = {"normalizer": [1, None], "post_processor": {"single": 3, "special_tokens": []}}
GROWING_PARTS = {
    "four rules": (sequence(*[replacing("a" * 1000, String="a")] * 4), "1,000,000,000,000 letters"),
    "six rules": (sequence(*[replacing("a" * 1000, String="a")] * 6), "more than 10¹⁵ letters"),
    "a prefix": (sequence({"type": "Prepend", "prepend": "x" * 2000}), "2,001 letters"),
    "between letters": (sequence(*[replacing("x", Regex="")] * 10), "1,024 letters"),
    "a table": (sequence(charsmap("b", "x" * 1001)), "1,001 letters"),
    "a decoder": ({"decoder": replacing("x" * 1001, String="▁")}, "1,001 letters"),
    "bytes of bytes": (sequence(*[{"type": "ByteLevel"}] * 5), "1,024 letters"),
    "bytes before cutting": (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 5}},
        "1,024 letters",
    ),
    "a file's name": ({"model": {"type": "BPE", "vocab": "/dev/zero"}}, "has a text as its vocab"),
    "another file's name": ({"model": {"vocab": {}, "merges": "/x"}}, "has a text as its merges"),
    "many rules": (sequence(*[{"type": "Lowercase"}] * 201), "has more than 200 rules"),
    "special tokens": (template(101), "adds 101 tokens to a text, and 100 are the most"),
    "the text twice": (template(1, texts=2), "repeats each text"),
}


@pytest.mark.parametrize(
    ("name", "letters"),
    [("llama", 2), ("albert", 18), ("xlm-r", 36), ("pegasus", 72), ("a decoder", 1), ("bert", 1)],
)
def test_rules_of_known_tokenizers_are_accepted_for_what_they_make_of_a_letter(
    name: str, letters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_limits, "MAX_GROWTH", letters)
    refuse_growing_parts(USUAL_PARTS[name], name)
    monkeypatch.setattr(tokenizer_limits, "MAX_GROWTH", letters - 1)
    problem, _ = refusal_of(lambda: refuse_growing_parts(USUAL_PARTS[name], name))

    assert f"may make {letters} letters of one" in problem


@pytest.mark.parametrize("parts", [ODD_PARTS, None])
def test_parts_that_are_no_rules_make_nothing_of_a_text(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are, transformers reports it."""
    monkeypatch.setattr(tokenizer_limits, "MAX_GROWTH", 1)
    monkeypatch.setattr(tokenizer_limits, "MAX_ADDED_TOKENS", 0)
    errors = list[str]()
    try:
        refuse_growing_parts(parts, "odd")
    except AttnvizError as error:
        errors.append(str(error))

    assert errors == []


@pytest.mark.parametrize("name", GROWING_PARTS)
def test_rules_that_multiply_a_text_are_refused(name: str) -> None:
    parts, what = GROWING_PARTS[name]

    with pytest.raises(AttnvizError, match=what):
        refuse_growing_parts(parts, name)


@pytest.mark.parametrize(("option", "text"), [("--model", "inspect"), ("--embeddings", "run")])
def test_a_folder_with_such_rules_is_refused_before_it_is_loaded(
    option: str, text: str, small_transformer: Saved, tmp_path: Path, attnviz: Attnviz
) -> None:
    folder = Path(shutil.copytree(small_transformer("gpt2"), tmp_path / "growing"))
    path = folder / "tokenizer.json"
    rules = sequence(*[replacing("a" * 1000, String="a")] * 4)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | rules))

    result = attnviz(text, "the cat sat", option, str(folder))

    problem = "the tokenizer of the model 'growing' may make 1,000,000,000,000 letters of one, "
    assert_refused(result, problem + "and 1,000 are too many", HINT)


def test_a_loaded_tokenizer_is_refused_whatever_its_rules_were_read_from() -> None:
    class Loaded:
        backend_tokenizer = Tokenizer(models.WordLevel({"a": 0}, "a"))

    tokenizer_limits.refuse_growing_tokenizer(Loaded(), "mine")
    tokenizer_limits.refuse_growing_tokenizer(object(), "slow")
    Loaded.backend_tokenizer.normalizer = normalizers.Replace("a", "a" * 1001)
    with pytest.raises(AttnvizError, match="may make 1,001 letters of one"):
        tokenizer_limits.refuse_growing_tokenizer(Loaded(), "mine")


def test_a_file_larger_than_any_tokenizer_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_limits, "MAX_FILE_BYTES", 10)
    (tmp_path / "tokenizer.json").write_text("[" * 11)

    with pytest.raises(AttnvizError, match="more than a tokenizer may have"):
        tokenizer_limits.refuse_growing_files(tmp_path)


def test_a_tokenizer_that_is_no_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a pipe, which nobody writes to, or a device without an end."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("Windows has no such files")
    os.mkfifo(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").symlink_to("/dev/zero")
    (tmp_path / "special_tokens_map.json").write_text('{"unk_token": "?"}')
    read_parts = list[Any]()
    monkeypatch.setattr(
        tokenizer_limits, "refuse_growing_parts", lambda parts, *_: read_parts.append(parts)
    )

    tokenizer_limits.refuse_growing_files(tmp_path)

    assert read_parts == [{"unk_token": "?"}]


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("kind", ["additional_special_tokens", "extra_special_tokens"])
def test_special_tokens_without_number_are_refused(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(json.dumps({kind: ["t"] * 10_000}))
    tokenizer_limits.refuse_growing_files(tmp_path)

    path.write_text(json.dumps({kind: {str(number): "t" for number in range(10_001)}}))
    with pytest.raises(AttnvizError, match="names 10,001 special tokens, and 10,000 are the most"):
        tokenizer_limits.refuse_growing_files(tmp_path)


def test_a_table_of_letters_that_is_shorter_than_it_says_is_refused() -> None:
    whole = charsmap("a")
    table = base64.b64decode(whole["precompiled_charsmap"])
    damaged = base64.b64encode((2**32 - 1).to_bytes(4, "little") + table[4:]).decode()

    refuse_growing_parts(sequence(whole), "mine")
    with pytest.raises(AttnvizError, match="'mine' has a table of letters that is damaged"):
        refuse_growing_parts(sequence(whole | {"precompiled_charsmap": damaged}), "mine")


def test_a_tokenizer_that_does_not_come_to_an_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer_limits, "LEAST_WAIT", 0)
    forever = threading.Event()

    with pytest.raises(AttnvizError, match="not cut the text into tokens within 0 seconds"):
        within_limit(forever.wait, 10)
    forever.set()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_tokenizer_returns_or_raises_is_handed_on(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("odd")

    calls: list[Callable[[], object]] = [lambda: [1, 2], lambda: None]
    assert [within_limit(call, 1) for call in calls] == [[1, 2], None]
    with pytest.raises(error, match="odd"):
        within_limit(fail, 1)
