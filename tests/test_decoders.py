"""Decoders: continuations of a text, self-attention and cross-attention beside an encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from attnviz import AttnvizError, trace
from attnviz.analysis.checks import verify_trace
from attnviz.errors import Note
from attnviz.options.values import AttentionKind
from attnviz.traces.settings import Settings
from attnviz.traces.trace import Trace
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from tests.conftest import Attnviz
from tests.small_transformers import KINDS, TEXT, Saved, save

ENCODER_DECODERS = ("t5", "bart")  # have an encoder and a decoder
SHORT_TEXT = "The animal was"


def continue_greedily(folder: Path, ids: list[int], count: int) -> list[int]:
    """The ids continued by `count`, by the model's own eager attention, one by one, no cache."""
    model = load_transformer(Settings(model=str(folder))).model
    with quiet_transformers(), torch.no_grad():
        for _ in range(count):
            ids = [*ids, int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())]
    return ids


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "gpt-oss", "jamba", "bloom"])
def test_a_decoder_goes_on_with_the_likeliest_token_each(
    name: str, small_transformer: Saved
) -> None:
    folder = small_transformer(name)
    prompt_trace = trace(SHORT_TEXT, model=str(folder))

    continued = trace(SHORT_TEXT, model=str(folder), generate=4)

    assert continued.prompt == len(prompt_trace.tokens)
    assert list(continued.tokens.ids) == continue_greedily(folder, list(prompt_trace.tokens.ids), 4)
    assert continued.tokens.labels[: continued.prompt] == prompt_trace.tokens.labels
    assert continued.text == SHORT_TEXT
    assert continued.layers[-1].attended.weights.shape[-1] == len(continued.tokens)
    assert all(each.passed for each in verify_trace(continued))


def test_heads_that_are_off_are_off_while_a_decoder_writes(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    with_all_heads = trace(SHORT_TEXT, model=folder, generate=4)

    with_heads_off = trace(SHORT_TEXT, model=folder, generate=4, without="L0H0,L1H1,L1H2=mean")

    assert with_heads_off.prompt == with_all_heads.prompt
    assert with_heads_off.tokens.ids != with_all_heads.tokens.ids


def test_a_text_is_generated_whatever_form_a_file_asks_for(tmp_path: Path) -> None:
    folder = save(KINDS["gpt2"], tmp_path / "decoder")
    expected = trace(SHORT_TEXT, model=str(folder), generate=2).tokens.ids
    path = folder / "generation_config.json"
    settings_of_file = {"return_dict_in_generate": True, "output_attentions": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | settings_of_file))

    assert trace(SHORT_TEXT, model=str(folder), generate=2).tokens.ids == expected


def test_a_list_of_ends_may_be_damaged(tmp_path: Path) -> None:
    """In a file that somebody changed: the id that ends a text is a number, and this is none."""
    folder = save(KINDS["gpt2"], tmp_path / "decoder")
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [[2]]}))

    continued = trace(SHORT_TEXT, model=str(folder), generate=2)

    assert continued.prompt == len(continued.tokens) - 2


def test_a_decoder_that_ends_says_so(tmp_path: Path) -> None:
    folder = save(KINDS["gpt2"], tmp_path / "model")
    full_continuation = trace(SHORT_TEXT, model=str(folder), generate=3)
    assert full_continuation.prompt is not None
    ending_token = full_continuation.tokens.ids[full_continuation.prompt + 1]
    ending_model = save(KINDS["gpt2"], tmp_path / "ended", eos_token_id=ending_token)

    with pytest.warns(Note, match="the model ended the text after 1 token"):
        continued = trace(SHORT_TEXT, model=str(ending_model), generate=3)

    assert continued.tokens.ids == full_continuation.tokens.ids[: full_continuation.prompt + 1]

    ending_model = save(
        KINDS["gpt2"],
        tmp_path / "at once",
        eos_token_id=full_continuation.tokens.ids[full_continuation.prompt],
    )
    with pytest.warns(Note, match="the model ended the text at once, and added nothing"):
        continued = trace(SHORT_TEXT, model=str(ending_model), generate=3)
    assert continued.prompt is None


