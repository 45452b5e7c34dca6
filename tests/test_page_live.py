"""Pages that compute: the forward pass is that of torch, and texts are cut as attnviz cuts them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import attnviz as library
from attnviz.renderers.page import packing
from attnviz.renderers.page.page import SCRIPT_FILES
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces.models.shipped import load_card
from attnviz.traces.trace import Trace
from tests.browser import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COMPUTING = (
    *("elements.js", "data.js", "unpacking.js", "drawn_numbers.js", "hashing.js"),
    *(
        "live_tokens.js",
        "live_pieces.js",
        "strongest.js",
        "forward_pass.js",
        "live_heads.js",
        "state.js",
    ),
)
SCRIPTS = Path(packing.__file__).parent / "script"
SCRIPT = "\n".join((SCRIPTS / name).read_text() for name in SCRIPT_FILES if name in COMPUTING)
COMPUTED = """
  await unpackModel();
  return texts.map((text) => {
    const cut = cutLive(text);
    if (cut.problem) return cut;
    const { off = [], ...others } = choices;
    const chosen = { ...choicesNow(), ...others };
    for (const name of off) chosen.off.set(...`${name}=zero`.split("=").slice(0, 2));
    const { heads, probabilities } = computeModel(live.model, cut.ids, chosen);
    const rows = (table) => table && table.map((row) => Array.from(row));
    return { ...cut, probabilities: rows(probabilities), heads: heads.map((layer) =>
      layer.map((each) => ({ scores: rows(each.scores), weights: rows(each.weights) }))) };
  });
"""
MODELS = ("agreement", "brackets", "induction", "pronouns", "reverse", "sort", "toy")
TEXTS_OF_EACH = 50


def computed(
    chromium: Browser, page: bytes, folder: Path, texts: Sequence[str], **choices: Any
) -> Any:
    """What the page's script computes of some texts, on a page whose own script is taken out."""
    path = folder / "page.html"
    path.write_bytes(re.sub(rb"<script>.*?</script>\s*</body>", b"</body>", page, flags=re.DOTALL))
    with opened(chromium, path) as seen:
        function = f"async ([texts, choices]) => {{ {SCRIPT} {COMPUTED} }}"
        return seen.page.evaluate(function, [list(texts), choices])


def live_page(text: str, **settings: Any) -> bytes:
    return library.trace(text, **settings).view(live=True).render(".html")


def texts_of(name: str) -> list[str]:
    """Texts of a model's words, some of them with other spellings and in capitals."""
    drawn, words = random.Random(name), load_card(name).vocabulary
    known, longest = [*words.ids], load_card(name).longest or 12
    between = "" if words.tokenizer == "chars" else " "
    texts = []
    for _ in range(TEXTS_OF_EACH):
        chosen = drawn.choices(known, k=drawn.randint(2, longest - 1))
        if words.tokenizer == "words" and drawn.random() < 0.3:
            chosen[0] = chosen[0].capitalize()
        texts.append(between.join(chosen))
    return texts


def the_same_as_torch(found: dict[str, Any], trace: Trace) -> None:
    """Tokens, weights, scores and probabilities; rows sum to 1, and what is hidden is 0."""
    assert found["labels"] == list(trace.tokens.labels)
    assert found["ids"] == list(trace.tokens.ids)
    assert [bool(each) for each in found["spaced"]] == list(trace.tokens.spaced)
    for layer, heads in zip(trace.layers, found["heads"], strict=True):
        for number, head in enumerate(heads):
            weights = np.array(head["weights"], dtype=float)
            scores = np.array(head["scores"], dtype=float)
            visible = np.broadcast_to(layer.visible.numpy(), layer.attended.weights.shape)[number]
            assert np.array_equal(~np.isnan(scores), visible)
            assert np.abs(weights - layer.attended.weights[number].numpy()).max() < 1e-5
            assert (weights[~visible] == 0).all()
            seeing = visible.any(axis=1)
            assert np.allclose(weights[seeing].sum(axis=1), 1, atol=1e-12)
            logits = layer.attended.logits[number].numpy()
            reach = max(1.0, np.abs(logits[visible]).max(initial=0))
            assert np.abs(scores - logits)[visible].max(initial=0) < 1e-5 * reach
    if trace.prediction is None or not trace.prediction.answers:
        assert found["probabilities"] is None
    else:
        probabilities = trace.prediction.probabilities.numpy()
        assert np.abs(np.array(found["probabilities"]) - probabilities).max() < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_a_page_computes_what_torch_computes(chromium: Browser, tmp_path: Path, name: str) -> None:
    texts = texts_of(name)
    page = live_page(texts[0], model=name)

    for text, found in zip(texts, computed(chromium, page, tmp_path, texts), strict=True):
        assert "problem" not in found, (text, found)
        the_same_as_torch(found, library.trace(text, model=name))
    assert len(page) <= 400_000


SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"variant": "plain"},
    {"variant": "average"},
    {"variant": "causal", "scale": False, "positions": "sinusoidal"},
    {"variant": "multi-head", "heads": 3, "dim": 12, "positions": "alibi", "seed": 7},
    {"heads": 4, "kv_heads": 2, "positions": "rotary", "window": 2, "temperature": 0.3},
    {"heads": 2, "positions": "rotary-halves", "position_base": 100.0, "soft_cap": 1.5},
    {"layers": 2, "heads": 2, "norm": "pre", "activation": "gelu", "positions": "learned"},
    {"layers": 2, "heads": 2, "activation": "gelu-tanh", "causal": True, "without": "L1H0=mean"},
    {"layers": 1, "norm": "none", "feed_forward": 5, "head_dim": 3, "without": "L0H0"},
    {"layers": 2, "attention_only": True, "scoring": "additive", "heads": 2},
)
OTHER_TEXTS = ("You are reading it, are you not?", "I", "no no no no", " It's  two\nlines: 3.14!")


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_drawn_numbers_are_those_of_attnviz_whatever_is_computed_of_them(
    chromium: Browser, tmp_path: Path, number: int
) -> None:
    settings = SETTINGS[number]
    page = live_page("I am learning this", **settings)

    for text, found in zip(
        OTHER_TEXTS, computed(chromium, page, tmp_path, OTHER_TEXTS), strict=True
    ):
        the_same_as_torch(found, library.trace(text, **settings))
    assert len(page) <= 400_000


@pytest.mark.parametrize(
    ("choices", "settings"),
    [
        ({"scaled": False}, {"scale": False}),
        ({"causal": False}, {"causal": False}),
        ({"placed": False}, {"positions": "none"}),
        ({"temperature": 2.5}, {"temperature": 2.5}),
        ({"off": ["L0H1", "L1H0=mean"]}, {"without": "L0H1,L1H0=mean"}),
    ],
)
def test_what_is_switched_in_the_page_is_what_the_command_switches(
    chromium: Browser, tmp_path: Path, choices: dict[str, Any], settings: dict[str, Any]
) -> None:
    usual = {"layers": 2, "heads": 2, "causal": True, "positions": "sinusoidal"}
    [found] = computed(chromium, live_page("I am", **usual), tmp_path, ["You are here"], **choices)

    the_same_as_torch(found, library.trace("You are here", **(usual | settings)))


UNUSUAL = (
    "Don't stop: o'clock ’s e\u0301te\u0301 na\u00efve_name x\u0303y ٣٤ 中文字 ไทย हिन्दी "
    "👩\u200d👩\u200d👧 🇩🇪 a\u200db \u00ad — “q” ½ ⅷ ª ßẞ İi Å\u030a",
    "tab\there\nline\r\nreturn\u00a0no-break\u2009thin\ufeffbom \x1c\x85 \u202eturned",
    "1234567890 3.14e-10 #!/bin/sh <b>&amp;</b> C:\\dir\\file",
    "constructor __proto__ toString",
)


@pytest.mark.parametrize("tokenizer", ["words", "spaces", "chars", "bytes", "gpt2"])
def test_any_text_is_cut_as_attnviz_cuts_it(
    chromium: Browser, tmp_path: Path, tokenizer: str
) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text().splitlines()
    texts = [*UNUSUAL, *(line[:120] for line in readme if line.strip())]
    page = live_page("I am", tokenizer=tokenizer)

    found = computed(chromium, page, tmp_path, texts)

    refused = [each for each in found if "problem" in each]
    assert len(refused) < len(texts) - 40, refused
    for text, cut in zip(texts, found, strict=True):
        if "problem" in cut:
            assert re.search("may have a rare piece|tokens, and there is room", cut["problem"])
            continue
        tokens = tokenize(text, tokenizer)
        assert cut["ids"] == list(tokens.ids), text
        assert cut["labels"] == list(tokens.labels), text
        assert [bool(each) for each in cut["spaced"]] == list(tokens.spaced), text


def test_a_rare_piece_is_known_where_the_page_was_made_of_it(
    chromium: Browser, tmp_path: Path
) -> None:
    text = "An oxymoronic tokenizer"
    rare, own = computed(
        chromium, live_page(text), tmp_path, ["An oxymoronic zeppelin", "An oxymoronic tokenizer"]
    )

    assert rare["problem"].startswith("“zeppelin” may have a rare piece: this page has the 20,000")
    assert own["ids"] == list(tokenize(text, "gpt2").ids)
