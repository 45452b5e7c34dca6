"""The lecture is true: a title is what its command finds, and its pictures are of that command."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import ROOT, Attnviz

LECTURE = ROOT / "docs" / "lecture.md"
SLIDE = re.compile(
    r"### (\d+)\. (.*)\n\n```sh\nattnviz (.*) --size 16:9 -o (\d\d)\.png\n```\n\n<picture>\n.*"
    r'srcset="lecture/\4-dark\.png">\n.*src="lecture/\4-light\.png" alt="(.*)">\n</picture>\n'
)
SLIDES = SLIDE.findall(LECTURE.read_text("utf-8"))


def normalize(text: str) -> str:
    """The text on one line, in lower case, with ordinary spaces (as in "64 %")."""
    return " ".join(text.split()).replace("&quot;", '"').lower()


def test_there_are_thirteen_slides_each_with_its_title_beside_its_pictures() -> None:
    assert [int(number) for number, *_ in SLIDES] == list(range(1, 14))
    assert len(re.findall(r"^### \d+\. ", LECTURE.read_text("utf-8"), re.MULTILINE)) == 13
    for number, title, _, name, alt in SLIDES:
        assert int(name) == int(number)
        assert normalize(alt) == normalize(title)


@pytest.mark.slow_table("documentation", keep=3)
@pytest.mark.parametrize(("title", "command"), [(each[1], each[2]) for each in SLIDES])
def test_the_title_of_a_slide_is_what_its_command_finds(
    title: str, command: str, tmp_path: Path, attnviz: Attnviz
) -> None:
    place = tmp_path / "slide.txt"

    assert attnviz(*shlex.split(command), "-o", str(place), "-q").status == 0
    assert normalize(title) in normalize(place.read_text("utf-8"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_stored_slides_are_those_of_the_commands_in_both_themes(theme: str) -> None:
    for _, title, command, name, _ in SLIDES:
        with Image.open(LECTURE.parent / "lecture" / f"{name}-{theme}.png") as picture:
            size, texts = picture.size, picture.info
        stored_command = shlex.split(json.loads(texts["attnviz"])["command"])
        options = [each for each in shlex.split(command) if each.startswith("--")]

        assert (round(size[0], -1), size[1]) == (960, 540)
        assert normalize(texts["Title"]).endswith(normalize(title))
        assert stored_command[1] == shlex.split(command)[0]
        assert {*options} <= {*stored_command}
