"""Keyboard, help, themes, accessibility, sizes and hostile text."""

from pathlib import Path

import pytest
from conftest import cannot_run
from playwright.sync_api import expect

AXE = Path(__file__).resolve().parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"


def test_keyboard_only(view):
    view.press("g")
    view.page.keyboard.type("#50")
    view.press("Enter")
    view.expect_n(50)
    view.press("s", "PageDown", "PageUp")
    view.expect_n(51)
    view.press("/")
    view.page.keyboard.type(view.row(60)["address"])
    view.press("Enter")
    view.expect_n(view.api("find", from_=51, direction="next", address=view.row(60)["address"])["n"])
    view.press("Escape", "6")
    expect(view.page.get_by_role("tab", name="Call stack")).to_have_attribute("aria-selected", "true")
    view.press("b")
    expect(view.page.locator("#notice")).to_contain_text("Bookmark at instruction")
    view.press("End")
    view.expect_n(view.length)
    view.press("Home")
    view.expect_n(1)


def test_everything_focusable_shows_its_focus(view):
    seen = set()
    for _ in range(70):
        view.press("Tab")
        name, outline, shadow = view.page.evaluate("""() => {
            const style = getComputedStyle(document.activeElement);
            return [document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.textContent,
                style.outlineStyle + style.outlineWidth, style.backgroundColor];
        }""")
        seen.add(name)
        role = view.page.evaluate("document.activeElement.getAttribute('role')")
        assert not outline.startswith("none") or role == "separator" or name == view.page.evaluate("document.body.textContent"), name
    assert {"rows0", "timeline", "search", "place", "split-list"} <= seen


def test_help_overlay(view, shots):
    view.press("?")
    dialog = view.page.locator("#help")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("Step over calls")
    expect(dialog).to_contain_text("write 0x8000..0x8010")
    view.page.screenshot(path=shots / "help.png")
    view.press("s")
    assert view.n == 1
    view.press("Escape")
    expect(dialog).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(new_view, url, shots, scheme):
    view = new_view(url, color_scheme=scheme).open().wait_until_done()
    n = view.api("find", from_=view.length // 2, direction="next", register="x0")["n"]
    view.go_to(f"#{n}")
    view.expect_n(n)
    background = "getComputedStyle(document.body).backgroundColor"
    first = view.page.evaluate(background)
    view.page.wait_for_timeout(800)
    view.page.screenshot(path=shots / f"{scheme}.png")
    view.press("t")
    assert view.page.evaluate(background) != first
    view.page.reload()
    assert view.page.evaluate(background) != first, "the browser keeps the choice"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("panes", [(), ("Packets", "Call stack"), ("Findings", "Call tree"), ("Bookmarks",)])
def test_axe_finds_no_serious_fault(new_view, url, scheme, panes):
    if not AXE.exists():
        cannot_run("axe-core is not installed: npm ci in crates/view/page")
    view = new_view(url, color_scheme=scheme).open().wait_until_done()
    view.press("s", "b")
    for name in panes:
        view.tab(name)
    view.page.wait_for_timeout(800)
    if not panes:
        view.press("?")
    view.page.evaluate(AXE.read_text())
    result = view.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    faults = [(v["id"], v["impact"], [node["html"][:200] for node in v["nodes"][:3]]) for v in result["violations"] if v["impact"] in ("serious", "critical")]
    assert faults == []


@pytest.mark.parametrize("width,height", [(1000, 600), (1280, 720), (1920, 1080)])
def test_sizes(new_view, url, shots, width, height):
    view = new_view(url, width, height).open().wait_until_done()
    view.page.wait_for_timeout(800)
    view.page.screenshot(path=shots / f"{width}x{height}.png")
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight")
    for pane in ("#timeline", "#rows0", "#pane-source", "#pane-state", "#position"):
        box = view.page.locator(pane).bounding_box()
        assert box["width"] > 60 and box["height"] > 10, pane
        assert box["x"] + box["width"] <= width + 1 and box["y"] + box["height"] <= height + 1, pane


def test_hostile_text_is_only_text(new_view, url, shots):
    evil = "<img src=x onerror=window.hit=1><script>window.hit=1</script>\u202e" + "N" * 10_000
    view = new_view(url)

    def answer(route):
        body = route.fetch().json()
        for row in body["rows"]:
            row["function"], row["text"] = evil, evil
            row["events"] = [{"kind": evil, "text": evil}]
        body["files"] = [evil]
        route.fulfill(json=body)

    view.page.route("**/api/instructions*", answer)
    view.page.route("**/api/stack*", lambda route: route.fulfill(json={"stack": 0, "frames": [{"function": evil, "address": "0x1", "entry": 1, "depth": 0, "began": evil}]}))
    view.open().wait_until_done()
    view.tab("Call stack")
    expect(view.page.locator("#pane-stack .item")).to_contain_text("<img src=x")
    view.page.wait_for_timeout(500)
    view.page.screenshot(path=shots / "hostile.png")
    assert view.page.evaluate("window.hit") is None
    assert view.page.locator("main img, main script").count() == 0
    assert view.page.evaluate("Math.max(...[...document.querySelectorAll('main [title]')].map(one => one.title.length))") <= 2000
    assert view.errors == []


def test_scrolling_is_smooth(view):
    """Half of the frames while scrolling take at most two frame times, on a machine that may be busy."""
    view.page.locator("#rows0").hover()
    times = view.page.evaluate("""async () => {
        const rows = document.querySelector("#rows0");
        const times = [];
        let last = performance.now();
        for (let i = 0; i < 120; i++) {
            rows.dispatchEvent(new WheelEvent("wheel", { deltaY: 137, bubbles: true, cancelable: true }));
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            times.push(now - last);
            last = now;
        }
        return times.sort((a, b) => a - b);
    }""")
    assert times[60] < 34, f"median frame: {times[60]:.1f} ms"
