"""Trains the models that come with attnviz; `make models` writes them into the package.

The same build of torch on the same kind of processor gives the same bytes; others may round
differently.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import torch

from attnviz.learning.choices import Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.training import learn
from attnviz.machine.atomic_files import AllOrNothing
from attnviz.traces.models import folder
from attnviz.traces.models.model import Model
from attnviz.traces.models.model_names import MODELS_FOLDER

MAX_MODEL_BYTES = 300_000


@dataclass(frozen=True)
class ModelRecipe:
    """Steps and seed of a shipped model; training goes on after all answers are right, as heads
    become clearer."""

    steps: int
    seed: int = 42


MODEL_RECIPES = {
    "reverse": ModelRecipe(steps=100),
    "sort": ModelRecipe(steps=900),
    "induction": ModelRecipe(steps=400),
    "brackets": ModelRecipe(steps=1500),
    "agreement": ModelRecipe(steps=2000),
    "pronouns": ModelRecipe(steps=2000),
}


def train_shipped_model(name: str) -> Model:
    """Train the model of a shipped task with its recipe, and record the build of torch in its
    facts."""
    task, recipe = task_of(name), MODEL_RECIPES[name]
    settings = replace(task.settings, seed=recipe.seed)
    model = learn(task, settings, Choices(steps=recipe.steps, until=math.inf)).model
    return replace(model, facts={**model.facts, "made_with": build_information()})


def build_information() -> dict[str, str]:
    """Return what the last digits of a model depend on, apart from the processor: the version of
    torch and its CPU instructions."""
    return {"torch": torch.__version__, "instructions": torch.backends.cpu.get_cpu_capability()}


def write_shipped_model(name: str) -> int:
    """Train a model, write its files into the package, and return their size in bytes."""
    contents = folder.model_files(train_shipped_model(name))
    size = sum(map(len, contents.values()))
    assert size <= MAX_MODEL_BYTES, f"{name} is {size:,} bytes"
    with AllOrNothing() as writer:
        for file, content in contents.items():
            writer.write(MODELS_FOLDER / name / file, [content])
    return size


if __name__ == "__main__":
    for each in sys.argv[1:] or MODEL_RECIPES:
        print(f"{each}: {write_shipped_model(each):,} bytes", flush=True)
