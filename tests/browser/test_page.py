"""The page in a real Chromium: it shows what there is, follows what changes, and says why to everybody."""

from __future__ import annotations

import asyncio

import pytest

from growth.web.guard import Guard, Refusal, Reviews
from tests.browser.conftest import Laboratory, Visit
from tests.browser.world import Town

SHEET = "document.querySelector('growth-explain')"


def test_every_panel_shows_what_there_is(visit: Visit) -> None:
    visit.open()
    assert "0.0600" in visit.text("growth-figures")
    assert "at least 0.0300 is needed (100 % above it)" in visit.text("growth-figures")
    assert "1 × web" in visit.text("growth-waiting")
    assert "Planned: a machine is on its way: delta" in visit.text("growth-waiting")
    assert "3 nodes · 0.0600/h" in visit.text("growth-pools")
    assert "spare" in visit.text("growth-reserves")
    assert "6 available, 2 in use, 1 starting; wants 9 (4 to 40)" in visit.text("growth-reserves")
    assert "up below 5 available, down above 7" in visit.text("growth-reserves")
    assert "↑ delta" in visit.text("growth-timeline")
    assert "↓ gamma" in visit.text("growth-timeline")
    assert "ScaleDown" in visit.text("growth-journal")
    assert visit.run("document.querySelectorAll('growth-costs path').length") == 3
    assert "web" in visit.text(".legend")
    assert "live" in visit.text("growth-status")


def test_boxes_fill_with_pods_in_the_colours_of_their_workloads(visit: Visit) -> None:
    visit.open()
    pieces = (
        """[...new Set(document.querySelector("growth-nodes").byName.get("alpha").pieces.map((each) => each[4].pod))]"""
    )
    assert sorted(visit.run(pieces)) == ["api-1", *(f"web-{number}" for number in range(5))]
    colours = """(() => { const part = document.querySelector("growth-nodes"), box = part.byName.get("alpha");
        const [x, y, width, height] = box.pieces[0], ratio = devicePixelRatio;
        const pixel = part.pen.getImageData((x + width / 2) * ratio, (y + height / 2) * ratio, 1, 1).data;
        const drawn = "#" + [...pixel].slice(0, 3).map((each) => each.toString(16).padStart(2, "0")).join("");
        return [drawn, part.colours[box.pieces[0][4].colour]] })()"""
    drawn, meant = visit.run(colours)
    assert drawn == meant


def test_what_changes_is_seen_without_a_reload(visit: Visit) -> None:
    visit.open()
    visit.town.move_in()
    visit.wait_for("document.querySelector('growth-waiting').innerText.includes('2 × web')")
    visit.wait_for(
        "document.querySelector('growth-nodes').byName.get('beta').pieces.some((each) => each[4].pod === 'web-9')"
    )
    visit.town.note("NodePool", "default", "LimitReached", "no limit leaves room", "Warning")
    visit.wait_for("document.querySelector('growth-journal').innerText.includes('LimitReached')")
    assert visit.run("performance.getEntriesByType('navigation').length") == 1


def test_a_click_on_a_node_explains_it_in_the_words_of_growth_explain(visit: Visit) -> None:
    visit.open()
    x, y = visit.place_of("alpha")
    visit.do(visit.page.click(x, y))
    visit.wait_for(f"{SHEET}.querySelector('.first')?.innerText.length > 10")
    assert visit.run("location.hash") == "#/Node/alpha"
    assert visit.text("growth-explain h2") == "alpha"
    assert "stays" in visit.text("growth-explain .first")
    visit.press("Escape")
    assert visit.run(f"{SHEET}.hidden") is True
    assert visit.run("location.hash") == ""


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("Pod", "default/web-9", "web-9"),
        ("Pod", "default/web-1", "it has its place: Running on node alpha"),
        ("Node", "beta", "marked"),
        ("NodePool", "default", ""),
        ("NodeRequest", "delta", "sim-cx32"),
        ("NodeRemovalRequest", "gamma", "node gamma goes (Empty): Pending"),
        ("CapacityBuffer", "default/spare", ""),
        ("PoolAutoscaler", "default/agents", "9"),
        ("Node", "nowhere", "there is no node nowhere"),
    ],
)
def test_every_address_leads_to_its_explanation(visit: Visit, kind: str, name: str, words: str) -> None:
    visit.open(f"#/{kind}/{name}")
    visit.wait_for(f"{SHEET}.querySelector('.first')?.innerText.length > 5")
    assert visit.text("growth-explain h2") == name
    assert words in visit.text("growth-explain")


