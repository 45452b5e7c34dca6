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
from attnviz.renderers.page.page import SCRIPT_FILES, STYLE_FILES, strip_script, strip_style
from attnviz.tokens.tokenizers import tokenize
from attnviz.traces.models.shipped import load_card
from attnviz.traces.trace import Trace
from attnviz.views.live_page import with_blanks
from tests import not_none
from tests.browser import page_in_browser, without_script
from tests.conftest import Attnviz
from tests.pages_by_hand import wait_for_frames, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

COMPUTING_SCRIPTS = (
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
SCRIPT_FOLDER = Path(packing.__file__).parent / "script"
SCRIPT_OF_COMPUTING = "\n".join(
    (SCRIPT_FOLDER / name).read_text() for name in SCRIPT_FILES if name in COMPUTING_SCRIPTS
)
COMPUTE_TEXTS = """
  await unpackModel();
  return texts.map((text) => {
    const cut = cutLive(text);
    const { off, only_cut: isCut, ...others } = choices;
    if (cut.problem || isCut) return cut;
    if (off) state.off = off; // as the switches and the address have it
    const chosen = { ...choicesNow(), ...others };
    const { heads, probabilities } = computeModel(live.model, cut.ids, chosen);
    const rows = (table) => table && table.map((row) => Array.from(row));
    return { ...cut, probabilities: rows(probabilities), heads: heads.map((layer) =>
      layer.map((each) => ({ scores: rows(each.scores), weights: rows(each.weights) }))) };
  });
"""
MODELS = ("agreement", "brackets", "induction", "pronouns", "reverse", "sort", "toy")
TEXTS_OF_EACH = 50


def compute_in_page(
    chromium: Browser, page: bytes, folder: Path, texts: Sequence[str], **choices: Any
) -> Any:
    """What the scripts compute for some texts, on a page without its own script."""
    path = folder / "page.html"
    path.write_bytes(without_script(page))
    with page_in_browser(chromium, path) as opened_page:
        function = f"async ([texts, choices]) => {{ {SCRIPT_OF_COMPUTING} {COMPUTE_TEXTS} }}"
        return opened_page.evaluate(function, [list(texts), choices])


def live_page(text: str, **settings: Any) -> bytes:
    return library.trace(text, **settings).view(live=True).render(".html")


def write_live_page(folder: Path, text: str, **settings: Any) -> Path:
    path = folder / "live.html"
    path.write_bytes(live_page(text, **settings))
    return path


def texts_of(name: str) -> list[str]:
    """Texts of a model's words, some of them with other spellings and in capitals."""
    generator, vocabulary = random.Random(name), load_card(name).vocabulary
    known_words, max_length = [*vocabulary.ids], load_card(name).longest or 12
    separator = "" if vocabulary.tokenizer == "chars" else " "
    texts = []
    for _ in range(TEXTS_OF_EACH):
        words_chosen = generator.choices(known_words, k=generator.randint(2, max_length - 1))
        if vocabulary.tokenizer == "words" and generator.random() < 0.3:
            words_chosen[0] = words_chosen[0].capitalize()
        texts.append(separator.join(words_chosen))
    return texts


def assert_same_as_torch(page_result: dict[str, Any], trace: Trace) -> None:
    """Tokens, weights, scores and probabilities; rows sum to 1, and what is hidden is 0."""
    assert page_result["labels"] == list(with_blanks(trace).tokens.labels)
    assert page_result["ids"] == list(trace.tokens.ids)
    assert [bool(each) for each in page_result["spaced"]] == list(trace.tokens.spaced)
    for layer, heads in zip(trace.layers, page_result["heads"], strict=True):
        for number, head in enumerate(heads):
            weights = np.array(head["weights"], dtype=float)
            scores = np.array(head["scores"], dtype=float)
            visible = np.broadcast_to(layer.visible.numpy(), layer.attended.weights.shape)[number]
            assert np.array_equal(~np.isnan(scores), visible)
            assert np.abs(weights - layer.attended.weights[number].numpy()).max() < 1e-5
            assert (weights[~visible] == 0).all()
            rows_with_keys = visible.any(axis=1)
            assert np.allclose(weights[rows_with_keys].sum(axis=1), 1, atol=1e-12)
            logits = layer.attended.logits[number].numpy()
            reach = max(1.0, np.abs(logits[visible]).max(initial=0))
            assert np.abs(scores - logits)[visible].max(initial=0) < 1e-5 * reach
    if trace.prediction is None or not trace.prediction.answers:
        assert page_result["probabilities"] is None
    else:
        probabilities = trace.prediction.probabilities.numpy()
        assert np.abs(np.array(page_result["probabilities"]) - probabilities).max() < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_a_page_computes_what_torch_computes(chromium: Browser, tmp_path: Path, name: str) -> None:
    texts = texts_of(name)
    page = live_page(texts[0], model=name)

    for text, page_result in zip(
        texts, compute_in_page(chromium, page, tmp_path, texts), strict=True
    ):
        assert "problem" not in page_result, (text, page_result)
        assert_same_as_torch(page_result, library.trace(text, model=name))
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

    for text, page_result in zip(
        OTHER_TEXTS, compute_in_page(chromium, page, tmp_path, OTHER_TEXTS), strict=True
    ):
        assert_same_as_torch(page_result, library.trace(text, **settings))
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
    shared_settings: dict[str, Any] = {
        "layers": 2,
        "heads": 2,
        "causal": True,
        "positions": "sinusoidal",
    }
    [page_result] = compute_in_page(
        chromium, live_page("I am", **shared_settings), tmp_path, ["You are here"], **choices
    )

    assert_same_as_torch(page_result, library.trace("You are here", **(shared_settings | settings)))


UNUSUAL_TEXTS = (
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
    lines = [line for line in readme if line.strip()]
    texts = [*UNUSUAL_TEXTS, *(line[:60] for line in lines[::2])]
    page = live_page("I am", tokenizer=tokenizer)

    cuts = compute_in_page(chromium, page, tmp_path, texts, only_cut=True)

    cuts_without_room = [each for each in cuts if "problem" in each]
    assert len(texts) - len(cuts_without_room) > 25, cuts_without_room
    for text, cut in zip(texts, cuts, strict=True):
        if "problem" in cut:
            assert "tokens, and there is room" in cut["problem"] or (
                tokenizer == "gpt2" and "may have a rare piece" in cut["problem"]
            )
            continue
        tokens = tokenize(text, tokenizer)
        assert cut["ids"] == list(tokens.ids), text
        assert cut["labels"] == list(tokens.labels), text
        assert [bool(each) for each in cut["spaced"]] == list(tokens.spaced), text


def test_the_page_of_a_larger_model_has_frequent_pieces_and_those_of_its_text(
    chromium: Browser, tmp_path: Path
) -> None:
    text, larger_settings = "An oxymoronic tokenizer", {"layers": 2, "heads": 4, "dim": 32}
    page = live_page(text, **larger_settings)
    texts = ["An oxymoronic cathedral", "An oxymoronic tokenizer"]

    rare_cut, own_cut = compute_in_page(chromium, page, tmp_path, texts)
    [small_cut] = compute_in_page(chromium, live_page(text), tmp_path, texts[:1])
    long_pages = [live_page(" ".join(OTHER_TEXTS[:1] * count)) for count in (2, 3, 4)]

    assert rare_cut["problem"].startswith(
        "“cathedral” may have a rare piece: this page has the 17,000"
    )
    assert own_cut["ids"] == list(tokenize(text, "gpt2").ids)
    assert small_cut["ids"] == list(tokenize(texts[0], "gpt2").ids)
    assert max(map(len, [page, *long_pages])) <= 400_000


def test_the_moments_of_a_training_are_computed_too(chromium: Browser, tmp_path: Path) -> None:
    training = library.learn("reverse", steps=6)
    view = training.view(live=True)
    assert view.live is not None
    page = view.render(".html")

    path = tmp_path / "page.html"
    path.write_bytes(without_script(page))
    weights = """return live.original.results.map(({ heads }) =>
      heads.map((layer) => layer.map(({ weights }) => weights.map((row) => [...row]))));"""
    with page_in_browser(chromium, path) as opened_page:
        weights_of_moments = opened_page.evaluate(
            f"async () => {{ {SCRIPT_OF_COMPUTING} await unpackModel(); {weights} }}"
        )

    assert len(weights_of_moments) == len(training.moments) == 7
    for number, (moment, computed_weights) in enumerate(
        zip(training.moments, weights_of_moments, strict=True)
    ):
        tolerance = (
            1e-5 if number == len(weights_of_moments) - 1 else 2e-3
        )  # 16 bits of each number
        assert np.abs(np.array(computed_weights[0]) - moment.weights[0]).max() < tolerance
    assert len(page) <= 400_000


SENTENCE = "the keys near the cabinet ?"


@pytest.fixture(scope="module")
def live_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_live_page(tmp_path_factory.mktemp("live"), SENTENCE, model="agreement")


def type_text(page: Page, text: str) -> None:
    page.fill("#text", text)
    wait_for_frames(page)


def plain_title(page: Page) -> str:
    return re.sub("[\u2068\u2069]", "", page.inner_text("h1").replace("\u00a0", " "))


NUMBERS_SELECTOR = "#table .frame"


def test_the_word_that_the_model_answers_is_a_blank_in_the_field_and_in_its_row(
    chromium: Browser, tmp_path: Path
) -> None:
    path = write_live_page(tmp_path, SENTENCE.replace("?", "are"), model="agreement")
    with page_in_browser(chromium, path) as page:
        assert plain_title(page).startswith('"?" attends most to "keys"')
        assert (page.input_value("#text"), page.input_value("#query")) == (SENTENCE, "6 ?")
        for word in ("are", "is"):
            type_text(page, SENTENCE.replace("?", word))
            assert page.input_value("#query") == "6 ?"
            title = plain_title(page)
            assert re.fullmatch(
                rf'The model answers "are" \(.*\) at "\?", in place of "{word}"', title
            )


def test_a_typed_sentence_is_shown_at_once_and_an_unknown_word_changes_nothing(
    chromium: Browser, live_path: Path
) -> None:
    with page_in_browser(chromium, live_path) as page:
        first_title = plain_title(page)
        page.click("#table summary")
        page.keyboard.press("Escape")
        wait_until(page, lambda: "98" in page.inner_text(NUMBERS_SELECTOR))
        numbers = page.inner_text(NUMBERS_SELECTOR)
        assert page.input_value("#text") == SENTENCE
        assert not page.is_visible("#of-original")
        type_text(page, "the key near the cabinets ?")
        assert plain_title(page) == 'The model answers "is" (over 99.9 %) at "?"'
        assert page.input_value("#query") == "6 ?"
        assert "cabinets" in page.inner_text("#sentence")
        assert page.is_visible("#of-original")
        answers = page.inner_text(".live-answers")
        assert re.search(r"is\s+>99.9.%\s+was <0.1.%", answers), answers
        type_text(page, "the key nxar the cabinets ?")
        problem = page.inner_text("#live-problem")
        assert problem.startswith("This model does not know “nxar”. Did you mean “near”? Below")
        assert page.get_attribute("#text", "aria-invalid") is not None
        assert page.inner_text(".live-answers") == answers
        assert "near" in page.inner_text("#sentence")
        type_text(page, "the key near the cabinets ?")
        assert page.inner_text("#live-problem") == ""
        page.click("#original")
        wait_for_frames(page)
        assert (plain_title(page), page.input_value("#text")) == (first_title, SENTENCE)
        assert page.inner_text(NUMBERS_SELECTOR) == numbers
        type_text(page, "")
        message = f"Type a sentence. Below is still “{SENTENCE}”."
        assert page.inner_text("#live-problem") == message


def test_what_is_switched_changes_the_answer_and_reset_brings_it_back(
    chromium: Browser, live_path: Path
) -> None:
    with page_in_browser(chromium, live_path) as page:
        answers_before = page.inner_text(".live-answers")
        for name in ("L1H0", "L1H1"):
            page.focus(f".live-heads input[value={name}]")
            page.keyboard.press("Space")
        wait_for_frames(page)
        assert page.inner_text(".live-answers") != answers_before
        assert page.locator("#matrix .struck").inner_text() == "L1H0 (off)"
        page.uncheck("#live-causal")
        page.uncheck("#live-scaled")
        page.focus("#temperature")
        for _ in range(8):
            page.keyboard.press("ArrowRight")
        wait_for_frames(page, 300)
        note_of_changes = (
            "then changed on this page: scaling off, causal mask off, temperature 1, L1H0, L1H1 off"
        )
        assert note_of_changes in page.inner_text("#settings")
        address = page.evaluate("decodeURIComponent(location.hash)")
        assert address == "#scaled=off&causal=off&temperature=1&off=L1H0,L1H1"
        answers = page.inner_text(".live-answers")
        page.click("#reset")
        wait_for_frames(page)
        assert page.inner_text(".live-answers") == answers_before
        assert page.is_checked("#live-causal")
        assert not page.is_visible("#of-original")
    with page_in_browser(chromium, live_path, address) as page:
        wait_for_frames(page)
        assert page.inner_text(".live-answers") == answers


def test_a_link_opens_the_same_sentence_and_says_what_the_model_cannot_read(
    chromium: Browser, live_path: Path
) -> None:
    link = "#text=the+dogs+under+the+old+tree+%3F&placed=off&query=2&off=L0H1%3Dmean"
    with page_in_browser(chromium, live_path, link) as page:
        wait_for_frames(page)
        assert page.input_value("#text") == "the dogs under the old tree ?"
        assert page.input_value("#query") == "2 dogs"
        assert not page.is_checked("#live-placed")
        assert not page.is_checked(".live-heads input[value=L0H1]")
        odd_hash = "#text=the+ox&temperature=0&off=L7H7&scaled=1&query=9"
        page.evaluate("odd => { location.hash = odd }", odd_hash)
        wait_until(page, lambda: page.input_value("#text") == "the ox")
        wait_for_frames(page)
        assert "does not know “ox”" in page.inner_text("#live-problem")
        assert not page.is_visible("#of-original")


def test_of_a_link_as_much_is_read_as_can_be_typed(chromium: Browser, live_path: Path) -> None:
    words = "the dogs " * 5000
    with page_in_browser(chromium, live_path, f"#text={words.replace(' ', '+')}") as page:
        wait_for_frames(page)
        assert page.input_value("#text") == words[:1000]
        assert page.get_attribute("#text", "maxlength") == "1000"
        page.evaluate("word => { location.hash = `text=${word.repeat(20000)}` }", "zzz+")
        wait_until(page, lambda: page.input_value("#text") == ("zzz " * 250))
        page.evaluate("names => { location.hash = `off=${names}` }", "L0H1," * 50_000 + "L0H0")
        wait_until(page, lambda: not page.is_checked(".live-heads input[value=L0H0]"))
        assert not page.is_checked(".live-heads input[value=L0H1]")


def test_a_link_without_a_token_follows_the_one_that_asks_and_lengths_are_said_anew(
    chromium: Browser, live_path: Path
) -> None:
    with page_in_browser(chromium, live_path, "#text=the+dog+%3F") as page:
        wait_for_frames(page, 300)
        assert page.input_value("#query") == "3 ?"
        caveat = page.text_content("#caveat") or ""
        assert caveat.startswith("agreement was trained on sentences of 6 to 12 tokens; this one ")
        assert caveat.endswith("has 3, a length it never saw in training")
        type_text(page, "the dog near the car ?")
        assert page.text_content("#caveat") == ""
        wait_for_frames(page, 300)
        assert "query=6" in page.evaluate("location.hash"), "though the page opens with it"


def test_a_page_that_computes_tells_what_it_found_once_one_stops_typing(
    chromium: Browser, live_path: Path
) -> None:
    with page_in_browser(chromium, live_path, viewport={"width": 480, "height": 900}) as page:
        page.get_by_label("Your sentence").press("End")
        page.keyboard.type(" and")
        assert page.text_content("#live-status") == ""
        wait_until(page, lambda: "does not know “and”" in (page.text_content("#live-status") or ""))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("slider", name="Temperature").press("End")
        wait_until(page, lambda: "The model answers" in (page.text_content("#live-status") or ""))


def test_only_a_page_that_computes_has_the_scripts_for_it(tmp_path: Path) -> None:
    page = library.trace("I am learning").view().render(".html")

    assert b"computeModel" not in page
    assert len(page) < 130_000


@pytest.mark.parametrize("name", [*SCRIPT_FILES, *STYLE_FILES])
def test_what_is_left_out_of_scripts_and_styles_is_comments_and_white_space(name: str) -> None:
    folder, strip_file = (
        ("style", strip_style) if name.endswith("css") else ("script", strip_script)
    )
    text = (SCRIPT_FOLDER.parent / folder / name).read_text("utf-8")
    without_comments = re.sub(r"^\s*(//.*|/\*[\s\S]*?\*/)$", "", text, flags=re.MULTILINE)
    without_comments = re.sub(r"(?<=[;,{(]) // .*$", "", without_comments, flags=re.MULTILINE)
    without_comments = re.sub(r"(?<=[;,{(])  // .*$", "", without_comments, flags=re.MULTILINE)
    stripped_text = re.sub(r"(?<=[;,{(]) // .*$", "", strip_file(text), flags=re.MULTILINE)

    expected = "".join(without_comments.split())
    assert "".join(stripped_text.split()) == (
        expected.replace(";}", "}") if folder == "style" else expected
    )
    if folder == "script":
        assert [line for line in text.splitlines() if line.count("`") % 2] == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-o", "x.png"], "and 'x.png' is none"),
        ([], "and no page is written"),
        (["-o", "x.html", "--model", "minilm"], "a trained transformer is too large for a page"),
        (["-o", "x.html", "--dropout", "0.1"], "dropout draws other numbers for each text"),
        (["-o", "x.html", "--dim", "256"], "this one has 196,608 numbers"),
        (["-o", "x.html", "--window", "1:2"], "--window asks for something else"),
        (["-o", "x.html", "--show", "received"], "--show asks for something else"),
        (["-o", "x.html", "--dtype", "float16"], "a page computes in 64 bits"),
    ],
)
def test_what_no_page_can_compute_is_refused_in_two_lines(
    options: list[str],
    problem: str,
    attnviz: Attnviz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    result = attnviz("run", "I am", "--live", *options)

    assert (result.status, result.out) == (2, "")
    error_lines = result.err.splitlines()
    assert len(error_lines) == 2
    assert problem in error_lines[0]
    assert list(tmp_path.iterdir()) == []


def test_a_library_saves_such_pages_and_refuses_pictures(tmp_path: Path) -> None:
    trace = library.trace("I am", heads=2)
    trace.save(tmp_path / "live.html", live=True)
    assert b'"places"' in (tmp_path / "live.html").read_bytes()
    with pytest.raises(library.AttnvizError, match=r"live\.png' is none"):
        trace.save(tmp_path / "live.png", live=True)


TEXTS_BY_MODEL = {
    "agreement": SENTENCE,
    "brackets": "( [ ] { } )",
    "induction": "maplemaple",
    "pronouns": "Tom slept near the house . Anna waited beside the tree and he slept",
    "reverse": "a b c d e f g h",
    "sort": "5 2 8 1 → 1 2 5 8",
}


@pytest.mark.parametrize("name", sorted(TEXTS_BY_MODEL))
def test_heads_that_are_switched_off_by_click_or_address_change_the_answer_as_in_torch(
    chromium: Browser, tmp_path: Path, name: str
) -> None:
    text, model = TEXTS_BY_MODEL[name], library.trace(TEXTS_BY_MODEL[name], model=name)
    names = [f"L{each.layer}H{head}" for each in model.layers for head in range(each.heads)]
    path = write_live_page(tmp_path, text, model=name)
    prediction_without = library.trace(text, model=name, without=",".join(names)).prediction
    assert prediction_without is not None

    with page_in_browser(chromium, path) as page:
        for each in names:
            page.click(f".live-heads input[value={each}]")
        wait_for_frames(page)
        by_click = page.inner_text(".live-answers li:first-child")
        followed_position = int(page.input_value("#query").split()[0]) - 1
    with page_in_browser(chromium, path, f"#off={','.join(names)}") as page:
        wait_for_frames(page)
        assert page.inner_text(".live-answers li:first-child") == by_click
    asked_positions = prediction_without.asked_positions
    place = followed_position if followed_position in asked_positions else asked_positions[-1]
    best = prediction_without.best(place, 1)[0]
    share = 100 * float(prediction_without.probabilities[place, best])
    answer, shown_share, *_ = re.split(r"\s+", by_click.replace("\u00a0", " "))
    assert answer == prediction_without.answers[best], by_click
    assert abs(float(shown_share.strip("<>")) - share) < 1, (by_click, share)
    [result_off] = compute_in_page(
        chromium, live_page(text, model=name), tmp_path, [text], off=names
    )
    assert_same_as_torch(result_off, library.trace(text, model=name, without=",".join(names)))


def test_the_answer_is_that_of_the_last_token_unless_somebody_chose_another(
    chromium: Browser, tmp_path: Path
) -> None:
    path = write_live_page(tmp_path, "maplemaple", model="induction")
    assert len(path.read_bytes()) <= 400_000

    def question_text() -> str:
        return re.sub("[\u2068\u2069]", "", page.inner_text(".live-answers p"))

    with page_in_browser(chromium, path) as page:
        page.click("#text")
        page.keyboard.press("Control+A")
        page.keyboard.type("abcabcab")
        wait_for_frames(page)
        assert question_text() == 'What follows "b" (8)'
        page.click("#sentence .token[data-place='1']")
        page.click("#text")
        page.keyboard.press("End")
        page.keyboard.type("c")
        wait_for_frames(page)
        assert question_text() == 'What follows "b" (2)'
        page.keyboard.press("Control+A")
        page.keyboard.type("xyzx")
        wait_for_frames(page)
        assert question_text() == 'What follows "x" (4)'


def test_a_switch_keeps_the_sentence_that_is_being_typed_and_its_problem(
    chromium: Browser, live_path: Path
) -> None:
    with page_in_browser(chromium, live_path) as page:
        type_text(page, "the old kezs near the cabinet are")
        problem = page.inner_text("#live-problem")
        page.click("#live-causal")
        wait_for_frames(page)
        assert page.input_value("#text") == "the old kezs near the cabinet are"
        assert page.inner_text("#live-problem") == problem != ""
        page.click("#reset")
        wait_for_frames(page)
        assert (page.input_value("#text"), page.inner_text("#live-problem")) == (SENTENCE, "")


def test_nothing_jumps_or_complains_while_a_word_is_typed(
    chromium: Browser, live_path: Path
) -> None:
    with page_in_browser(chromium, live_path, viewport={"width": 1280, "height": 900}) as page:
        find_top = "document.querySelector('#matrix').getBoundingClientRect().top"
        wait_for_frames(page)
        top_before = page.evaluate(find_top)
        page.click("#text")
        page.keyboard.press("Control+A")
        for letter in "the tre":
            page.keyboard.type(letter)
            wait_for_frames(page, 0)
            assert page.inner_text("#live-problem") == ""
        page.keyboard.type("q")
        wait_for_frames(page)
        assert "does not know “treq”" in page.inner_text("#live-problem")
        assert page.evaluate(find_top) == top_before
        type_text(page, "x" * 900)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert len(page.inner_text("#live-problem")) < 200


def test_a_complete_list_has_no_next_number_and_an_arrow_can_be_typed(
    chromium: Browser, tmp_path: Path
) -> None:
    trace = library.trace("5 2 8 1 -> 1 2 5 8", model="sort")
    assert not_none(trace.prediction).asked_positions == (4, 5, 6, 7)
    path = write_live_page(tmp_path, "5 2 8 1 → 1 2 5 8", model="sort")
    with page_in_browser(chromium, path) as page:

        def question_texts() -> list[str]:
            texts = page.locator(".live-answers p").all_inner_texts()
            return [re.sub("[\u2068\u2069]", "", text) for text in texts]

        complete_note = "The answer is as long as the question: it is complete."
        assert question_texts() == ['What follows "5" (8)', complete_note]
        assert page.input_value("#query") == "8 5", "it opens at the token that asks"
        type_text(page, "7 3 9 -> 3")
        assert question_texts() == ['What follows "3" (5)']
        type_text(page, "7 3 9 -> 3 7 9")
        assert question_texts() == ['What follows "7" (6)', complete_note]


def test_the_temperature_is_there_only_where_scores_are_divided(
    chromium: Browser, tmp_path: Path
) -> None:
    path = write_live_page(tmp_path, "I am", variant="average", tokenizer="words")
    with page_in_browser(chromium, path) as page:
        assert page.locator("#temperature").count() == 0


def test_the_arithmetic_that_was_open_comes_back_with_its_tokens_and_was_is_of_one_question(
    chromium: Browser, tmp_path: Path
) -> None:
    path = write_live_page(tmp_path, "a b c d e f g h", model="reverse")
    with page_in_browser(chromium, path, "#cell=3-2") as page:
        wait_for_frames(page, 200)
        page.click("#text")
        page.keyboard.press("Control+A")
        page.keyboard.type("a")
        wait_for_frames(page)
        assert not page.is_visible("#arithmetic")
        assert "was" not in page.inner_text(".live-answers")
        page.keyboard.type(" b c")
        wait_for_frames(page, 200)
        assert page.is_visible("#arithmetic")
