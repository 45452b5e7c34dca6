"""Checkpoints of a training on one sentence: kinds of heads by step, one model at a time."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
import weakref
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from PIL import Image

import attnviz
from attnviz.analysis.inspection.patterns import BROAD_PATTERN
from attnviz.cells import unmasked_cells
from attnviz.errors import AttnvizError
from attnviz.renderers import Look
from attnviz.renderers.picture.training_page import _even_columns
from attnviz.traces.trained import loading
from attnviz.traces.trained.checkpoint_folders import find_checkpoints
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.grid import Curves, Grid
from attnviz.views.grids.scales import Scale
from attnviz.views.view import Group, PanelTitle
from attnviz.wings.films.checkpoints import CheckpointComparison
from attnviz.wings.films.checkpoints_view import kind_curves
from tests.browser import page_in_browser
from tests.conftest import Attnviz
from tests.gguf.files import write_model
from tests.gguf.test_gguf import FACTS, SIZES
from tests.pages_by_hand import wait_until, write_page
from tests.refusals import assert_refused
from tests.small_transformers import KINDS, save
from tests.test_compared_models import jensen_shannon
from tests.test_slides import SIZES as PICTURE_SIZES
from tests.test_slides import corners, find_overlaps, layout_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEXT = "it was too tired to cross the street"
STEPS = (9, 10, 100)  # in the order of letters 10, 100, 9


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of a model whose queries are 0 at first, so that it attends evenly."""
    folder = tmp_path_factory.mktemp("run")
    last_checkpoint = save(KINDS["gpt2"], folder / "checkpoint-100")
    with quiet_transformers():
        from transformers import AutoModelForCausalLM

        for step, share in ((9, 0.0), (10, 0.3)):
            model: Any = AutoModelForCausalLM.from_pretrained(last_checkpoint)
            with torch.no_grad():
                for block in model.transformer.h:
                    block.attn.c_attn.weight[:, :16] *= share
                    block.attn.c_attn.bias[:16] *= share
            shutil.copytree(last_checkpoint, folder / f"checkpoint-{step}")
            model.save_pretrained(folder / f"checkpoint-{step}")
    return folder


@pytest.fixture(scope="module")
def comparison(run: Path) -> CheckpointComparison:
    return attnviz.compare_checkpoints(TEXT, f"{run}/checkpoint-*")


def test_checkpoints_are_in_the_order_of_their_steps_with_their_own_weights(
    run: Path, comparison: CheckpointComparison
) -> None:
    assert comparison.steps == STEPS
    assert comparison.film.names == ("step 9", "step 10", "step 100")
    for step, checkpoint_trace in zip(STEPS, comparison.film.traces, strict=True):
        single_trace = attnviz.trace(TEXT, model=run / f"checkpoint-{step}")
        assert_allclose(checkpoint_trace.weights, single_trace.weights, atol=1e-6)


def test_heads_are_ranked_by_how_far_the_last_checkpoint_is_from_the_first(
    comparison: CheckpointComparison,
) -> None:
    weights = [
        checkpoint_trace.weights.double().numpy() for checkpoint_trace in comparison.film.traces
    ]
    divergences = {name: jensen_shannon(weights[0][place], weights[2][place])
             for name, place in _places(comparison).items()}  # fmt: skip

    assert [head.name for head in comparison.ranking] == sorted(
        divergences, key=lambda name: -divergences[name]
    )
    for index in range(2):
        expected = [jensen_shannon(weights[index][place], weights[index + 1][place])
                    for place in _places(comparison).values()]  # fmt: skip
        assert_allclose(comparison.interval_divergences[index], expected, atol=1e-6)


def _places(comparison: CheckpointComparison) -> dict[str, tuple[int, int]]:
    return {name: (int(name[1]), int(name[3])) for name in comparison.head_names}


