"""Two traces side by side, aligned by their differences."""

import pytest
from playwright.sync_api import expect


@pytest.fixture
def pair(new_view, pair_url):
    view = new_view(pair_url).open().wait_until_done()
    expect(view.page.locator("#pane-differences .item").first).to_be_visible()
    yield view
    assert view.errors == []


def shown(view, index):
    return int(view.current(index).locator(".c0").inner_text().replace(",", ""))


def test_both_lists_move_together(pair, shots):
    pair.go_to("#20")
    pair.expect_n(20)
    assert shown(pair, 1) == 20
    last = pair.api("differences")["items"][-1]
    n = last["a"] + last["a_count"] + 10
    pair.go_to(f"#{n}")
    pair.expect_n(n)
    expect(pair.current(1).locator(".c0")).to_have_text(f"{last['b'] + last['b_count'] + 10:,}")
    pair.page.screenshot(path=shots / "two.png")


def test_moving_in_the_second_moves_the_first(pair):
    last = pair.api("differences")["items"][-1]
    n = last["b"] + last["b_count"] + 5
    pair.press("v")
    pair.t = 1
    pair.go_to(f"#{n}")
    pair.expect_n(n)
    expect(pair.current(0).locator(".c0")).to_have_text(f"{last['a'] + last['a_count'] + 5:,}")


def test_next_and_previous_difference(pair):
    items = pair.api("differences")["items"]
    pair.press("d")
    pair.expect_n(items[0]["a"])
    assert shown(pair, 1) == items[0]["b"]
    expect(pair.page.locator("#rows0 .row.differs:visible, #rows1 .row.differs:visible").first).to_be_visible()
    if len(items) > 1:
        pair.press("d")
        pair.expect_n(items[1]["a"])
        pair.press("D")
        pair.expect_n(items[0]["a"])


def test_scrolling_one_scrolls_the_other(pair):
    pair.page.locator("#rows0").hover()
    pair.page.mouse.wheel(0, 400)
    pair.expect_first(1, lambda first: first == 21)


def test_link_restores_both_positions(pair, new_view):
    pair.press("d", "v", "s")
    pair.page.wait_for_timeout(500)
    other = new_view(pair.url).open(pair.page.evaluate("location.hash")).wait_until_done()
    expect(other.page.locator("#rows1 .row.current:visible .c0")).to_have_text(pair.current(1).locator(".c0").inner_text())
    expect(other.page.locator(".list.active #rows1")).to_be_visible()
