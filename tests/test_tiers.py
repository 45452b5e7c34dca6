"""Which tests `make test` leaves out, and that it would notice what somebody may break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted_defects import DEFECTS

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_every_defect_can_be_planted(defect: object) -> None:
    text = (ROOT / "attnviz" / defect.file).read_text("utf-8")  # type: ignore[attr-defined]

    assert text.count(defect.right) == 1  # type: ignore[attr-defined]
