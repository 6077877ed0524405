"""The picture in README.md is the page on a recorded program, and looks as it did."""

import os
from pathlib import Path

from PIL import Image, ImageChops, ImageStat

PICTURE = Path(__file__).resolve().parents[4] / "docs" / "view.png"
INSTRUCTION = 34


def rough(path):
    """The picture with few pixels, so that fonts make no difference."""
    return Image.open(path).convert("L").resize((64, 36))


def test_picture_of_readme(new_view, capture_url, tmp_path):
    view = new_view(capture_url, width=1280, height=720, color_scheme="light").open().wait_until_done()
    view.tab("Packets")
    view.tab("Call stack")
    view.go_to(f"#{INSTRUCTION}")
    view.expect_n(INSTRUCTION)
    view.page.locator("#timeline").click(position={"x": 5, "y": 5})
    view.page.mouse.move(0, 0)
    view.page.wait_for_timeout(500)
    shot = tmp_path / "view.png"
    view.page.screenshot(path=shot)
    if os.environ.get("UPDATE") == "1":
        Image.open(shot).convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(PICTURE, optimize=True)
    difference = ImageStat.Stat(ImageChops.difference(rough(shot), rough(PICTURE))).mean[0]
    assert difference < 3, f"{shot} differs from {PICTURE} by {difference}: look at both, and set UPDATE=1"
