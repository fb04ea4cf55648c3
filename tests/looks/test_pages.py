"""What steps leave for people, looked at in a real browser: P5, and what a person would see at once.

`ELASTICDL_PICTURES=folder` keeps a picture of every page in every view.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.looks.browser import Browser, Page
from tests.looks.pages import PAGES, framed, training

EYES = Path(__file__).with_name("eyes.js").read_text(encoding="utf-8")
VIEWS = [(width, dark) for width in (900, 390) for dark in (False, True)]

MARKS = ("joined", "lost", "left")


def look(page: Page, name: str = "") -> list[str]:
    """What is wrong with the page in any view."""
    found = []
    for width, dark in VIEWS:
        page.show(width=width, dark=dark)
        view = f"{width}{'-dark' if dark else ''}"
        found += [f"{view}: {flaw}" for flaw in page.run(EYES)]
        if name and (folder := os.environ.get("ELASTICDL_PICTURES")):
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.picture(Path(folder) / f"{name}-{view}.png")
    return found


def on_disk(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PAGES)
def test_p5_a_page_from_disk_pleases_the_eye_and_asks_for_nothing(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    path = on_disk(tmp_path, PAGES[name]())
    with browser.open(path) as page:
        assert look(page, name) == []
        assert page.said == []
        assert page.asked_for == [path.as_uri()]


@pytest.mark.parametrize("name", PAGES)
def test_p5_a_page_in_a_frame_without_rights_is_the_same(browser: Browser, tmp_path: Path, name: str) -> None:
    path = on_disk(tmp_path, framed(PAGES[name]()))
    with browser.open(path) as page:
        assert look(page) == []
        assert page.said == []
        assert set(page.asked_for) <= {path.as_uri(), "about:srcdoc"}
        assert page.run("document.body.innerText.length") > 40


def test_losses_and_joins_are_seen_in_a_frame_too(browser: Browser, tmp_path: Path) -> None:
    with browser.open(on_disk(tmp_path, framed(training("allreduce")))) as page:
        assert page.run("document.querySelector('.line').getBoundingClientRect().width") > 500
        assert [page.run(f"document.querySelectorAll('.chart .mark.{of}').length") for of in MARKS] == [
            3,
            1,
            1,
        ]
        words = page.run("[...document.querySelectorAll('text')].map(text => text.textContent)")
        assert {"2 pods lost", "5 together", "5 running", "epoch 1", "minutes since start"} <= set(words)


BAD = """<!DOCTYPE html><meta charset="utf-8"><style>
  body { width: 1200px; color: #000; background: #fff } .pale { color: #aaa } .tiny { font-size: 9px }
</style>
<script>document.title = "a script has run"</script>
<img src="http://pictures.example/a.png"><p class="pale">pale words</p><p class="tiny">tiny words</p>
<figure><svg class="chart" width="300" height="100"><title>chart</title>
  <text class="tick" x="10" y="50">one</text><text class="tick" x="15" y="52">other</text>
  <text class="axis-name x" x="100" y="140">seconds</text></svg></figure>"""


def test_what_would_displease_is_found(browser: Browser, tmp_path: Path) -> None:
    path = on_disk(tmp_path, framed(BAD))
    with browser.open(path) as page:
        page.show(width=900, dark=False)
        found = "\n".join(page.run(EYES))
        said = "\n".join(page.said)
    assert "the page is 12" in found
    assert '"pale words" is hard to read: contrast 2.3' in found
    assert '"tiny words" is small' in found
    assert 'chart: "one" and "other" lie on each other' in found
    assert 'chart: "seconds" sticks out of the chart' in found
    assert "chart: the y axis has no name" in found
    assert "script" in said
    assert "Content Security Policy" in said


def test_a_request_is_heard(browser: Browser, tmp_path: Path) -> None:
    with browser.open(on_disk(tmp_path, BAD)) as page:
        assert "http://pictures.example/a.png" in page.asked_for
        assert any("ERR_NAME_NOT_RESOLVED" in line for line in page.said)
