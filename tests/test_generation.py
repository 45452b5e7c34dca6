"""Generated text: shown word by word, in a film, on a page, and as an answer to a message."""

from __future__ import annotations

import json
import re
import shutil
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser
from safetensors.torch import load_file, save_file

from attnviz import AttnvizError, Inspection, from_weights, inspect, trace
from attnviz.renderers import Look
from attnviz.renderers.picture.items import Block
from attnviz.renderers.picture.page_frame import Captions
from attnviz.tokens.tokens import piece_phrase
from attnviz.traces.settings import Settings
from attnviz.traces.trained.chat_template import TemplateError, fill_in_template
from attnviz.traces.trained.forward_pass import streaming_new_text
from attnviz.traces.trained.loading import load_transformer
from attnviz.views.grids.words_and_bars import RankedBars, Sentence
from attnviz.views.inspection.generated import generation_film
from attnviz.wings.films.gif import film_frames
from tests.base_rates import base_of
from tests.browser import page_in_browser
from tests.conftest import Attnviz
from tests.pages_by_hand import wait_until, write_page
from tests.refusals import assert_refused
from tests.small_transformers import KINDS, Saved, save
from tests.terminals import run_on_terminal

SHORT_TEXT = "The animal was too"
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} . {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def generated_inspection(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    folder = save(KINDS["llama"], tmp_path_factory.mktemp("model") / "llama")
    return inspect(SHORT_TEXT, model=folder, generate=5)


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_template(TEMPLATE, tmp_path_factory.mktemp("model") / "chatting")


def with_template(template: str, folder: Path) -> Path:
    """A saved model whose tokenizer has this chat template."""
    save(KINDS["gpt2"], folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    return folder


@pytest.mark.parametrize(
    ("name", "options"), [("llama", {}), ("gpt2", {}), ("t5", {"attention": "cross"})]
)
def test_words_come_while_the_model_writes_and_are_together_what_it_wrote(
    name: str, options: dict[str, str], small_transformer: Saved
) -> None:
    received_words: list[str] = []

    with streaming_new_text(received_words.append):
        written_trace = trace(SHORT_TEXT, model=small_transformer(name), generate=6, **options)  # type: ignore[arg-type]

    ids = written_trace.tokens.ids[
        written_trace.prompt if written_trace.prompt is not None else 1 :
    ]
    tokenizer = load_transformer(Settings(model=str(small_transformer(name)))).tokenizer
    assert (
        "".join(received_words).strip() == tokenizer.decode(ids, skip_special_tokens=True).strip()
    )
    assert len(received_words) > 1


@pytest.mark.slow("processes")
def test_a_terminal_shows_the_words_and_a_pipe_only_the_result(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    folder = str(small_transformer("llama"))
    command = ["inspect", SHORT_TEXT, "--model", folder, "--generate", "4", "--layer", "0"]

    screen, status = run_on_terminal([sys.executable, "-m", "attnviz", *command], {})
    result = attnviz(*command)

    assert status == 0
    assert "the model writes: " in screen
    assert screen.index("the model writes: ") < screen.index("4 of them generated")
    assert "the model writes" not in result.err + result.out
    text_trace = trace(SHORT_TEXT, model=folder, generate=4)
    text = piece_phrase(b"".join(text_trace.tokens.pieces[text_trace.prompt :]).strip())
    assert f'The model wrote "{text}".' in result.out.replace("\n", " ")


def test_a_frame_shows_what_the_token_before_a_new_one_attends_to(
    generated_inspection: Inspection,
) -> None:
    text_trace = generated_inspection.trace
    weights = np.stack([
        layer.attended.weights[head].numpy()
        for layer in text_trace.layers for head in range(layer.heads)
    ]).mean(0)  # fmt: skip
    model = load_transformer(Settings(model=text_trace.origin.settings.model)).model
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([text_trace.tokens.ids])).logits[0]
    assert text_trace.prompt is not None

    shots = generation_film(generated_inspection)

    assert len(shots) == len(text_trace.tokens) - text_trace.prompt == 5
    for position, shot in enumerate(shots, start=text_trace.prompt):
        sentence, bars = shot.panels
        assert isinstance(sentence, Sentence)
        assert isinstance(bars, RankedBars)
        assert sentence.query == position - 1
        np.testing.assert_allclose(
            sentence.grid.values[0][:position], weights[position - 1, :position], atol=1e-6
        )
        assert sentence.grid.columns.labels == text_trace.tokens.labels
        assert sentence.written == position + 1
        chance = float(logits[position - 1].softmax(-1)[text_trace.tokens.ids[position]])
        label = re.escape(text_trace.tokens.labels[position])
        assert re.match(rf'Next: "{label}" \({100 * chance:.0f}.%\)\. ', shot.title), shot.title
        for name, (weight, others) in zip(bars.grid.rows.numbers, bars.grid.values, strict=True):
            key = int(name) - 1
            assert weight == pytest.approx(weights[position - 1, key], abs=1e-6)
            base = base_of(weights, position - 1, key)
            assert np.nan_to_num(others) == pytest.approx(base, abs=1e-6)


@pytest.mark.parametrize(
    ("rows", "title", "first_bar"),
    [
        (
            [[1], [0.9999, 0.0001], [0.9999, 0.0001, 0], [0.9999, 0, 0.0001, 0]],
            'Next: "d". In L0H0, "c" gives "a" over 99.9 %; nothing else stands out',
            "a",
        ),
        (
            [[1], [0.9, 0.1], [0.7, 0.25, 0.05], [0.85, 0.05, 0.05, 0.05]],
            'Next: "d". In L0H0, "c" gives "a" 70 % and "b" 25 %; the other tokens give "b" 5 %',
            "b",
        ),
        (
            [[1], [0.1, 0.9], [0.1, 0.3, 0.6], [0.1, 0.1, 0.1, 0.7]],
            'Next: "d". In L0H0, "c" gives itself 60 % and "b" 30 %; '
            'the other tokens give "b" 10 %',
            "b",
        ),
    ],
)
def test_a_frame_names_what_gets_most_before_what_gets_more_than_elsewhere(
    rows: list[list[float]], title: str, first_bar: str
) -> None:
    weights = np.array([row + [0] * (4 - len(row)) for row in rows])
    text_trace = replace(from_weights(weights, ["a", "b", "c", "d"]), prompt=3)

    [shot] = generation_film(inspect(text_trace))

    assert shot.title.replace("\u00a0", " ") == title
    assert isinstance(shot.panels[1], RankedBars)
    assert shot.panels[1].grid.rows.labels[0] == first_bar


def test_all_frames_have_one_scale_and_as_many_bars(generated_inspection: Inspection) -> None:
    panels = [shot.panels for shot in generation_film(generated_inspection)]

    assert len({sentence.grid.scale for sentence, _ in panels}) == 1  # type: ignore[union-attr]
    assert len({len(bars.grid.rows) for _, bars in panels}) == 1  # type: ignore[union-attr]
    assert len({bars.longest for _, bars in panels}) == 1  # type: ignore[union-attr]


def test_nothing_that_is_in_two_frames_of_a_film_moves(generated_inspection: Inspection) -> None:
    view, look, labels = (
        generated_inspection.view(),
        Look(),
        generated_inspection.trace.tokens.labels,
    )
    frames = [frame.layout for frame in film_frames(view, view.shots, look, Captions())]

    places = [[(block.box, block.outlined > 0) for block in frame.items_of(Block) if block.tint]
              for frame in frames]  # fmt: skip
    sentences = [[box for box, _ in blocks[: len(labels)]] for blocks in places]
    assert all(boxes == sentences[0] for boxes in sentences)
    bars = [[box[:2] for box, _ in blocks[len(labels) :]] for blocks in places]
    assert all(corners == bars[0] for corners in bars)
    assert len({word.size for frame in frames for word in frame.words if word.text in labels}) == 1
    assert not any(word.text == labels[-1] for word in frames[0].words)


def test_a_film_follows_what_a_decoder_reads_of_another_text(small_transformer: Saved) -> None:
    cross_inspection = inspect(
        SHORT_TEXT, model=small_transformer("t5"), attention="cross", generate=3
    )

    shots = generation_film(cross_inspection)

    assert len(shots) == len(cross_inspection.trace.tokens) - 1
    (sentence, _) = shots[0].panels
    assert isinstance(sentence, Sentence)
    assert sentence.grid.columns.labels == cross_inspection.trace.keys.labels


def test_there_is_no_such_film_where_another_question_is_asked(
    generated_inspection: Inspection,
) -> None:
    text_trace = generated_inspection.trace

    assert generation_film(inspect(text_trace, query=2)) == ()
    assert generation_film(inspect(text_trace, source=2, to=0)) == ()
    assert generation_film(inspect(text_trace, merge="rollout")) == ()
    assert generation_film(inspect(text_trace, part="2:4")) == ()
    prompt_only = trace(SHORT_TEXT, model=text_trace.origin.settings.model)
    assert generation_film(inspect(prompt_only)) == ()
    assert len(generation_film(inspect(text_trace, words=True, layer=0, head=1))) >= 1


@pytest.mark.slow("films")
def test_a_film_of_a_generated_text_is_written(
    generated_inspection: Inspection, tmp_path: Path
) -> None:
    from PIL import Image, ImageSequence

    generated_inspection.save(tmp_path / "film.gif")

    with Image.open(tmp_path / "film.gif") as film:
        assert len([*ImageSequence.Iterator(film)]) == 5


def test_a_page_has_a_button_for_each_new_token(
    generated_inspection: Inspection, chromium: Browser, tmp_path: Path
) -> None:
    text_trace, prompt_length = generated_inspection.trace, generated_inspection.trace.prompt
    assert prompt_length is not None
    path = write_page(generated_inspection.view(), tmp_path)
    with page_in_browser(chromium, path) as page:
        buttons = page.locator(".generated button")
        assert buttons.count() == 5
        assert buttons.first.get_attribute("aria-pressed") == "true"
        assert page.inner_text(".says").startswith("mean of ")

        buttons.nth(2).click()
        label = text_trace.tokens.labels[prompt_length + 2]
        expected = f'next, the model wrote "{label}"'
        wait_until(page, lambda: expected in page.inner_text(".says"))
        assert buttons.nth(2).get_attribute("aria-pressed") == "true"
        assert buttons.first.get_attribute("aria-pressed") == "false"


def test_a_message_is_put_into_the_models_own_template(chat_model: Path) -> None:
    tokenizer = load_transformer(Settings(model=str(chat_model))).tokenizer
    message = [{"role": "user", "content": SHORT_TEXT}]

    text_trace = trace(SHORT_TEXT, model=chat_model, chat=True, generate=3)

    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    assert text == f"<user> {SHORT_TEXT} . <assistant>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert text_trace.prompt == len(ids)
    assert list(text_trace.tokens.ids[: text_trace.prompt]) == ids
    assert text_trace.text == SHORT_TEXT  # so that a command says it once
    command = inspect(text_trace).view().command
    assert command is not None
    assert "--chat" in command.line
    assert SHORT_TEXT in command.line
    assert "<user>" not in command.line
    chat_inspection = inspect(trace(SHORT_TEXT, model=chat_model, chat=True), by="effect")
    assert len(chat_inspection.effects.heads) == 8


@pytest.mark.slow("processes")
@pytest.mark.parametrize(
    "template",
    [
        "{%- set system = messages[0].role == 'system' -%}{{ bos_token or '' }}"
        "{% for each in messages if each.role != 'system' %}"
        "{{- '<|' ~ each['role'] ~ '|>' + each.content|trim }}"
        "{% if loop.last %}{% break %}{% endif %}{{ raise_exception('none') }}{% endfor %}"
        "{% if add_generation_prompt and not system %}<|assistant|>{% endif %}",
        "{% macro shown(what) %}{{ what|tojson(indent=2) }}{% endmacro %}"
        "{% generation %}{{ shown(messages) }}{% endgeneration %}"
        "{% set seen = namespace(count=0) %}"
        "{% set seen.count = seen.count + 1 %}{{ seen.count }}{{ strftime_now('%Y') }}"
        "{{ tools is none }}",
    ],
)
def test_a_template_is_filled_in_as_transformers_does(chat_model: Path, template: str) -> None:
    tokenizer = load_transformer(Settings(model=str(chat_model))).tokenizer
    message = [{"role": "user", "content": ' "é\ud83d" \n'}]
    tokenizer = copy(tokenizer)
    tokenizer.chat_template = template

    expected = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)

    assert fill_in_template(tokenizer, [message]) == [expected]


@pytest.mark.slow("processes")
@pytest.mark.parametrize(
    ("template", "reason"),
    {
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": "seconds",
        "{{ (['x' * 1000000] * 100000)|join }}": "memory",
        "{% set ns = namespace(a='x') %}{% for i in range(50) %}{% set ns.a = ns.a ~ ns.a %}"
        "{% endfor %}{{ ns.a }}": "memory",
        "{{ 'x' * 3000000 }}": "letters",
        "{{ raise_exception('only questions') }}": "only questions",
        "{{ raise_exception('x' * 2000) }}": "^x{1000}$",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}": "recursion",
    }.items(),
)
def test_a_chat_template_has_little_time_and_memory(template: str, reason: str) -> None:
    if sys.platform != "linux" and reason in ("seconds", "memory"):
        pytest.skip("only Linux limits both")
    tokenizer = SimpleNamespace(get_chat_template=lambda: template, special_tokens_map={})

    with pytest.raises(TemplateError, match=reason):
        fill_in_template(tokenizer, [[{"role": "user", "content": SHORT_TEXT}]])


def test_a_chat_that_cannot_be_is_refused_in_two_lines(
    chat_model: Path, small_transformer: Saved, tmp_path: Path, attnviz: Attnviz
) -> None:
    failing_model = with_template("{{ raise_exception('only questions') }}", tmp_path / "failing")
    cases = {
        (str(small_transformer("gpt2")),): (
            "the model 'gpt2' has no chat template: it was not trained to answer messages",
            "leave --chat out, or use an instruction-tuned model",
        ),
        (str(chat_model), "--truncate"): (
            "--truncate cuts off the end of a text, which in a --chat is where the model answers",
            "leave out one of them",
        ),
        (str(failing_model),): (
            "the chat template of the model 'failing' fails: \"only questions\"",
            "leave --chat out",
        ),
        ("agreement",): (
            "--chat is about trained models, and no trained model is given",
            "give --model minilm, a folder, or a name on a hub",
        ),
    }
    for (model, *options), (problem, hint) in cases.items():
        result = attnviz("inspect", SHORT_TEXT, "--model", model, "--chat", *options)
        assert result.err.splitlines() == [f"error: {problem}", f" hint: {hint}"]
        assert result.status == 2
    silent_model = with_template("{% if false %}x{% endif %}", tmp_path / "silent")
    result = attnviz("inspect", SHORT_TEXT, "--model", str(silent_model), "--chat")
    problem = "the chat template of the model 'silent' makes nothing of this text"
    assert_refused(result, problem, "leave --chat out")
    with pytest.raises(AttnvizError, match="no chat template"):
        trace(SHORT_TEXT, model=small_transformer("gpt2"), chat=True)


@pytest.mark.filterwarnings("error")  # a note that the model ended the text would be one
def test_a_model_whose_weights_are_no_numbers_is_not_said_to_have_ended_the_text(
    small_transformer: Saved, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(small_transformer("llama"), folder)
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    # all logits are NaN, of which the first counts as the largest
    (folder / "generation_config.json").write_text('{"eos_token_id": 0}')

    with pytest.raises(AttnvizError, match=r"not a number \(NaN\), in model.embed_tokens.weight"):
        trace(SHORT_TEXT, model=str(folder), generate=2)