@pytest.mark.parametrize("name", ENCODER_DECODERS)
@pytest.mark.parametrize("attention_kind", ["decoder", "cross"])
def test_attention_of_a_decoder_beside_an_encoder_is_the_models_own(
    name: str, attention_kind: AttentionKind, small_transformer: Saved
) -> None:
    folder = small_transformer(name)
    decoder_trace = trace(
        TEXT, model=str(folder), attention=attention_kind, target="it was too tired"
    )
    model, encoder = load_transformer(Settings(model=str(folder))), trace(TEXT, model=str(folder))
    input_ids = {"input_ids": encoder.tokens.ids, "decoder_input_ids": decoder_trace.tokens.ids}
    with quiet_transformers(), torch.no_grad():
        outputs = model.model(
            **{name: torch.tensor([each]) for name, each in input_ids.items()},
            output_attentions=True,
        )
    expected_weights = (
        outputs.decoder_attentions if attention_kind == "decoder" else outputs.cross_attentions
    )

    assert decoder_trace.trained is not None
    assert decoder_trace.trained.which == attention_kind
    assert decoder_trace.keys.ids == (
        decoder_trace.tokens.ids if attention_kind == "decoder" else encoder.tokens.ids
    )
    assert decoder_trace.text == TEXT
    for layer, weights in zip(decoder_trace.layers, expected_weights, strict=True):
        assert (layer.attended.weights - weights[0]).abs().max() <= 1e-5
        assert layer.visible.shape == (len(decoder_trace.tokens), len(decoder_trace.keys))
    if attention_kind == "cross":
        encoder_output = decoder_trace.layers[0].key_inputs
        assert encoder_output is not None
        assert torch.allclose(encoder_output, outputs.encoder_last_hidden_state[0], atol=1e-5)
    assert all(each.passed for each in verify_trace(decoder_trace))
    assert decoder_trace.variant.causal == (attention_kind == "decoder")


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_a_target_is_read_behind_the_start_token_and_its_end_is_not(
    name: str, small_transformer: Saved
) -> None:
    target_trace = trace(
        SHORT_TEXT, model=str(small_transformer(name)), attention="decoder", target="it was"
    )

    assert [label for label in target_trace.tokens.labels if label in ("it", "was")] == [
        "it",
        "was",
    ]
    assert target_trace.tokens.special == {0}
    assert target_trace.tokens.text == "it was"


def test_without_a_target_a_decoder_reads_what_it_writes_itself(small_transformer: Saved) -> None:
    folder = small_transformer("bart")
    written_by_model = trace(SHORT_TEXT, model=str(folder), attention="cross")
    model = load_transformer(Settings(model=str(folder))).model
    ids = torch.tensor([written_by_model.keys.ids])
    with quiet_transformers(), torch.no_grad():
        logits = model(
            input_ids=ids, decoder_input_ids=torch.tensor([written_by_model.tokens.ids])
        ).logits[0]

    assert 1 < len(written_by_model.tokens) <= 21
    assert logits.argmax(-1)[:-1].tolist() == list(written_by_model.tokens.ids[1:])
    shortened = trace(SHORT_TEXT, model=str(folder), attention="cross", generate=3)
    assert shortened.tokens.ids == written_by_model.tokens.ids[:4]


def test_the_encoder_of_both_is_looked_at_unless_it_is_said(small_transformer: Saved) -> None:
    folder = str(small_transformer("t5"))

    encoder_trace = trace(SHORT_TEXT, model=folder)

    assert encoder_trace.trained is not None
    assert encoder_trace.trained.which == "self"
    assert not encoder_trace.variant.causal
    assert encoder_trace.prediction is None


def test_of_what_a_model_is_asked_and_cannot_do_is_said_what_it_can(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    gpt2, bert, t5 = (str(small_transformer(name)) for name in ("gpt2", "bert", "t5"))
    lacks_both = "the model 'gpt2' (gpt2) does not have both an encoder and a decoder"
    cases = {
        (gpt2, "--attention", "cross"): f"--attention is cross, but {lacks_both}",
        (gpt2, "--target", "x"): "--target is what the decoder of an encoder–decoder reads, but "
        "the model 'gpt2' is not one",
        (t5, "--target", "x"): "--target is what the decoder of an encoder–decoder reads, but "
        "--attention is self",
        (t5, "--generate", "3"): "--generate says how much a decoder writes, but --attention is "
        "self: the encoder's",
        (
            t5,
            "--generate",
            "3",
            "--target",
            "x",
            "--attention",
            "cross",
        ): "--generate says how much a decoder writes, but --target already says what",
        (bert, "--generate", "3"): "the model 'bert' cannot continue a text: it was saved as "
        "BertForMaskedLM, which predicts no next token",
        (gpt2, "--generate", "0"): "--generate is 0, and must be at least 1",
        (gpt2, "--generate", "99"): "the text has 4 tokens, and 99 to be added, but the model "
        "'gpt2' only has positions for 96",
    }
    for (folder, *options), problem in cases.items():
        result = attnviz("inspect", "The animal", "--model", folder, *options)
        assert result.status == 2
        assert result.out == ""
        assert result.err.splitlines()[0] == f"error: {problem}"
        assert len(result.err.splitlines()) == 2


def test_a_model_saved_without_what_writes_needs_a_target(tmp_path: Path) -> None:
    from attnviz.traces.trained.refusals import quiet_transformers as without_bars

    folder = save(KINDS["bart"], tmp_path / "whole")
    whole_model = load_transformer(Settings(model=str(folder)))
    with without_bars():
        whole_model.model.model.save_pretrained(tmp_path / "body")
        whole_model.tokenizer.save_pretrained(tmp_path / "body")
    body = str(tmp_path / "body")

    with pytest.raises(AttnvizError, match="was saved without the part that writes"):
        trace(SHORT_TEXT, model=body, attention="cross")
    assert trace(SHORT_TEXT, model=body, attention="cross", target="it").trained is not None


def test_a_trace_of_what_was_given_alone_has_no_prompt(small_transformer: Saved) -> None:
    prompt_trace: Trace = trace(SHORT_TEXT, model=str(small_transformer("gpt2")))

    assert prompt_trace.prompt is None
