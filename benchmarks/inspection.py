"""How long `attnviz inspect` takes, and how much memory, beside the smallest script for one head.

The script loads the same model with eager attention, asks for its weights, and prints those of one
head. Speed: the default model, and smollm2, on one sentence each, whole processes in turn; the
script reads smollm2's numbers from a safetensors folder. Memory: the most that a
process had in memory, on 4,096 tokens, with a decoder of 2 layers and 8 heads whose weights are
random; for every view of them that attnviz has. Run it with the Python that attnviz is installed
for: `python benchmarks/inspection.py [--pairs 7]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from attnviz.traces.settings import Settings
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.model_location import locate_transformer
from attnviz.traces.trained.refusals import quiet_transformers

ATTNVIZ = [str(Path(sys.executable).with_name("attnviz")), "inspect"]
SENTENCE = "The animal didn't cross the street because it was too tired"
QUESTION = "The capital of France is"
SLOWER, SLOWER_GGUF, LESS = 1.15, 1.25, 0.25  # times as long, and as much memory, at most
TOKENS, LAYERS, HEADS, WIDTH = 4096, 2, 8, 32
WORDS = ("the", "cat", "saw", "a", "dog", "and", "it", "ran", "to", "her", "house", ".")
SCRIPT = """
import sys
import transformers
folder, text, model_class = sys.argv[1], open(sys.argv[2]).read(), sys.argv[3]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = getattr(transformers, model_class).from_pretrained(folder, attn_implementation="eager")
weights = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
print(weights[1][0, 7])
"""
VIEWS = {
    "all heads": [],
    "one head": ["--layer", "1", "--head", "7"],
    "one layer": ["--layer", "1"],
    "one token": ["--query", "it#300"],
    "one weight": ["--from", "it#300", "--to", "dog#2"],
}


@dataclass(frozen=True)
class Measured:
    """What a process took."""

    seconds: float
    megabytes: float


def measured(command: list[str], folder: Path) -> Measured:
    """A whole process, from its start to its end; and the most that it had in memory."""
    start = time.perf_counter()
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    if status:
        raise SystemExit(f"{command} failed:\n{(folder / 'errors').read_text()[-2000:]}")
    per_unit = 1 if sys.platform == "darwin" else 1024  # what the system counts in
    return Measured(took, used.ru_maxrss * per_unit / 1e6)


def script(model: Path, text: Path, model_class: str = "AutoModel") -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(model), str(text), model_class]


def minilm_speed(pairs: int, folder: Path) -> str:
    place = locate_transformer("minilm")
    assert place is not None
    assert place.folder is not None
    text = folder / "sentence.txt"
    text.write_text(SENTENCE)
    commands = [*ATTNVIZ, SENTENCE], script(place.folder, text)
    return speed("minilm, a sentence", commands, pairs, folder, SLOWER)


def smollm2_speed(pairs: int, folder: Path) -> str:
    """Of a GGUF file, whose blocks attnviz turns into numbers; the script reads the numbers."""
    loaded, saved, text = load_transformer(Settings(model="smollm2")), folder / "s", folder / "t"
    with quiet_transformers():
        loaded.model.save_pretrained(saved)
        loaded.tokenizer.save_pretrained(saved)
    text.write_text(QUESTION)
    ours = [*ATTNVIZ, QUESTION, "--model", "smollm2", "--predict"]
    theirs = script(saved, text, "AutoModelForCausalLM")
    return speed("smollm2, a prediction", (ours, theirs), pairs, folder, SLOWER_GGUF)


def speed(
    name: str, commands: tuple[list[str], list[str]], pairs: int, folder: Path, bound: float
) -> str:
    """Both in turn, so that a machine that slows down slows both; the first pair warms the disk."""
    times = [
        tuple(measured(command, folder).seconds for command in commands) for _ in range(pairs + 1)
    ][1:]
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(one / other for one, other in times)
    verdict = "" if ratio <= bound else "  too slow"
    return f"{name:24}{ours:8.2f}{theirs:8.2f}{ratio:8.2f}{bound:8.2f}{verdict}"


def decoder(folder: Path, layers: int = LAYERS, heads: int = HEADS) -> Path:
    """A decoder with random weights, and a tokenizer with a few words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS) + 1,
        hidden_size=WIDTH * heads,
        intermediate_size=2 * WIDTH * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=TOKENS,
    )
    model = folder / "decoder"
    with quiet_transformers():
        LlamaModel(config).save_pretrained(model)
    vocabulary = {word: place for place, word in enumerate(("[UNK]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(model / "tokenizer.json"))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (model / "tokenizer_config.json").write_text(json.dumps(kind))
    return model


def text_of(tokens: int, folder: Path) -> Path:
    """A file with so many words, each a token of the decoder."""
    text = folder / "long.txt"
    text.write_text(" ".join((WORDS * (tokens // len(WORDS) + 1))[:tokens]))
    return text


def memory(folder: Path) -> list[str]:
    """The most memory of the script, and of each view."""
    model = decoder(folder)
    text = text_of(TOKENS, folder)
    theirs = measured(script(model, text), folder).megabytes
    lines = []
    for name, options in VIEWS.items():
        command = [*ATTNVIZ, "--file", str(text), "--model", str(model), *options]
        ours = measured(command, folder).megabytes
        verdict = "" if ours / theirs <= LESS else "  too much"
        lines.append(f"{name:24}{ours:8.0f}{theirs:8.0f}{ours / theirs:8.2f}{LESS:8.2f}{verdict}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    pairs: int = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        print(f"medians of {pairs} pairs of runs\n")
        print(f"{'inspect / script':24}{'seconds':>8}{'script':>8}{'ratio':>8}{'bound':>8}")
        print(minilm_speed(pairs, folder), flush=True)
        print(smollm2_speed(pairs, folder), flush=True)
        print(f"\n{TOKENS:,} tokens, {LAYERS} layers × {HEADS} heads: the most memory\n")
        print(f"{'view / script':24}{'MB':>8}{'script':>8}{'ratio':>8}{'bound':>8}")
        print(*memory(folder), sep="\n")


if __name__ == "__main__":
    main()
