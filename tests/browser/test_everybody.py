"""The page is for everybody: with a screen reader, in the dark, on a phone, with contrast and names on everything."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.browser.conftest import Visit

NAMED = (
    "button", "link", "textbox", "searchbox", "combobox", "img", "image", "application", "listbox", "region", "table",
)  # fmt: skip

# Every text with its colour, the first ground behind it that is not transparent, and its size.
CONTRAST = """(() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return found.length === 4 ? found : [...found, 1];
  };
  const part = (each) => (each / 255 <= 0.03928 ? each / 255 / 12.92 : ((each / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const hidden = ".offstage, .skip, script, noscript, svg, [disabled]";
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const [element, text] = [walker.currentNode.parentElement, walker.currentNode.textContent.trim()];
    if (!text || !element.checkVisibility() || element.closest(hidden)) continue;
    const style = getComputedStyle(element);
    let ground = element;
    while (ground && parse(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
    const behind = getComputedStyle(ground ?? document.body).backgroundColor;
    const [one, other] = [light(parse(style.color)), light(parse(behind))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) bad.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return bad;
})()"""
LANDMARKS = """["main", "body > header", "h1"].map((each) => document.querySelectorAll(each).length)"""
REPEATED_IDS = """(() => {
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  return ids.filter((each, index) => ids.indexOf(each) !== index);
})()"""
DEAD_REFERENCES = """[...document.querySelectorAll("[aria-labelledby], [aria-controls]")]
  .flatMap((each) => [each.getAttribute("aria-labelledby"), each.getAttribute("aria-controls")])
  .filter((each) => each && !document.getElementById(each))"""
SMALL_TARGETS = """[...document.querySelectorAll("button, input, select")]
  .filter((each) => each.checkVisibility() && !each.disabled && each.getBoundingClientRect().height < 24)
  .map((each) => each.outerHTML.slice(0, 80))"""
FRAME = """(() => {
  const frame = document.querySelector("growth-explain").getBoundingClientRect();
  return [frame.left, frame.width];
})()"""


def names_missing(tree: Any) -> list[str]:
    found = []
    for node in tree["nodes"]:
        role, name = node.get("role", {}).get("value", ""), node.get("name", {}).get("value", "").strip()
        if not node.get("ignored") and role in NAMED and not name:
            found.append(f"{role} without a name")
    return found


def open_everything(visit: Visit) -> None:
    visit.open("#/Node/alpha")
    visit.wait_for("document.querySelector('growth-explain .first')?.innerText.length > 5")


def test_everything_that_can_be_used_has_a_name_for_screen_readers(visit: Visit) -> None:
    open_everything(visit)
    assert names_missing(visit.do(visit.page.send("Accessibility.getFullAXTree"))) == []
    assert visit.run("document.querySelector('[aria-live]') !== null")


def test_the_page_has_a_language_a_title_landmarks_and_headings_in_order(visit: Visit) -> None:
    open_everything(visit)
    assert visit.run("[document.documentElement.lang, document.title]") == ["en", "growth"]
    assert visit.run(LANDMARKS) == [1, 1, 1]
    levels = visit.run("[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_ids_are_unique_no_element_jumps_the_order_of_tabs_and_references_lead_somewhere(visit: Visit) -> None:
    open_everything(visit)
    assert visit.run(REPEATED_IDS) == []
    assert visit.run("[...document.querySelectorAll('[tabindex]')].filter((each) => each.tabIndex > 0).length") == 0
    assert visit.run(DEAD_REFERENCES) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_against_its_ground(visit: Visit, scheme: str) -> None:
    visit.do(visit.page.prefer(prefers_color_scheme=scheme))
    open_everything(visit)
    assert visit.run(CONTRAST) == []


def test_whoever_likes_the_dark_gets_it(visit: Visit) -> None:
    visit.do(visit.page.prefer(prefers_color_scheme="dark"))
    visit.open()
    red, green, blue = visit.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert red + green + blue < 120
    assert visit.run("document.querySelector('growth-nodes').colours.text") == "#e8eaee"


def test_whoever_is_disturbed_by_motion_sees_none(visit: Visit) -> None:
    visit.do(visit.page.prefer(prefers_reduced_motion="reduce"))
    visit.open()
    assert visit.run("document.getAnimations().length") == 0


def test_on_a_phone_nothing_is_cut_off_and_fingers_find_their_targets(visit: Visit) -> None:
    visit.do(visit.page.resize(390, 844, is_phone=True))
    visit.open()
    assert visit.run("document.documentElement.scrollWidth <= innerWidth")
    assert visit.run(SMALL_TARGETS) == []
    visit.run("location.hash = '#/Node/alpha'")
    visit.wait_for("!document.querySelector('growth-explain').hidden")
    assert visit.run(FRAME) == [0, 390]
