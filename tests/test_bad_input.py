"""Every mistake a user can make gets two lines, word for word, and exit status 2."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
import requests
import tiktoken

from tests.conftest import Attnviz

SENTENCE = 'give a sentence, such as: attnviz run "I am learning this"'
SUFFIXES = ".png, .svg, .pdf, .gif, .html, .pptx, .txt, .md, .json, .npz, .csv"

MISTAKES_OF_USERS = {  # what follows `attnviz run`, and the two lines
    "''": ("the text is empty", SENTENCE),
    "' \n'": ("the text is blank", SENTENCE),
    "a\udcff": (
        "the text is not UTF-8 (its character 2 is half of one)",
        "give UTF-8 text, or a UTF-8 file with --file",
    ),
    "a --file b": ("a text and --file are both given", "give one of them"),
    "--file no.txt": ("there is no file 'no.txt'", "check its name and folder"),
    "--file .": ("'.' is a folder", "give the name of a file in it"),
    "--file latin.txt": (
        "'latin.txt' is not UTF-8: byte 4 is 0xe9",
        "save it as UTF-8, for example with: iconv -f latin1 -t utf-8",
    ),
    "a -v casual": (
        "there is no variant 'casual'",
        "did you mean 'causal'? known: plain, scaled, causal, multi-head, average",
    ),
    "a --dtype float31": (
        "there is no dtype 'float31'",
        "did you mean 'float32'? known: float32, float64, bfloat16, float16",
    ),
    "a --device cuda:": (
        "there is no device 'cuda:'",
        "did you mean 'cuda'? known: auto, cpu, cuda, mps, xpu",
    ),
    "a --positions sinus": (
        "there is no kind of positions 'sinus'",
        "did you mean 'sinusoidal'? known: none, sinusoidal, learned, rotary, rotary-halves, alibi",
    ),
    "a -o a.pgn": ("there is no format for '.pgn'", f"did you mean '.png'? known: {SUFFIXES}"),
    "a -o heat": ("there is no format for 'heat'", f"known: {SUFFIXES}"),
    "a -o .": ("'.' is a folder", "give the name of a file in it"),
    "a -o latin.txt/a.png": (
        "'HERE/latin.txt' is a file, so 'latin.txt/a.png' cannot be in it",
        "choose another folder",
    ),
    "a --colors virids": (
        "there is no colour map 'virids'",
        "did you mean 'viridis'? known: ocean, greys, viridis, cividis, magma",
    ),
    "a --theme drak": ("there is no theme 'drak'", "did you mean 'dark'? known: light, dark"),
    "a --show wieghts": (
        "there is no thing to show 'wieghts'",
        "did you mean 'weights'? known: tokens, embeddings, queries, keys, values, scores, "
        "scaled, masked, weights, context, outputs, prediction, received",
    ),
    "a --show ,": (
        "there is nothing to show",
        "name some of: tokens, embeddings, queries, keys, values, scores, scaled, "
        "masked, weights, context, outputs, prediction, received, or all",
    ),
    "a -H 3": (
        "a width of 8 does not split into 3 equal heads",
        "try --heads 2, --dim 9, or give --head-dim",
    ),
    "a -v plain --head-dim 3": (
        "'plain' attends with the embeddings themselves, so its heads divide their width of 8; 1 "
        "× 3 is not 8",
        "try --head-dim 8, or --variant scaled",
    ),
    "a -d 0": ("--dim is 0, and must be from 1 to 65,536", "try --dim 1"),
    "a -d 65537": ("--dim is 65537, and must be from 1 to 65,536", "try --dim 65536"),
    "a -s -1": ("--seed is -1, and must be from 0 to 9,223,372,036,854,775,807", "try --seed 0"),
    "a --window 0": ("--window is 0, and must be at least 1", "try --window 1"),
    "a --temperature inf": (
        "--temperature is inf, and must be finite",
        "try --temperature 0.5 (sharper) or --temperature 2 (flatter)",
    ),
    "a --temperature nan": (
        "--temperature is nan, and must be above 0",
        "try --temperature 0.5 (sharper) or --temperature 2 (flatter)",
    ),
    "a --dropout 1": ("--dropout is 1, and must be at least 0 and below 1", "try --dropout 0.1"),
    "a --temperature 1e-300": (
        "the scores are too large for float32, whose largest number is 3.4e+38",
        "try a higher --temperature, a smaller --dim, --scale, or --dtype float64",
    ),
    "a --dpi 5": ("--dpi is 5, and must be from 30 to 1200", "try --dpi 30"),
    "a --size 16:10": (
        "there is no size '16:10'",
        "try 16:9, 4:3, square, inches such as 8x5, a unit such as 85x60mm (in, cm, mm, pt), or "
        "pixels such as 1920x1080",
    ),
    "a --size 90x5": (
        "--size is 90 by 5 inches, and each must be from 2.5 to 40",
        "try --size 8x5",
    ),
    "a --size 30000x200": (
        "--size is 30000 by 200 pixels, and at most 20,000 can be drawn",
        "try --size 1920x1080",
    ),
    "a --size 3000x120": (
        "3000 by 120 pixels at 225 dpi are 13.3 by 0.533 inches, and each must be from 2.5 to 40",
        "try --size 1920x1080",
    ),
    "a --size 1920x1080 --dpi 1000": (
        "1920 by 1080 pixels at 1000 dpi are 1.92 by 1.08 inches, and each must be from 2.5 to 40",
        "leave --dpi out",
    ),
    "a --size 40x5 --dpi 1000": (
        "40 inches at 1000 dpi are 40,000 pixels, and at most 20,000 can be drawn",
        "try --dpi 500",
    ),
    "'the cat' --query dog": ("no token of the sentence is 'dog'", "the tokens are: 1 the, 2 cat"),
    "'a cat, a dog' --query a": (
        "'a' occurs 2 times in the sentence",
        "give the number of one of them: --query 1 or 4",
    ),
    "'the cat' --query 3": ("no token of the sentence is '3'", "the tokens are: 1 the, 2 cat"),
    "a --embeddings no.npy": (
        "there is no file 'no.npy' to take embeddings from",
        "check its path",
    ),
    "a --embeddings flat.npy": (
        "'flat.npy' holds no matrix of embeddings (shapes found: [5])",
        "give one row for each token id: [ids, width]",
    ),
    "a --embeddings pickle.npy": (
        "'pickle.npy' holds pickled data, which could run code, and is refused",
        "save plain numbers: numpy.save(path, matrix)",
    ),
    "a --dim x": ("--dim is 'x', and must be a whole number", "try --dim 16"),
    "a --window 1.5": ("--window is '1.5', and must be a whole number", "try --window 2"),
    "a --temperature hot": (
        "--temperature is 'hot', and must be a number",
        "try --temperature 0.5",
    ),
    "a -o a.png --seed": ("--seed needs a value", "write --seed 42"),
    "a --causal=yes": ("--causal takes no value", "write --causal or --no-causal"),
    "I am": (
        "2 texts are given, and one is expected",
        'put quotes around a text of several words: attnviz run "I am"',
    ),
    "'-5 is cold'": ("'-5 is cold' looks like an option", 'put -- before it: attnviz run -- "…"'),
    "a --varient x": ("attnviz run has no option --varient", "did you mean --variant?"),
    "a --by mask": (
        "attnviz run has no option --by",
        "--by belongs to attnviz compare and attnviz inspect",
    ),
    "a --qqqqq": ("attnviz run has no option --qqqqq", "attnviz run --help-all lists the options"),
    "a -Z": ("attnviz run has no option -Z", "attnviz run --help-all lists the options"),
}


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("latin.txt").write_bytes("né? né".encode("latin-1").replace(b"n\xe9?", b"n\xc3\xa9\xe9"))
    np.save("flat.npy", np.zeros(5))
    np.save("pickle.npy", np.array([{}]), allow_pickle=True)
    return tmp_path


@pytest.mark.parametrize("line", MISTAKES_OF_USERS)
def test_a_mistake_gets_two_lines_and_exit_2_and_nothing_is_written(
    attnviz: Attnviz, working_folder: Path, line: str
) -> None:
    arguments, (problem, hint) = shlex.split(line), MISTAKES_OF_USERS[line]
    before = sorted(working_folder.rglob("*"))

    result = attnviz("run", *arguments, *(["-o", "out.png"] if "-o" not in arguments else []))

    assert result.err.replace(str(working_folder), "HERE") == f"error: {problem}\n hint: {hint}\n"
    assert (result.status, result.out) == (2, "")
    assert sorted(working_folder.rglob("*")) == before


def test_an_unknown_tokenizer_is_refused_with_the_nearest(attnviz: Attnviz) -> None:
    result = attnviz("run", "a", "-t", "gtp2")

    assert result.status == 2
    assert result.err.startswith(
        "error: there is no tokenizer 'gtp2'\n hint: did you mean 'gpt2'? "
    )


def test_an_encoding_that_is_not_here_says_what_to_do(
    attnviz: Attnviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(name: str) -> None:
        raise requests.exceptions.ConnectionError("no network")

    monkeypatch.setattr(tiktoken, "get_encoding", offline)

    assert attnviz("run", "a", "-t", "cl100k_base").err == (
        "error: tiktoken has no copy of 'cl100k_base' on this machine and could not download it\n"
        " hint: go online once, point TIKTOKEN_CACHE_DIR at a copy, or use --tokenizer gpt2\n"
    )


def test_an_output_that_cannot_be_written_is_refused(
    attnviz: Attnviz, working_folder: Path
) -> None:
    result_without_folder = attnviz("run", "a", "-o", "/proc/nowhere/a.png")
    result_in_proc = attnviz("run", "a", "-o", "/proc/a.png")

    assert (result_without_folder.status, result_in_proc.status) == (2, 2)
    assert result_without_folder.err == (
        "error: there is no folder '/proc/nowhere'\n hint: make it with: mkdir -p /proc/nowhere\n"
    )
    assert result_in_proc.err.startswith("error: '/proc/a.png' cannot be written: ")