def test_the_score_of_a_kind_at_a_step_is_that_of_its_strongest_head(
    comparison: CheckpointComparison,
) -> None:
    first = next(each for each in comparison.courses if each.kind.name == "first token (sink)")
    for index, checkpoint_trace in enumerate(comparison.film.traces):
        # Of each token but the first, which sees itself alone, the share that goes to the first.
        shares = checkpoint_trace.weights[:, :, 1:, 0].mean(-1).flatten().numpy()
        assert_allclose(first.scores[index], shares, atol=1e-6)
        patterns = attnviz.inspect(checkpoint_trace).patterns
        members = patterns.heads_of_kind(first.kind)
        assert first.counts[index] == len(members)
        assert first.strongest[index] == (members[0] if members else int(shares.argmax()))
    even = np.mean([1 / count for count in range(2, len(checkpoint_trace.tokens) + 1)])
    assert_allclose(first.highest[0], even, atol=1e-6)


def test_induction_is_measured_on_random_tokens_as_a_survey_does(
    run: Path, comparison: CheckpointComparison
) -> None:
    survey = attnviz.survey(["it was"], model=run / "checkpoint-100")
    expected = [survey[name].repeats.mean for name in comparison.head_names]

    assert comparison.courses[-1].kind.name == "induction on random repeats"
    assert_allclose(comparison.courses[-1].scores[2], expected, atol=1e-6)


def test_sentences_say_between_which_steps_a_kind_of_head_appears(
    comparison: CheckpointComparison,
) -> None:
    sentences = " ".join(comparison.view().closing).replace("\u00a0", " ")
    appearing_kinds = [
        each for each in comparison.courses if each.counts[0] == 0 and each.counts.any()
    ]

    assert appearing_kinds
    for course in appearing_kinds:
        index = int(np.flatnonzero(course.counts)[0])
        head = comparison.head_names[int(course.strongest[index])]
        before, after = (f"{100 * course.scores[at, course.strongest[index]]:.0f} %"
                         for at in (index - 1, index))  # fmt: skip
        steps = f"between {comparison.film.names[index - 1]} and {comparison.film.names[index]}"
        assert (
            f"{steps}{_strongest_phrase(course.counts[index], head)}, with {before} of its"
            in sentences
        )
        assert f"{before} of its attention, then {after}" in sentences
    means = comparison.interval_divergences.mean(1)
    assert f"heads change most between step 10 and step 100 ({means[1]:.3f} bits)" in sentences
    assert means[1] > means[0]
    rises = {course.kind.name: course.rise for course in appearing_kinds}
    most = next(each for each in appearing_kinds if each.rise == max(rises.values()))
    assert comparison.head_names[int(most.strongest[most.first or 0])] in comparison.view().headline


def _strongest_phrase(count: int, head: str) -> str:
    return f": {head}" if count == 1 else f"; the strongest is {head}"


def test_a_checkpoint_compared_with_itself_differs_in_no_head(run: Path, attnviz: Attnviz) -> None:
    folder = str(run / "checkpoint-9")
    result = attnviz("compare", TEXT, "--checkpoints", folder, folder)

    assert result.status == 0, result.err
    assert result.out.startswith("No head differs: all 8 heads have the same weights in both\n")
    assert "how many of 8 heads are of each kind" in result.out
    assert "no link changes" not in result.out  # a table of zeros


def test_a_pattern_that_a_shell_expands_is_one_too(
    run: Path, tmp_path: Path, attnviz: Attnviz
) -> None:
    folders = [str(run / f"checkpoint-{step}") for step in (10, 100, 9)]
    out = tmp_path / "run.csv"
    result = attnviz("compare", "--checkpoints", *folders, TEXT, "--layer=1", "-o", str(out))

    assert result.status == 0, result.err
    rows = list(csv.DictReader(out.read_text().splitlines()))
    heads = [f"L1H{head}" for head in range(4)]
    assert [(row["step"], row["name"]) for row in rows] == [
        (str(step), head) for step in STEPS for head in heads
    ]
    assert {row["apart"] for row in rows[:4]} == {""}


