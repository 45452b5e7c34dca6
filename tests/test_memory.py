"""What does not fit in memory, or has no end, is refused before it is tried."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attnviz import compare, steps, trace
from attnviz.cli.app import NO_MEMORY_MESSAGE, run_command_line
from attnviz.errors import AttnvizError
from attnviz.machine import files, memory
from attnviz.traces.from_text import estimate_source_memory, trace_sizes
from attnviz.traces.inputs import build_sentence, build_source
from attnviz.traces.memory_estimate import TraceSizes, estimate_memory, max_fitting_tokens
from attnviz.traces.plan import build_plan
from attnviz.traces.settings import Settings
from tests import LONGEST
from tests.conftest import Attnviz
from tests.refusals import refusal_lines

FREE_BYTES = 8_000_000


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: FREE_BYTES)


def array_bytes(settings: Settings, text: str) -> int:
    """How many bytes all arrays of a trace have, counted one by one."""
    view = trace(text, settings).view(show=["weights"])
    assert view.data is not None
    return sum(each.nbytes for each in _arrays(view.data.document()))


def _arrays(value: object) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [array for each in values for array in _arrays(each)]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(variant="multi-head", dropout=0.5),
        Settings(variant="multi-head", positions="alibi", dtype="float64"),
        Settings(positions="rotary", dim=64),
        Settings(layers=3, feed_forward=512, dim=32),
        Settings(layers=2, memory="a b c d e f g h i j k l m n o p q r s", tokenizer="spaces"),
    ],
)
def test_what_is_counted_holds_every_array_of_a_trace_and_not_much_more(settings: Settings) -> None:
    text = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 4
    estimate, _ = estimate_source_memory(build_source(text, settings))
    bytes_of_arrays = array_bytes(settings, text)

    assert bytes_of_arrays <= estimate.kept_bytes
    assert estimate.kept_bytes <= 2 * bytes_of_arrays


def test_wider_feed_forward_more_layers_and_a_second_sentence_need_more() -> None:
    def bytes_needed(**changes: Any) -> int:
        return estimate_source_memory(build_source("I am learning this", **changes))[0].total_bytes

    bytes_of_one_layer = bytes_needed(layers=1)
    assert bytes_needed(layers=1, feed_forward=4096) > bytes_of_one_layer + 2 * 4096 * 8 * 4
    assert bytes_needed(layers=8) - bytes_needed(layers=2) == 6 * (
        bytes_needed(layers=2) - bytes_of_one_layer
    )
    assert bytes_needed(layers=1, memory="you are teaching it") > bytes_of_one_layer


def test_no_vector_is_drawn_before_it_is_sure_that_there_is_room(
    monkeypatch: pytest.MonkeyPatch, little_memory: None
) -> None:
    def refuse_to_draw(*arguments: object) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr("attnviz.vectors.random_numbers.draw_normal", refuse_to_draw)

    with pytest.raises(AttnvizError, match="all steps together take 412"):
        trace("a " * 100, tokenizer="spaces", dim=65_536, head_dim=1, variant="scaled", layers=1)


def test_ways_that_fit_one_by_one_are_refused_side_by_side(little_memory: None) -> None:
    text = "a b c d e " * 50

    trace(text, tokenizer="spaces", memory_budget="8MB")
    with pytest.raises(AttnvizError, match=r"^9 ways of attending to 250 tokens take") as error:
        compare(text, by="mask", tokenizer="spaces")
    assert error.value.hint.startswith("give at most about ")


def test_the_steps_of_a_trace_that_fits_need_more(little_memory: None) -> None:
    small_trace = trace("a b c d e " * 90, tokenizer="spaces", memory_budget="8MB")

    with pytest.raises(AttnvizError, match=r"^every number of the steps takes 8\.9 MB"):
        steps(small_trace)


def test_the_longest_text_is_the_longest_that_fits() -> None:
    settings = Settings(variant="multi-head")
    plan = build_plan(settings, build_source("a", settings).matrices, 8)

    def bytes_needed(tokens: int) -> int:
        return estimate_memory(plan, TraceSizes(tokens, tokens, 0, 8), torch.float32).total_bytes

    for free in (10**5, 10**8, 10**12):
        token_count = max_fitting_tokens(bytes_needed, free)
        assert bytes_needed(token_count) <= free < bytes_needed(token_count + 1)


def test_keys_of_other_tokens_count() -> None:
    source = build_source("a b", tokenizer="spaces")
    counts = trace_sizes(source, build_sentence(source))

    assert counts == TraceSizes(tokens=2, keys=2, memory=0, dim=8)


def test_of_a_long_text_only_the_beginning_is_cut(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_memory: None
) -> None:
    (tmp_path / "long.txt").write_text("a" * 3_000_000, encoding="utf-8")

    assert refusal_lines(attnviz("run", "--file", str(tmp_path / "long.txt"), "-t", "chars")) == (
        "the first 1,048,576 letters of the text alone make 1,048,575 tokens (chars); "
        "their vectors take 167.8 MB, and there are 8 MB free",
        "give a text of at most about 50,000 tokens",
    )

    result_with_dropout = attnviz(
        "run", "--file", str(tmp_path / "long.txt"), "-t", "chars", "--dropout", "0.1"
    )

    assert result_with_dropout.err == (
        "error: the first 1,048,576 letters of the text alone make 1,048,575 tokens (chars); "
        "their weights take 4.4 TB, and there are 8 MB free\n"
        " hint: give a text of at most about 577 tokens\n"
    )


def test_a_text_whose_weights_have_no_room_is_streamed_by_the_command(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 12_000_000)
    (tmp_path / "long.txt").write_text("a b c " * 1000, encoding="utf-8")
    picture = tmp_path / "map.png"

    long_text = ("--file", str(tmp_path / "long.txt"), "-t", "spaces", "--resolution", "50")
    result = attnviz("run", *long_text, "-o", str(picture))

    assert result.status == 0, result.err
    assert "all weights of 3,000 tokens would take 271.1 MB" in result.err
    assert picture.stat().st_size > 10_000


@pytest.mark.slow("processes")
def test_a_text_is_at_most_as_large_as_is_said_and_a_limit_raises_it(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"a" + b" " * 10_000_000)

    too_large = attnviz("run", "--file", str(path))
    with_limit = attnviz("run", "--file", str(path), "-t", "words", "--limit", "20MB", "-q")
    without_limit = attnviz("run", "--file", str(path), "-t", "words", "-q")

    assert (too_large.status, with_limit.status, without_limit.status) == (2, 0, 2)
    assert too_large.err == (
        f"error: '{path}' has more than 10 MB, the most that a text may have\n"
        " hint: give less, or allow more with: --limit 20MB\n"
    )


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
@pytest.mark.parametrize("command", [("run", "--file"), ("example", "show"), ("example", "check")])
def test_what_has_no_end_is_not_read_to_it(
    attnviz: Attnviz, command: tuple[str, ...], device: str, tmp_path: Path
) -> None:
    (tmp_path / "endless.toml").symlink_to(device)

    result = attnviz(*command, str(tmp_path / "endless.toml"))

    assert result.status == 2
    assert "has more than 10 MB" in result.err.splitlines()[0]


def test_standard_input_without_an_end_is_not_read_to_it(attnviz: Attnviz) -> None:
    result = attnviz("run", stdin=b"y\n" * 6_000_000)

    assert result.err.startswith("error: standard input has more than 10 MB")


def test_files_of_matrices_have_a_largest_size_too(attnviz: Attnviz, tmp_path: Path) -> None:
    text, archive = tmp_path / "given.json", tmp_path / "given.npz"
    text.write_text('{"scores": [[1, 2], [3, 4]]}' + " " * 20_000_000, encoding="utf-8")
    np.savez_compressed(archive, scores=np.ones((600, 600)))

    result = attnviz("run", "--given", str(text))
    archive_result = attnviz("run", "--given", str(archive), "--limit", "1MB")

    assert "the most that a file of matrices may have" in result.err
    assert attnviz("run", "--given", str(text), "--limit", "30MB", "-q").status == 0
    assert "has more than 1 MB, the most that a file of arrays may have" in archive_result.err


@pytest.mark.parametrize("limit", ["x", "", "-3MB", "0", "1e9", "10 PB", "9" * 400])
def test_a_limit_that_is_no_size_is_refused(attnviz: Attnviz, limit: str) -> None:
    result = attnviz("run", "I am", "--limit", limit)

    assert (result.status, len(result.err.splitlines())) == (2, 2)
    assert result.err.startswith("error: --limit is '")


def test_a_limit_stands_in_the_command_that_makes_the_same(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attnviz("run", "I am", "--limit", "20MB", "-o", "a.json")

    command = json.loads(Path("a.json").read_text(encoding="utf-8"))["attnviz"]["command"]
    assert command == "attnviz run 'I am' --out a.json --limit 20MB"


def test_a_million_white_spaces_are_refused_where_the_tokenizer_would_panic(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    (tmp_path / "blank.txt").write_text("a" + " " * 1_001_000 + "b", encoding="utf-8")

    result = attnviz("run", "--file", str(tmp_path / "blank.txt"))

    assert result.status == 2
    assert result.err.startswith("error: the text has more than 900,000 whitespace characters")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't "
                     "allocate memory: you tried to allocate 4096000000 bytes."),
        RuntimeError("std::bad_alloc"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
    ],
)  # fmt: skip
def test_no_memory_is_two_lines_whoever_says_so(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("attnviz.traces.from_text.trace", fail)

    assert refusal_lines(attnviz("run", "I am")) == NO_MEMORY_MESSAGE


def test_any_other_error_of_torch_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("attnviz.traces.from_text.trace", fail)

    with pytest.raises(RuntimeError, match="shapes"):
        run_command_line(["run", "I am"])


@pytest.fixture
def write_machine_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str]], None]:
    """A machine whose files say what a test wants, and nothing else."""
    monkeypatch.setattr(memory, "PROC_FOLDER", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUPS_FOLDER", tmp_path / "groups")
    monkeypatch.setattr(memory, "_free_addresses", lambda: None)

    def write_files(contents: dict[str, str]) -> None:
        for name, text in contents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")

    return write_files


MEMINFO = {"proc/meminfo": "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n"}
GROUPS_VERSION_2 = {
    "proc/self/cgroup": "0::/user/job\n",
    "groups/user/job/memory.max": "max\n",
    "groups/user/job/memory.current": "900\n",
    "groups/user/memory.max": "1000\n",
    "groups/user/memory.current": "700\n",
    "groups/user/memory.stat": "anon 100\ninactive_file 400\n",
}
GROUPS_VERSION_1 = {
    "proc/self/cgroup": "9:name=systemd:/\n4:memory:/job\n0::/\n",
    "groups/memory/job/memory.limit_in_bytes": "5000\n",
    "groups/memory/job/memory.usage_in_bytes": "4000\n",
    "groups/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
    "groups/memory/memory.usage_in_bytes": "1\n",
}


@pytest.mark.parametrize(
    ("contents", "free"),
    [
        (MEMINFO, 1_024_000),
        (MEMINFO | GROUPS_VERSION_2, 700),  # a limit of a group around; cached files make room
        (MEMINFO | GROUPS_VERSION_1, 1000),
        (GROUPS_VERSION_1, 1000),
        (MEMINFO | GROUPS_VERSION_2 | {"groups/user/memory.max": "10\n"}, 1),
    ],
)
def test_free_is_what_the_machine_and_every_group_around_leave(
    write_machine_files: Callable[[dict[str, str]], None], contents: dict[str, str], free: int
) -> None:
    write_machine_files(contents)

    assert memory.free_bytes() == free


def test_this_machine_knows_its_free_memory() -> None:
    free = memory.free_bytes()

    assert free is None or free > 10**7


def test_what_is_read_may_be_as_large_as_is_allowed() -> None:
    with pytest.raises(AttnvizError, match=r"^it has more than 10 MB, the most that a lesson"):
        files.read_stream(io.BytesIO(b"a" * 10_000_001), "it", "lesson")


@pytest.mark.parametrize(
    ("free_addresses", "threads", "starts"), [(10**9, "1", True), (10**9, "8", False)]
)
def test_where_libraries_have_no_addresses_nothing_is_loaded(
    free_addresses: int,
    threads: str,
    starts: bool,
    monkeypatch: pytest.MonkeyPatch,
    attnviz: Attnviz,
) -> None:
    monkeypatch.setattr(memory, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(memory, "_free_addresses", lambda: free_addresses)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)

    result = attnviz("run", "a", "-t", "words")

    assert (result.status == 0) == starts
    assert ("need about 1.4 GB of address space" in result.err) != starts


# In a process of its own, whose addresses end: each run has the room that is counted for it.
# A small run before each loads what it needs, and the allocator may neither reserve addresses
# for other threads nor keep what is freed: both depend on the machine, and no run asks for them.
ONE_ARENA = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**17),
    "OMP_NUM_THREADS": "1",
}
LIMITED_SCRIPT = """
import resource, sys
from attnviz import trace
from attnviz.machine import memory
from attnviz.cli.app import run_command_line as main
from attnviz.traces.from_text import estimate_source_memory
from attnviz.traces.settings import Settings
from attnviz.traces.inputs import build_source

