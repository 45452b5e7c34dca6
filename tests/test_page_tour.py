"""The walk through a live page: its numbers are torch's, its captions short, its keys work."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import attnviz as library
from attnviz.traces.trace import Trace
from tests.browser import page_in_browser
from tests.pages_by_hand import wait_for_frames, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow("browser")

AGREEMENT = "the keys near the cabinet ?"
MOST_WORDS = 20
TITLE, CAPTION, NUMBER, NOTE = (
    "#tour .tour-live h2",
    ".tour-live .tour-caption",
    ".tour-live .tour-number",
    ".tour-live > .caption",
)


class Station(NamedTuple):
    name: str
    caption: str
    number: str
    note: str


@pytest.fixture(scope="module")
def agreement_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tour") / "agreement.html"
    library.trace(AGREEMENT, model="agreement").save(path, live=True)
    return path


def read_station(page: Page) -> Station:
    wait_for_frames(page)
    texts = [page.inner_text(name) for name in (TITLE, CAPTION, NUMBER, NOTE)]
    return Station(*(re.sub("[\u2068\u2069]", "", text).replace("\u00a0", " ") for text in texts))


def walk_through(page: Page) -> list[Station]:
    wait_until(page, lambda: page.locator("#start-tour").count() == 1)
    page.click("#start-tour")
    stations = [read_station(page)]
    while stations[-1].name.split(" of ")[0] != stations[-1].name.split(" of ")[1].split(":")[0]:
        page.keyboard.press("ArrowRight")
        stations.append(read_station(page))
    return stations


def last_number(text: str) -> float:
    """The number that arrives at a station: behind the arrow, or the only one."""
    numbers = re.findall(r"(?:→ )?([−-]?[\d.]+(?:e[−-]\d+)?)", text.split("→")[-1])
    return float(numbers[0].replace("−", "-"))


def numbers_of(trace: Trace, layer: int, head: int) -> dict[str, float]:
    """The same numbers, from the tensors of a run."""
    part = trace.layers[layer]
    queries, keys, values = (*part.queries_with_keys(), part.values_of_heads)
    row = len(trace.tokens) - 1
    weights = trace[layer, head][row].double()
    key = int(weights.argmax())
    score = float(queries[head, row].double() @ keys[head, key].double())
    mixture = weights @ values[head].double()
    assert trace.prediction is not None
    return {
        "score": score,
        "scaled": score * part.scale,
        "share": float(weights[key]),
        "mixture": float(mixture[mixture.abs().argmax()]),
        "answer": 100 * float(trace.prediction.probabilities[-1].max()),
    }


@pytest.mark.parametrize("text", [AGREEMENT, "the old dog behind the tables ?"])
@pytest.mark.parametrize("off", ["", "L0H1"])
def test_the_numbers_of_the_walk_are_those_of_torch(
    chromium: Browser, agreement_page: Path, text: str, off: str
) -> None:
    address = f"#text={text.replace(' ', '+').replace('?', '%3F')}&head=L1H1" + (
        f"&off={off}" if off else ""
    )

    with page_in_browser(chromium, agreement_page, address) as page:
        stations = walk_through(page)
    names = [station.number for station in stations]

    trace = library.trace(text, model="agreement", without=off or None)
    expected = numbers_of(trace, 1, 1)
    walked = dict(zip(expected, map(last_number, names[3:8]), strict=True))
    for name, number in expected.items():
        assert walked[name] == pytest.approx(number, abs=0.51 if name == "answer" else 0.0051)
    dimension = re.search(r"dimension (\d+)", names[1])
    assert dimension is not None
    assert last_number(names[1]) == pytest.approx(
        float(trace.layers[1].layer_inputs[-1, int(dimension[1]) - 1]), abs=0.0051
    )
    assert "%" not in stations[6].caption
    assert trace.prediction is not None
    logit = float(trace.prediction.logits[-1].max())
    assert last_number(names[7].rsplit("→", 1)[0]) == pytest.approx(logit, abs=0.0051)
    for line in (names[3], names[6]):
        assert_sum_is_true(line)
    for before, line in pairwise(names[1:7]):
        arrived = re.split(r" [=≈] | of |[(]", before.rsplit("→ ", 1)[1])[0].strip()
        assert line.split(" → ")[0] == arrived, (before, line)


def assert_sum_is_true(line: str) -> None:
    """`2.40 → 16.37 ≈ 2.40·2.45 + 10.50 from …`: the number that arrives is a factor of the sum."""
    form = r"(\S+) → (\S+) [=≈] (\S+)·\(?([^\s)]+)\)? ([+−]) (\S+) from .*"
    match = re.fullmatch(form, line)
    assert match is not None, line
    arriving, result, one, other, sign, rest = (each.replace("−", "-") for each in match.groups())
    assert arriving == one
    total = float(one) * float(other) + float(f"{sign}{rest}")
    assert total == pytest.approx(
        float(result), abs=0.01 * (2 + abs(float(one)) + abs(float(other)))
    )


def test_of_what_a_head_that_is_off_passes_on_the_walk_says_what_is_true(
    chromium: Browser, tmp_path: Path
) -> None:
    captions = {}
    for off in ("L1H1", "L1H1=mean"):
        library.trace(AGREEMENT, model="agreement", without=off).save(
            tmp_path / "x.html", live=True
        )
        with page_in_browser(chromium, tmp_path / "x.html", "#head=L1H1&walk=7") as page:
            wait_until(page, lambda: page.locator(CAPTION).count() == 1)
            captions[off] = read_station(page)
    switched = "L1H1 is switched off: whatever it reads, it passes on"

    assert captions["L1H1"].caption == f"{switched} nothing."
    assert captions["L1H1"].number.split("→")[1].startswith(" 0 is passed on")
    assert captions["L1H1=mean"].caption == f"{switched} the mean of all tokens."
    assert not captions["L1H1=mean"].number.split("→")[1].startswith(" 0 ")


def test_of_vectors_and_temperatures_the_walk_says_what_is_true(
    chromium: Browser, agreement_page: Path
) -> None:
    cases = {
        "walk=2": "Layer 0 has mixed in other tokens: this is the second layer.",
        "walk=2&off=L0H0,L0H1": "Layer 0 has changed it: this is the second layer.",
        "walk=2&head=L0H1": "The number picks its vector: 32 numbers.",
        "walk=7": "The heads' sums, times the model's table W_O, join the vector of",
        "walk=8": "Two more steps: small network (feed-forward), rescaling (norm). The",
        "walk=8&head=L0H1": (
            "Three more steps: small network (feed-forward), layer 1, rescaling (norm). The"
        ),
        "walk=5": "divide by √16. Temperature 0.5 widens differences.",
        "walk=5&temperature=2": "divide by √16. Temperature 2 narrows differences.",
    }
    for address, phrase in cases.items():
        place = address if "head=" in address else f"head=L1H1&{address}"
        with page_in_browser(chromium, agreement_page, f"#{place}") as page:
            wait_until(page, lambda: page.locator(CAPTION).count() == 1)
            assert phrase in read_station(page).caption


def test_the_score_of_each_token_stands_below_it(chromium: Browser, agreement_page: Path) -> None:
    layer = library.trace(AGREEMENT, model="agreement").layers[1]
    queries, keys = layer.queries_with_keys()
    products = (queries[1, -1].double() @ keys[1].double().T).tolist()

    with page_in_browser(chromium, agreement_page, "#head=L1H1&walk=4") as page:
        wait_until(page, lambda: page.locator(CAPTION).count() == 1)
        texts = page.locator(".tour-live .tour-words small").all_inner_texts()

    printed = [float(text.replace("−", "-")) for text in texts]
    assert printed == pytest.approx(products, abs=0.051)


@pytest.mark.parametrize("layer", range(2))
@pytest.mark.parametrize("text", [AGREEMENT, "the dog ?"])
def test_of_a_key_that_all_rows_read_most_the_walk_says_so(
    chromium: Browser, agreement_page: Path, text: str, layer: int
) -> None:
    rows = library.trace(text, model="agreement")[layer, 0]
    key = int(rows[-1].argmax())
    can_read = rows[key:]  # the mask is causal
    is_of_all = len(can_read) > 2 and bool((can_read.argmax(-1) == key).all())
    sentence = f' {len(can_read)} of {len(rows)} tokens read "{text.split()[key]}" most here.'
    typed = text.replace(" ", "+").replace("?", "%3F")

    with page_in_browser(chromium, agreement_page, f"#text={typed}&head=L{layer}H0&walk=6") as page:
        wait_until(page, lambda: page.locator(CAPTION).count() == 1)
        note = read_station(page).note

    assert ("most here" in note) == is_of_all
    assert note.endswith(sentence) == is_of_all


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (AGREEMENT, "agreement"),
        ("Tom waited beside Anna . she", "pronouns"),
        ("b d a c b d a", "induction"),
        ("c a b", "reverse"),
        ("3 1 2", "sort"),
        ("( [ ]", "brackets"),
        ("I am learning this", None),
    ],
)
def test_each_caption_is_short_whatever_the_model(
    chromium: Browser, tmp_path: Path, text: str, model: str | None
) -> None:
    path = tmp_path / "x.html"
    spaces = text.replace(" ", "") if model == "induction" else text
    library.trace(spaces, model=model).save(path, live=True)

    with page_in_browser(chromium, path) as page:
        stations = walk_through(page)

    assert len(stations) == (9 if model else 7)
    assert max(len(station.caption.split()) for station in stations) <= MOST_WORDS
    assert all(
        "undefined" not in " ".join(each) and "NaN" not in " ".join(each) for each in stations
    )
    assert path.stat().st_size <= 400_000


@pytest.mark.parametrize(
    ("text", "model", "switched"),
    [
        (AGREEMENT, "agreement", "L1H0"),  # the walked head, needed
        ("the key near the cars ?", "agreement", "L1H0"),  # the walked head, not needed
        ("( [ ]", "brackets", "L1H0 and L1H1"),  # needed only together: they read the same token
    ],
)
def test_the_last_station_switches_off_the_head_of_the_walk_and_says_what_that_shows(
    chromium: Browser, tmp_path: Path, text: str, model: str, switched: str
) -> None:
    whole = library.trace(text, model=model)
    whole.save(tmp_path / "x.html", live=True)
    with page_in_browser(chromium, tmp_path / "x.html", "#head=L1H0&walk=9") as page:
        wait_until(page, lambda: page.locator(CAPTION).count() == 1)
        before = read_station(page)
        page.click(".tour-scene button")
        after = read_station(page)

    names = switched.split(" and ")
    without = library.trace(text, model=model, without=",".join(names))
    assert whole.prediction is not None
    assert without.prediction is not None
    old, new = (
        each.answers[int(each.probabilities[-1].argmax())]
        for each in (whole.prediction, without.prediction)
    )
    rows = [whole[1, int(name[-1])][-1] for name in names]
    key = int(rows[0].argmax())
    assert min(float(row[key]) for row in rows) > 0.5
    reads = "they read" if len(names) > 1 else f"{switched} reads"
    conclusion = (
        " %): a large weight need not matter."
        if old == new
        else f' %), not "{old}". So "{old}" needs what {reads}, mostly "{whole.tokens[key]}".'
    )
    still = " still" if old == new else ""
    assert before.caption.startswith(f"Does the answer need {switched}?")
    assert "→" not in before.number
    assert after.caption.startswith(f'Without {switched} the model{still} says "{new}" (')
    assert after.caption.endswith(conclusion)
    assert len(after.caption.split()) <= MOST_WORDS


def test_each_number_of_the_softmax_and_of_the_answer_has_an_origin(
    chromium: Browser, agreement_page: Path
) -> None:
    with page_in_browser(chromium, agreement_page, "#head=L1H0") as page:
        stations = walk_through(page)
        page.keyboard.press("ArrowLeft")
        scenes = []
        for _ in range(3):
            scenes.append(page.inner_text(".tour-live .tour-scene"))
            page.keyboard.press("ArrowLeft")
            wait_for_frames(page)

    softmax = scenes[-1]
    line = re.search(r"sum of all exp [=≈] ([\d.]+) / ([\d.]+) [=≈] ([\d.]+)", softmax)
    assert line is not None
    power, total, share = line.groups()
    assert float(power) / float(total) == pytest.approx(float(share), abs=0.0051)
    assert "e−" not in softmax
    assert "<.001" in softmax
    mixture = re.split(" [=≈] ", stations[6].number.split("→ ")[1])[0]
    score = stations[7].number.split(" → ")[0]
    assert stations[7].note == f"{mixture} is one of the numbers that go into {score}."


@pytest.mark.parametrize("before", ["", "L0H1"])
@pytest.mark.parametrize("end", ["Escape", "×", "Walk me through"])
def test_a_walk_leaves_the_heads_switched_as_they_were_before_it(
    chromium: Browser, agreement_page: Path, before: str, end: str
) -> None:
    boxes = "[...document.querySelectorAll('.live-heads input:not(:checked)')]"
    off = f"{boxes}.map(box => box.value).join()"
    with page_in_browser(chromium, agreement_page, f"#head=L1H0&off={before or 'none'}") as page:
        walk_through(page)
        page.click(".tour-scene button")
        wait_for_frames(page)
        assert page.evaluate(off) == ("" if before else "L1H0")
        if end == "Escape":
            page.keyboard.press(end)
        else:
            page.click(f"text={end}")
        wait_for_frames(page)

        assert page.evaluate(off) == before
        assert page.locator(TITLE).is_visible() == (end == "Walk me through")


def test_keys_swipes_and_buttons_move_and_escape_ends_the_walk(
    chromium: Browser, agreement_page: Path
) -> None:
    phone: dict[str, Any] = {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
    }
    swipe = """right => {
      const touch = x => new Touch({ identifier: 1, target: tour, clientX: x, clientY: 200 });
      tour.dispatchEvent(new TouchEvent("touchstart", { touches: [touch(200)] }));
      tour.dispatchEvent(new TouchEvent("touchend", { changedTouches: [touch(200 + right)] }));
    }"""
    with page_in_browser(chromium, agreement_page, **phone) as page:
        wait_until(page, lambda: page.locator("#start-tour").count() == 1)
        page.click("#start-tour")
        wait_for_frames(page)
        assert page.evaluate("document.activeElement.textContent").startswith("1 of 9")
        page.evaluate(swipe, -120)
        assert read_station(page).name.startswith("2 of 9")
        page.click("text=Next ›")
        assert read_station(page).name.startswith("3 of 9")
        page.evaluate(swipe, 120)
        assert read_station(page).name.startswith("2 of 9")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.click("text=‹ Back")
        page.keyboard.press("ArrowLeft")
        assert read_station(page).name.startswith("1 of 9")
        page.keyboard.press("Escape")
        wait_for_frames(page)
        assert not page.locator("#tour").is_visible()
        assert page.evaluate("document.activeElement.id") == "start-tour"


def test_a_sentence_of_ones_own_is_walked_through_at_once_and_on_paper(
    chromium: Browser, agreement_page: Path
) -> None:
    with page_in_browser(chromium, agreement_page, "#walk=6") as page:
        wait_until(page, lambda: page.locator(CAPTION).count() == 1)
        before = read_station(page)
        page.fill("#text", "the dog near the houses ?")
        after = read_station(page)
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        titles = page.locator(".tour-paper h2").all_inner_texts()

    assert before.name == after.name == "6 of 9: softmax"
    assert '"keys"' in before.caption
    assert '"dog"' in after.caption
    assert [title.split(":")[0] for title in titles] == [f"{place} of 9" for place in range(1, 10)]


def test_the_walk_names_a_word_that_the_model_does_not_know(
    chromium: Browser, agreement_page: Path
) -> None:
    with page_in_browser(chromium, agreement_page, "#walk=6") as page:
        wait_until(page, lambda: page.locator(CAPTION).count() == 1)
        page.fill("#text", "the zebra near the houses ?")
        problem = page.inner_text("#tour-problem")
        assert problem == page.inner_text("#live-problem")
        page.fill("#text", "the dog near the houses ?")
        assert page.inner_text("#tour-problem") == ""

    assert problem.startswith("This model does not know “zebra”.")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_of_the_walk_is_small_or_wider_than_the_page(
    chromium: Browser, agreement_page: Path, width: int
) -> None:
    sizes = """[...document.querySelectorAll(".tour-live :not(td *, td, th, th *)")].filter(each =>
      [...each.childNodes].some(part => part.nodeType === 3 && part.textContent.trim()))
      .map(each => parseFloat(getComputedStyle(each).fontSize)).filter(Boolean)"""
    viewport: dict[str, Any] = {"viewport": {"width": width, "height": 844}}
    with page_in_browser(chromium, agreement_page, **viewport) as page:
        wait_until(page, lambda: page.locator("#start-tour").count() == 1)
        page.click("#start-tour")
        for _ in range(9):
            wait_for_frames(page)
            assert min(page.evaluate(sizes)) >= 15  # but in the cells of a table on a phone
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("ArrowRight")


def test_arrows_in_the_matrix_still_move_the_cell_where_there_is_a_walk(
    chromium: Browser, agreement_page: Path
) -> None:
    with page_in_browser(chromium, agreement_page, "#cell=6-2") as page:
        wait_until(page, lambda: page.locator("#arithmetic dl").count() == 1)
        page.focus(".matrix-frame")
        page.keyboard.press("ArrowUp")  # the first key begins at the row that is followed
        page.keyboard.press("ArrowUp")
        wait_until(page, lambda: "cell=5-1" in page.url)
        assert not page.locator("#tour").is_visible()