def test_a_click_on_a_row_of_every_list_explains_it(visit: Visit) -> None:
    visit.open()
    for part in ("waiting", "pools", "reserves", "timeline", "journal"):
        visit.run(f"document.querySelector('growth-{part} li button').click()")
        visit.wait_for(f"!{SHEET}.hidden && {SHEET}.querySelector('.first')?.innerText.length > 5")
        assert visit.text("growth-explain h2"), part
        visit.press("Escape")


PARTS = ("search", "nodes", "waiting", "pools", "reserves", "timeline", "journal")
FOCUSED = f"""document.activeElement.closest("{", ".join(f"growth-{part}" for part in PARTS)}, .skip")?.tagName ?? ''"""


def test_the_keyboard_reaches_everything(visit: Visit) -> None:
    visit.open()
    reached = set()
    for _ in range(40):
        visit.press("Tab")
        reached.add(visit.run(FOCUSED))
    assert reached >= {"A", *(f"GROWTH-{part.upper()}" for part in PARTS)}
    visit.run("document.querySelector('growth-nodes canvas').focus()")
    assert "alpha" in visit.text("#live")
    visit.press("ArrowRight")
    assert "beta" in visit.text("#live")
    visit.press("Enter")
    visit.wait_for(f"{SHEET}.querySelector('h2')?.innerText === 'beta'")
    visit.press("Escape")
    assert visit.run("document.activeElement.tagName") == "CANVAS"


def test_search_finds_by_a_part_of_the_name(visit: Visit) -> None:
    visit.open()
    visit.run("document.activeElement.blur()")
    visit.do(visit.page.press("/", 191, "/"))
    assert visit.run("document.activeElement.type") == "search"
    visit.do(visit.page.type("api-2"))
    visit.wait_for("document.querySelectorAll('.found li').length === 1")
    visit.press("Enter")
    visit.wait_for(f"{SHEET}.querySelector('h2')?.innerText === 'default/api-2'")
    assert visit.run(
        "document.querySelector('growth-nodes').isDim(document.querySelector('growth-nodes').byName.get('alpha'))"
    )


def test_nodes_are_a_table_too(visit: Visit) -> None:
    visit.open()
    visit.run("document.querySelector('growth-nodes .toggle').click()")
    assert "alpha" in visit.text("growth-nodes table")
    visit.run("document.querySelector('growth-nodes table button').click()")
    visit.wait_for(f"{SHEET}.querySelector('h2')?.innerText === 'alpha'")


FOREIGN = {
    "an event handler": "document.body.setAttribute('onclick', 'globalThis.broken = 1')",
    "markup": "document.body.innerHTML = '<b>'",
    "text that becomes code": "eval('globalThis.broken = 1')",
    "a function made of text": "new Function('globalThis.broken = 1')()",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_code_that_is_not_the_pages_own_is_refused(visit: Visit, what: str) -> None:
    """The policy that every other test sees no violation of is in force."""
    visit.open()
    tried = f"(() => {{ try {{ {FOREIGN[what]}; return 'done' }} catch {{ return 'refused' }} }})()"
    assert visit.run(tried) == "refused"
    assert visit.run("globalThis.broken ?? 0") == 0
    visit.page.errors.clear()


def test_a_connection_that_is_lost_comes_back(visit: Visit) -> None:
    visit.open()
    visit.stop()
    visit.wait_for("document.querySelector('growth-status').innerText.includes('lost')")
    visit.town.note("Pod", "default/web-9", "Unplaced", "after the break")
    visit.serve()
    visit.wait_for("document.querySelector('growth-journal').innerText.includes('after the break')")
    assert "live" in visit.text("growth-status")


class OneToken(Reviews):
    """Knows one token, without asking anybody."""

    def __init__(self) -> None:
        pass

    async def why_not(self, token: str) -> Refusal | None:
        await asyncio.sleep(0)
        return None if token == "right" else Refusal(401, "unknown")


def test_an_exposed_page_asks_for_a_token_and_shows_nothing_before(laboratory: Laboratory) -> None:
    visit = Visit(laboratory, Town(), Guard(is_exposed=True, reviews=OneToken()))
    visit.do(visit.page.open(visit.url))
    visit.wait_for("document.querySelector('.token input') !== null")
    assert visit.run("growth.isReady") is False
    visit.do(visit.page.type("right"))
    visit.press("Enter")
    visit.wait_for("growth.isReady && document.querySelector('growth-figures').innerText.includes('0.0600')")
    visit.page.errors = [each for each in visit.page.errors if "401" not in each]
    visit.end()