text = " ".join(f"w{number % 97}" for number in range(1500))
main(["run", "I am", "-q"])
SLACK = 20_000_000

def limited(room):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, -1))

WHOLE = ["--memory-budget", "1TB"]
for options in (
    [], ["-H", "4"], ["--dropout", "0.5"], ["--positions", "alibi"], ["--dtype", "bfloat16"],
    ["--layers", "2"], ["--soft_cap", "20"], ["--scoring", "additive"],
    ["-H", "4", "--kv_heads", "2"],
):
    as_typed = [each.replace("_", "-") for each in options]
    names = {"-v": "variant", "-H": "heads"}
    made = {names.get(name, name.strip("-")): value for name, value in zip(*[iter(options)] * 2)}
    read = {"heads": int, "kv_heads": int, "layers": int, "dropout": float, "soft_cap": float}
    settings = Settings(tokenizer="spaces", **{n: read.get(n, str)(v) for n, v in made.items()})
    main(["run", "I am", "-t", "spaces", "-q", "-o", "small.npz", *as_typed])
    limited(estimate_source_memory(build_source(text, settings))[0].total_bytes + SLACK)
    words = ["run", text, "-t", "spaces", "-q", "-o", "out.npz", *WHOLE, *as_typed]
    print(main(words), file=sys.stderr)
    limited(10**10)
