"""Several processes that share a run give what one gives, and end together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch.distributed import HashStore, TCPStore

from attnviz import Settings
from attnviz.attention import ranks
from attnviz.attention.long_attention import (
    LongAttention,
    SummaryChoice,
    summarize_part,
)
from attnviz.attention.mask_rule import MaskRule
from attnviz.cli import torchrun
from attnviz.cli.torchrun import Place, SharedRun, read_place
from attnviz.errors import AttnvizError
from attnviz.wording.surfaces import Surface, speaking
from benchmarks.ranks import core_seconds, cost, cost_table
from tests import LONGEST
from tests.conftest import ROOT, Attnviz
from tests.refusals import refusal_of
from tests.test_long_attention import join_parts

STORY = ROOT / "sample_texts" / "story.txt"
RUN = ("run", "--file", str(STORY), "--variant", "causal", "--heads", "2", "--layers", "2")
HINT = torchrun.TORCHRUN_HINT
MEMORY_HINT = "if memory ran out, start fewer processes on each machine, or give a shorter text"
LOST_PROCESS = (
    "process {} of 2 has ended without a message: it was killed, or its connection is lost"
)


def start_processes(processes: int, *words: str, folder: Path) -> subprocess.Popen[str]:
    """Start attnviz under torchrun with so many processes."""
    arguments = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [*arguments, "-m", "attnviz", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers and words of JSON data, by their path."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from flatten(each, f"{name}/{key}")
    else:
        yield name, value


def assert_equal_results(one: Path, other: Path) -> None:
    results = [dict(flatten(json.loads(path.read_text("utf-8"))["maps"])) for path in (one, other)]
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        if isinstance(value, str):
            assert value == results[1][name]
        else:
            assert np.allclose(np.array(value), np.array(results[1][name]), atol=1e-6), name


@pytest.mark.slow("processes")
def test_two_processes_of_torchrun_give_what_one_gives_and_the_first_one_alone_says_so(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    process = start_processes(2, *RUN, "--resolution=40", "-o", "two.json", folder=tmp_path)
    attnviz(*RUN, "--resolution=40", "--stream", "-o", str(tmp_path / "one.json"))
    output, _ = process.communicate(timeout=LONGEST)

    assert process.returncode == 0, output
    assert [line for line in output.splitlines() if "Gloo" not in line] == [
        "note: 2 processes have shared this work; weights are computed only where they are shown, "
        "as with --stream",
        "wrote two.json",
    ]
    assert_equal_results(tmp_path / "one.json", tmp_path / "two.json")


# Starts processes with variables as torchrun does, and ends all when one fails. Processes are
# forked, so that torch is imported once.
LAUNCHER = """
import os, signal, sys
from pathlib import Path
import torch
from torch import distributed
from attnviz import __main__ as program
from attnviz.attention import ranks
from attnviz.attention.long_attention import LongAttention, SummaryChoice
from attnviz.attention.mask_rule import MaskRule
from attnviz.errors import AttnvizError
from attnviz.traces import from_text

def launch(count, work):
    children = {}
    for rank in range(count):
        if not (child := os.fork()):
            work(rank)
            os._exit(0)
        children[child] = rank
    print(*children, flush=True)
    statuses = [0] * count
    while children:
        child, status = os.wait()
        statuses[children.pop(child)] = os.waitstatus_to_exitcode(status)
        for other in children if status else ():
            os.kill(other, signal.SIGTERM)
    print(statuses)
"""
RUN_ONE = """
def work(rank):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    program.main()
launch(2, work)
"""
SHARE = """
def attend(vectors):
    queries, keys, values = vectors
    return LongAttention(queries=queries, keys=keys, values=values, scale=0.5, mask=MaskRule())

def work(rank):
    ranks.join_process_group(distributed.FileStore("store", 3), rank, 3)
    vectors = torch.randn(3, 2, 900, 4, generator=torch.Generator().manual_seed(1))
    for pool in "mean", "max":
        progress = []
        choice = SummaryChoice(50, pool)
        whole = attend(vectors).summarize(choice)
        shared = ranks.summarize_in_ranks(attend(vectors), choice, progress.append)
        for name, value in vars(whole).items():
            if isinstance(value, torch.Tensor):
                assert torch.allclose(getattr(shared, name), value, atol=1e-6), name
        assert progress == ([768, 900, 1668, 1800] if rank == 0 else []), progress
    try:
        ranks.summarize_in_ranks(attend(vectors + (rank == 2) * torch.randn(900, 1)), choice)
    except AttnvizError as error:
        Path(f"{rank}.txt").write_text(str(error))