def test_files_have_the_numbers_of_each_step_and_head(
    comparison: CheckpointComparison, tmp_path: Path
) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison.to_csv() or "")))
    document = comparison.to_dict()
    first = next(each for each in comparison.courses if each.kind.name == "first token (sink)")

    shares = np.array([float(row["first token (sink)"]) for row in rows]).reshape(3, 8)
    assert_allclose(shares, first.scores, atol=1e-6)
    assert [each["step"] for each in document["checkpoints"]] == [*STEPS]
    assert document["checkpoints"][2]["folder"] == "checkpoint-100"
    assert document["attnviz"]["settings"]["model"] == [f"checkpoint-{step}" for step in STEPS]
    weights = [layer["weights"] for layer in document["layers"]]
    assert_allclose(np.array(weights)[:, 2], comparison.film.traces[2].weights, atol=1e-6)


@pytest.mark.slow("films")
def test_a_film_has_a_frame_for_each_step_and_curves_up_to_it(
    comparison: CheckpointComparison, tmp_path: Path
) -> None:
    view = comparison.view()
    comparison.save(tmp_path / "run.gif", size=(6, 4), dpi=40)

    assert [shot.title for shot in view.shots] == ["step 9", "step 10", "step 100"]
    for index, shot in enumerate(view.shots):
        curves = [panel for panel in shot.groups[1].panels if isinstance(panel, Curves)]
        assert [each.title for each in curves] == ["highest score", "number of heads"]
        assert {each.reached_count for each in curves} == {index + 1}
        assert curves[0].x_values == STEPS
    with Image.open(tmp_path / "run.gif") as film:
        assert getattr(film, "n_frames", 1) == 3


@pytest.mark.parametrize("size", ["16:9", "4:3", "natural"])
def test_names_of_checkpoints_have_one_size_and_stand_on_the_page(
    comparison: CheckpointComparison, size: str
) -> None:
    names = ("step 1", "step 20,000", "step 1,000,000,000")
    view = comparison.view()
    maps, curves = view.picture.groups
    maps = replace(maps, panel_titles=tuple(map(PanelTitle, names)))
    picture = replace(view.picture, groups=(maps, curves))

    layout = layout_of(replace(view, picture=picture), Look(size=PICTURE_SIZES[size]))

    sizes = [word.size for word in layout.words if word.text in names]
    assert len(sizes) == 3
    assert len({*sizes}) == 1
    assert all((corners(word)[:, 0] <= layout.size[0]).all() for word in layout.words)
    assert list(find_overlaps(layout.words)) == []


@pytest.mark.parametrize(("count", "columns"), [(5, [0, 1, 2, 3, 4]), (3, [0, 2, 4]), (2, [0, 4])])
def test_steps_that_have_room_are_evenly_chosen(count: int, columns: list[int]) -> None:
    axis = plain_axis("token", ["it"])
    cells = unmasked_cells(np.zeros((1, 1)))
    scale = Scale("", 0, 1)
    grids = [Grid(str(number), axis, axis, cells, scale) for number in range(10)]
    titles = tuple(PanelTitle(f"step {n}") for n in range(5))
    group = Group("course", tuple(grids), column_count=5, panel_titles=titles)

    chosen_columns = _even_columns(group, count)

    assert [title.text for title in chosen_columns.panel_titles] == [f"step {n}" for n in columns]
    numbers = [grid.title for grid in chosen_columns.panels if isinstance(grid, Grid)]
    assert numbers == [str(number) for number in (*columns, *(n + 5 for n in columns))]


def test_the_slider_of_a_page_leads_from_step_to_step(
    comparison: CheckpointComparison, tmp_path: Path, chromium: Browser
) -> None:
    top = comparison.ranking[0].name
    with page_in_browser(chromium, write_page(comparison.view(), tmp_path)) as page:
        assert page.inner_text("#moment-says") == "step 100"
        page.focus("#layer")
        page.keyboard.press("Home")
        wait_until(page, lambda: f"{top} · step 9" in page.inner_text("#matrix .matrix-title"))