limited(20_000_000)
print(main(["run", text, "-t", "spaces", "-q", *WHOLE]), file=sys.stderr)
memory.free_bytes = lambda: None
print(main(["run", " ".join([text] * 6), "-t", "spaces", "-q", *WHOLE]), file=sys.stderr)
"""


@pytest.mark.slow("processes")
@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are Linux's")
def test_what_is_counted_is_enough_and_what_is_not_is_refused(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", LIMITED_SCRIPT],
        cwd=tmp_path,
        env=os.environ | ONE_ARENA,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )

    lines = process.stderr.splitlines()
    assert lines[:9] == ["0"] * 9
    assert lines[9].startswith(
        "error: 1,500 tokens make 2,250,000 weights; all steps together take"
    )
    assert lines[11:14] == ["2", f"error: {NO_MEMORY_MESSAGE[0]}", f" hint: {NO_MEMORY_MESSAGE[1]}"]
    assert lines[14:] == ["2"]


@pytest.mark.parametrize("name", ["vectors.npy", "vectors.txt"])
def test_a_file_of_vectors_has_a_largest_size_too(
    attnviz: Attnviz, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.touch()
    os.truncate(path, 20 * 10**9)  # of which nothing is on the disk

    result = attnviz("run", "I am", "--embeddings", str(path))

    assert result.err == (
        f"error: '{path}' has more than 10 GB, the most that a file of vectors may have\n"
        " hint: give less, or allow more with: --limit 20000MB\n"
    )


def test_a_line_of_vectors_without_an_end_is_not_read_to_it(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("I 1 2\nam" + " 3" * 3_000_000, encoding="utf-8")

    result = attnviz("run", "I am", "-t", "words", "--embeddings", str(path))

    assert result.err.startswith(f"error: line 2 of '{path}' is not a word and its numbers\n")