launch(3, work)
"""


def launch(code: str, folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start a process that defines LAUNCHER, and then runs this code."""
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCHER + code, *words],
        cwd=folder,
        env={**os.environ, **environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow("processes")
def test_three_processes_add_up_their_parts_and_refuse_other_vectors(tmp_path: Path) -> None:
    """There are two blocks, which are one pair, so two processes have none."""
    out, err = launch(SHARE, tmp_path).communicate(timeout=LONGEST)

    assert out.splitlines()[1:] == ["[0, 0, 0]"], err
    for rank in range(3):  # lines of three processes in one pipe can be mixed
        problem = (tmp_path / f"{rank}.txt").read_text("utf-8")
        assert problem == "the processes have different vectors for the same text"


@pytest.mark.slow("processes")
def test_a_killed_process_ends_all_with_one_error(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(STORY.read_text("utf-8") * 10, "utf-8")
    words = ("run", "--file", "long.txt", "--variant", "causal", "--heads", "8", "-o", "x.json")
    timeout = timedelta(seconds=LONGEST)
    server = TCPStore("localhost", 0, None, True, wait_for_workers=False, timeout=timeout)
    variables = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(server.port), "WORLD_SIZE": "2"}
    others = {"LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    launcher = launch(RUN_ONE, tmp_path, *words, **variables, **others)
    assert launcher.stdout is not None
    first, _ = launcher.stdout.readline().split()
    for rank in (0, 1):
        server.get(f"attnviz/0/beats/{rank}")  # which waits for it

    os.kill(int(first), signal.SIGKILL)
    out, err = launcher.communicate(timeout=LONGEST)

    assert out == f"[{-signal.SIGKILL}, {128 + signal.SIGTERM}]\n"
    assert err == f"error: {LOST_PROCESS.format(1)}\n hint: {MEMORY_HINT}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


@given(some.integers(0, 40), some.integers(1, 9))
def test_each_block_is_dealt_once_and_a_causal_mask_loads_all_alike(
    count: int, processes: int
) -> None:
    blocks = [slice(row, row + 1) for row in range(count)]
    blocks_by_rank = [ranks.deal_blocks(blocks, rank, processes) for rank in range(processes)]
    # Keys that are visible to the rows of each process.
    key_counts = [sum(block.start + 1 for block in rank_blocks) for rank_blocks in blocks_by_rank]

    assert sorted(block.start for rank_blocks in blocks_by_rank for block in rank_blocks) == list(
        range(count)
    )
    assert max(key_counts) - min(key_counts) <= count + 1  # keys of a whole block


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("processes", [2, 3, 7])
def test_the_parts_of_processes_are_a_whole_even_if_some_have_no_block(
    pool: Any, processes: int
) -> None:
    queries, keys, values = torch.randn(3, 2, 1700, 4, generator=torch.Generator().manual_seed(1))
    rule = MaskRule(after=0)
    attention = LongAttention(queries=queries, keys=keys, values=values, scale=0.5, mask=rule)
    choice, blocks = SummaryChoice(30, pool), attention.row_blocks()
    blocks_by_rank = [ranks.deal_blocks(blocks, rank, processes) for rank in range(processes)]
    whole_summary = attention.summarize(choice)

    joined_summary = join_parts(
        summarize_part(attention, rank_blocks, choice) for rank_blocks in blocks_by_rank
    )

    assert len(blocks) == 3
    for name, value in vars(whole_summary).items():
        if isinstance(value, torch.Tensor):
            assert torch.allclose(getattr(joined_summary, name), value, atol=1e-6), name


PLACE = Place(0, 2, 0, 2, "a", "localhost", 1)
VARIABLES = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two', and must be a whole number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is 0, and must be at least 1"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is '', and must be a whole number"),
        ({"RANK": None}, "WORLD_SIZE is set, and RANK is not"),
        ({"RANK": "-1"}, "RANK is '-1', and must be a whole number"),
        ({"RANK": "2"}, "RANK is 2, and must be less than WORLD_SIZE, which is 2"),
        ({"MASTER_ADDR": None}, "WORLD_SIZE is set, and MASTER_ADDR is not"),
        ({"MASTER_PORT": None}, "WORLD_SIZE is set, and MASTER_PORT is not"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT is 99999, and must be from 1 to 65535"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT is 0, and must be from 1 to 65535"),
        ({"LOCAL_WORLD_SIZE": "2"}, "WORLD_SIZE is set, and LOCAL_RANK is not"),
        (
            {"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "3"},
            "LOCAL_RANK is 3, and must be less than LOCAL_WORLD_SIZE, which is 2",
        ),
        (
            {"LOCAL_WORLD_SIZE": "3", "LOCAL_RANK": "1"},
            "LOCAL_WORLD_SIZE is 3, and must be at most WORLD_SIZE, which is 2",
        ),
    ],
)
def test_variables_that_torchrun_did_not_set_are_refused(
    changes: dict[str, str | None], problem: str
) -> None:
    variables = {name: value for name, value in (VARIABLES | changes).items() if value is not None}

    assert refusal_of(lambda: read_place(variables)) == (problem, HINT)


def test_the_variables_of_torchrun_are_read() -> None:
    local_values = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}

    assert read_place(VARIABLES | local_values) == Place(1, 2, 1, 2, "0", "localhost", 29500)
    assert read_place(VARIABLES)[:4] == (1, 2, 0, 1)