def test_one_model_at_a_time_is_in_memory(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded_models: list[weakref.ref[Any]] = []
    counts = []
    choose = loading._model_class

    def count_models(config: Any, trusts_code: bool) -> Any:
        counts.append(sum(each() is not None for each in loaded_models))
        model_class = choose(config, trusts_code)

        class CountedModel(model_class):  # type: ignore[misc, valid-type]
            def __init__(self, *given: Any, **more: Any) -> None:
                super().__init__(*given, **more)
                loaded_models.append(weakref.ref(self))

        return CountedModel

    monkeypatch.setattr(loading, "_model_class", count_models)
    attnviz.compare_checkpoints("it was", f"{run}/checkpoint-*")

    assert counts == [0, 0, 0]
    assert {each() for each in loaded_models} == {None}


def test_the_step_in_the_state_of_a_trainer_counts_before_the_name(
    run: Path, tmp_path: Path
) -> None:
    for name, step in (("epoch-1", 500), ("final", 1500)):
        shutil.copytree(run / "checkpoint-9", tmp_path / name)
        state = {"best_global_step": 7, "global_step": step, "log_history": []}
        (tmp_path / name / "trainer_state.json").write_text(json.dumps(state))
    checkpoints = find_checkpoints([f"{tmp_path}/*"])
    assert [each.name for each in checkpoints] == ["step 500", "step 1,500"]

    (tmp_path / "epoch-1" / "trainer_state.json").unlink()
    assert [each.step for each in find_checkpoints([f"{tmp_path}/*"])] == [1, 1500]


@pytest.mark.parametrize(
    ("name", "step"),
    [("checkpoint-10-fp16", 10), ("epoch=3-step=1200", 1200), ("7b_0042", 42), ("ckpt00030", 30)],
)
def test_the_step_in_a_name_is_found(run: Path, tmp_path: Path, name: str, step: int) -> None:
    shutil.copytree(run / "checkpoint-9", tmp_path / name)
    shutil.copytree(run / "checkpoint-9", tmp_path / "checkpoint-99999")

    assert find_checkpoints([f"{tmp_path}/*"])[0].step == step


def test_the_rule_of_kinds_stands_only_below_curves_that_it_counts(run: Path) -> None:
    comparison = attnviz.compare_checkpoints(TEXT, f"{run}/checkpoint-*")
    broad = [course for course in comparison.courses if course.kind is BROAD_PATTERN]
    other = [course for course in comparison.courses if course.kind is not BROAD_PATTERN][:1]

    notes = [kind_curves(comparison, courses)[-1].note for courses in (broad, other, broad + other)]

    assert notes[0] == "broad: its entropy is at least .80 of the largest"
    assert notes[1].replace("\N{NO-BREAK SPACE}", " ") == (
        "a head is of a kind if its score is above that of even attention by at least 25 % of what "
        "is missing there to 1"
    )
    assert notes[2] == f"{notes[1]} · {notes[0]}"


def test_a_folder_that_several_names_mean_is_there_once(run: Path) -> None:
    patterns_of_folder = [
        f"{run}/checkpoint-*",
        f"{run}/checkpoint-9",
        f"{run}/../{run.name}/checkpoint-10/",
    ]

    for patterns in (
        patterns_of_folder,
        patterns_of_folder[::-1],
        [patterns_of_folder[1], *patterns_of_folder],
    ):
        checkpoints = find_checkpoints(patterns)
        assert [each.name for each in checkpoints] == ["step 9", "step 10", "step 100"]
    same_twice = find_checkpoints([patterns_of_folder[1], patterns_of_folder[1]])
    assert [each.name for each in same_twice] == ["step 9", "step 9 (2)"]


def test_models_of_attnviz_are_checkpoints_too(tmp_path: Path) -> None:
    package = Path(attnviz.__file__).parent / "traces" / "models" / "agreement"
    for step in (1, 2):
        shutil.copytree(package, tmp_path / f"step-{step}")
    comparison = attnviz.compare_checkpoints("the keys near the cabinet", f"{tmp_path}/step-*")

    assert comparison.view().headline == (
        "No head differs: all 4 heads have the same weights in both"
    )
    assert np.isnan(comparison.repeats).all()


Change = Callable[[Path], object]


def _replace_heads(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoint-10")
    save(KINDS["gpt2"], folder / "checkpoint-10", n_head=2)


def _truncate_weights(folder: Path) -> None:
    weights = folder / "checkpoint-10" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def _make_adapter(folder: Path) -> None:
    (folder / "checkpoint-10" / "config.json").unlink()
    (folder / "checkpoint-10" / "model.safetensors").unlink()
    (folder / "checkpoint-10" / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (folder / "checkpoint-10" / "adapter_model.safetensors").write_bytes(b"")


REFUSED: dict[str, tuple[Change, list[str], str, str]] = {
    "no match": (
        lambda folder: None,
        ["nothing-*"],
        "no folder or GGUF file is called, or matches, 'nothing-*'",
        "give the folders of a training, as a pattern in quotes: --checkpoints 'run/checkpoint-*'",
    ),
    "no such user": (
        lambda folder: None,
        ["~nosuch/x*"],
        "no folder or GGUF file is called, or matches, '~nosuch/x*'",
        "give the folders of a training, as a pattern in quotes: --checkpoints 'run/checkpoint-*'",
    ),
    "one match": (
        lambda folder: None,
        ["checkpoint-100*"],
        "only 'checkpoint-100' matches 'checkpoint-100*', and a comparison needs two checkpoints",
        "give two or more; one alone is shown by attnviz inspect TEXT --model checkpoint-100",
    ),
    "the folder of all": (
        lambda folder: None,
        ["."],
        "only '.' is given, and a comparison needs two checkpoints",
        "those in it: --checkpoints './*checkpoint*'",
    ),
    "no weights": (
        lambda folder: (folder / "checkpoint-10" / "model.safetensors").unlink(),
        ["checkpoint-*"],
        "the folder 'checkpoint-10' has no weights: no model.safetensors, no pytorch_model.bin",
        "save the whole model there: model.save_pretrained(folder)",
    ),
    "a broken file": (
        _truncate_weights,
        ["checkpoint-*"],
        "'checkpoint-10/model.safetensors' is damaged or incomplete: its header gives another "
        "size than it has",
        "copy or download it again",
    ),
    "other heads": (
        _replace_heads,
        ["checkpoint-*"],
        "checkpoint-10: 'step 10' has 2 layers with 4 heads, and 'step 9' 2 layers with 8 heads",
        "give the checkpoints of one training",
    ),
    "an adapter": (
        _make_adapter,
        ["checkpoint-*"],
        "'checkpoint-10' has an adapter (PEFT) without the model that it changes",
        "save both together, in another folder: python -c 'import peft, transformers; model = "
        'peft.AutoPeftModel.from_pretrained("checkpoint-10"); base = '
        'model.peft_config["default"].base_model_name_or_path; transformers.AutoTokenizer'
        '.from_pretrained(base).save_pretrained("merged/checkpoint-10"); '
        'model.merge_and_unload().save_pretrained("merged/checkpoint-10")\'',
    ),
    "no step": (
        lambda folder: (folder / "checkpoint-10").rename(folder / "checkpoint-last"),
        ["checkpoint-*"],
        "the step of 'checkpoint-last' is not known: its name has no number, and it has no "
        "trainer_state.json",
        "put the step into its name, such as checkpoint-500, or leave it out",
    ),
    "one step twice": (
        lambda folder: (folder / "checkpoint-10").rename(folder / "step-9"),
        ["*-*"],
        "'checkpoint-9' and 'step-9' are both of step 9",
        "give the checkpoints of one training; two models are compared with --model a --model b",
    ),
    "another aspect": (
        lambda folder: None,
        ["checkpoint-*", "--by=mask"],
        "checkpoints are compared, and --by is given: only one thing can differ",
        "leave out --checkpoints, or --by",
    ),
    "a setting of attention": (
        lambda folder: None,
        ["checkpoint-*", "--heads=3"],
        "--heads is given, but the trained model 'checkpoint-9' decides that itself",
        "leave --heads out, or --checkpoints",
    ),
}


@pytest.mark.parametrize(("change", "words", "problem", "hint"), REFUSED.values(), ids=[*REFUSED])
def test_what_are_no_checkpoints_is_refused_in_two_lines(
    run: Path,
    tmp_path: Path,
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
    change: Change,
    words: list[str],
    problem: str,
    hint: str,
) -> None:
    shutil.copytree(run, tmp_path / "run")
    change(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    assert_refused(attnviz("compare", TEXT, "--checkpoints", *words), problem, hint)


def test_adapters_are_compared_after_the_command_that_the_refusal_names(tmp_path: Path) -> None:
    peft: Any = import_module("peft")
    base = save(KINDS["llama"], tmp_path / "base-0")
    with quiet_transformers():
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(base)
        model = peft.get_peft_model(
            model, peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
        )
        for step in (1, 20):
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.data.fill_(step / 10)
            model.save_pretrained(tmp_path / f"checkpoint-{step}")
        for step in (1, 20):
            with pytest.raises(AttnvizError, match="has an adapter") as error:
                find_checkpoints([f"{tmp_path}/checkpoint-{step}", str(base)])
            *_, code = shlex.split(error.value.hint)
            exec(code, {})

    comparison = attnviz.compare_checkpoints(TEXT, f"{tmp_path}/merged/*")
    assert comparison.steps == (1, 20)
    assert comparison.changes


def test_gguf_files_are_checkpoints_in_the_order_of_the_numbers_in_their_names(
    tmp_path: Path,
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    with quiet_transformers():
        model = LlamaForCausalLM(LlamaConfig(**SIZES))
    first_file = write_model(tmp_path / "model.gguf", model, "llama", FACTS)
    names = ["run-100-Q8_0.gguf", "run-20.f16.gguf", "run-9-Q4_K_M.gguf"]
    for name in (*names, "run-9-00002-of-00002.gguf"):
        shutil.copy(first_file, tmp_path / name)

    checkpoints = find_checkpoints([f"{tmp_path}/run-*.gguf"])
    assert [(each.step, Path(each.folder).name) for each in checkpoints] == [
        (9, names[2]), (20, names[1]), (100, names[0])
    ]  # fmt: skip
    comparison = attnviz.compare_checkpoints(TEXT, [str(tmp_path / name) for name in names[:2]])
    assert comparison.steps == (20, 100)
    assert not comparison.changes
    (tmp_path / names[0]).write_bytes(first_file.read_bytes()[:-100])
    with pytest.raises(AttnvizError, match=r"run-100-Q8_0\.gguf"):
        find_checkpoints([f"{tmp_path}/run-*.gguf"])


def test_the_library_refuses_what_is_not_of_checkpoints(run: Path) -> None:
    pattern = f"{run}/checkpoint-*"
    for options, problem in (
        ({"model": "minilm"}, "model is given beside checkpoints, which are the models"),
        ({"layer": 7}, "there is no layer 7: the model has 2 layers, 0 to 1"),
    ):
        with pytest.raises(AttnvizError) as error:
            attnviz.compare_checkpoints(TEXT, pattern, **options)
        assert str(error.value).endswith(problem)
    with pytest.raises(AttnvizError, match="no checkpoints are given"):
        attnviz.compare_checkpoints(TEXT, [])