@pytest.mark.parametrize(
    ("words", "rank", "status", "output"),
    [
        (["learn", "sort"], 0, 2,
         "error: attnviz learn works in one process, and torchrun has started 2\n"
         " hint: start one process, without torchrun\n"),
        (["learn", "sort"], 1, 2, ""),
        (["run", "--trace=x.json"], 0, 2,
         "error: a saved trace is shown by one process, and torchrun has started 2\n"
         " hint: start one process, without torchrun\n"),
        (["version"], 1, 0, ""),
        (["learn", "--help"], 1, 0, ""),
        ([], 1, 0, ""),
    ],
)  # fmt: skip
def test_only_run_is_shared_and_the_first_process_says_so(
    words: list[str], rank: int, status: int, output: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in (VARIABLES | {"RANK": str(rank)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["attnviz", *words])

    assert torchrun.run_process() == status
    assert capsys.readouterr() == ("", output)


@pytest.fixture
def shared_runs() -> tuple[SharedRun, SharedRun]:
    """The first and the second process of a shared run; both have the id of this process."""
    store = HashStore()
    runs = [SharedRun(PLACE._replace(rank=rank, local_rank=rank), store, store) for rank in (0, 1)]
    for shared_run in runs:
        store.set(f"pid/{shared_run.place.rank}", f"a {os.getpid()}")
    return runs[0], runs[1]


def test_the_first_process_prints_the_error_of_another_once(
    shared_runs: tuple[SharedRun, SharedRun], capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = shared_runs
    thread = threading.Thread(target=second.report_error, args=("there is no file 'x'", "make it"))
    thread.start()
    first.store.get("error")  # which waits for it

    assert first.report_error("another error", "which came later") == 2
    thread.join(timeout=LONGEST)
    assert capfd.readouterr().err == "error: there is no file 'x'\n hint: make it\n"


def test_an_error_of_another_machine_says_where_and_is_printed_if_the_first_process_has_gone(
    shared_runs: tuple[SharedRun, SharedRun],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, second = shared_runs
    second.place = second.place._replace(machine="b")
    monkeypatch.setattr(torchrun, "ANSWER_LIMIT", torchrun.ANSWER_LIMIT / 100)
    monkeypatch.setattr(socket, "gethostname", lambda: "there")

    assert second.report_error("there is no file 'x'", "make it") == 2
    assert capfd.readouterr().err == (
        "error: process 2 of 2, on there: there is no file 'x'\n hint: make it\n"
    )


def test_a_signal_is_explained_if_another_process_is_dead_and_silent_otherwise(
    shared_runs: tuple[SharedRun, SharedRun], capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = shared_runs
    second._end_by_signal()  # as by Ctrl-C
    first._end_by_signal()
    assert capfd.readouterr().err == ""

    for name in ("ends", "error"):
        first.store.delete_key(name)
    with subprocess.Popen(["true"]) as ended_process:
        ended_process.wait(timeout=LONGEST)
    first.store.set("pid/1", f"a {ended_process.pid}")
    first.is_ending = False
    first._end_by_signal()
    assert capfd.readouterr().err.splitlines()[0] == f"error: {LOST_PROCESS.format(2)}"


def test_an_exception_is_an_error_of_two_lines_below_its_traceback(
    shared_runs: tuple[SharedRun, SharedRun],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def divide(report_error: object) -> int:
        return 1 // 0

    first, _ = shared_runs
    monkeypatch.setattr(torchrun, "run_command_line", divide)
    monkeypatch.setattr(first, "_watch", lambda: None)

    assert first.run() == 2
    assert capfd.readouterr().err.splitlines()[-3:] == [
        "ZeroDivisionError: integer division or modulo by zero",
        "error: process 1 of 2 failed: ZeroDivisionError: integer division or modulo by zero",
        " hint: this is a fault of attnviz: please report it with the lines above",
    ]


def test_a_process_that_is_not_heard_of_any_more_ends_the_others(
    shared_runs: tuple[SharedRun, SharedRun],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _ = shared_runs
    first.store.add("beats/1", 1)
    monkeypatch.setattr(torchrun, "SECONDS_PER_BEAT", 0.001)
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)

    first._watch()

    assert statuses == [2]
    assert capfd.readouterr().err.splitlines()[0] == f"error: {LOST_PROCESS.format(2)}"


@pytest.mark.parametrize(
    ("text", "settings", "difference"),
    [("another", Settings(), "another text"), ("one", Settings(seed=1), "other options")],
)
def test_another_text_and_other_options_are_refused(
    shared_runs: tuple[SharedRun, SharedRun], text: str, settings: Settings, difference: str
) -> None:
    first, second = shared_runs
    thread = threading.Thread(target=first.refuse_other_work, args=("one", Settings()))
    thread.start()

    with pytest.raises(AttnvizError) as error:
        second.refuse_other_work(text, settings)

    thread.join(timeout=LONGEST)
    assert str(error.value) == f"process 2 of 2 has {difference} than the first one"
    assert error.value.hint == "give the same command and the same files on every machine"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--dropout=0.5"],
         "2 processes compute weights where they are shown, and dropout needs all of them at once"),
        (["--model=minilm"], "'minilm' is a trained model, which one process runs"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused(
    shared_runs: tuple[SharedRun, SharedRun],
    words: list[str],
    problem: str,
    attnviz: Attnviz,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(SharedRun, "refuse_other_work", lambda *_: None)
    monkeypatch.setattr(ranks, "join_process_group", lambda *_: None)
    monkeypatch.setattr("attnviz.traces.early_checks.refuse_unusable_model", lambda *_: None)
    token = torchrun._current_run.set(shared_runs[0])
    try:
        result = attnviz("run", "I am", *words)
    finally:
        torchrun._current_run.reset(token)

    hint = "start one process, without torchrun"
    assert (result.status, result.err) == (2, f"error: {problem}\n hint: {hint}\n")


@pytest.mark.parametrize(
    ("rank", "words", "status", "problem"),
    [
        ("1", ["I am", "-o", "nowhere/x.png"], 0, ""),
        ("0", ["I am", "-o", "nowhere/x.png"], 2, "error: there is no folder 'nowhere'"),
        ("0", ["-"], 2, "error: several processes cannot all read standard input"),
    ],
)
def test_the_first_process_alone_needs_a_folder_to_write_to_and_none_reads_standard_input(
    rank: str, words: list[str], status: int, problem: str,
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)

    result = attnviz("run", *words)

    assert (result.status, result.out) == (status, "")
    assert (result.err.splitlines() or [""])[0] == problem


@pytest.mark.parametrize(
    ("device", "gpus", "problem", "hint"),
    [
        ("cuda:1", 2, "cuda:1 is one GPU, and this machine has 2 processes",
         "--device cuda gives each of them its own"),
        ("auto", 1, "this machine has 1 GPU for 2 processes",
         "start fewer with --nproc-per-node=1, or give --device cpu"),
    ],
)  # fmt: skip
def test_processes_do_not_share_a_gpu(
    device: str, gpus: int, problem: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus_taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", gpus_taken.append)

    with speaking(Surface.COMMAND_LINE):
        assert refusal_of(lambda: torchrun._take_gpu(PLACE, device)) == (problem, hint)
    torchrun._take_gpu(PLACE, "cpu")
    assert gpus_taken == []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    torchrun._take_gpu(PLACE._replace(local_rank=1), "auto")
    assert gpus_taken == [1]


def test_the_table_of_costs_in_the_docs_is_computed() -> None:
    page = (ROOT / "docs" / "long_texts.md").read_text("utf-8")

    assert cost_table() in page
    one_process, two_processes = (
        cost(100_000, width=64, heads=2, layers=3, ranks=count, cell_seconds=core_seconds)
        for count in (1, 2)
    )
    assert one_process.seconds == pytest.approx(3 * 2 * 100_000**2 / 2 * 11.3e-9)
    assert one_process.seconds / two_processes.seconds > 1.9
    assert (one_process.sent, one_process.memory) == (0, two_processes.memory)
    assert two_processes.sent == 3 * 2 * (100_000 * (4 * 64 + 44) + 8 * 512**2)
