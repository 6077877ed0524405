"""One trace: every pane and every move, compared with the server's answers."""

import re

from playwright.sync_api import expect


def test_first_paint_does_not_wait_for_the_index(new_view, url):
    view = new_view(url)
    view.page.route("**/api/progress*", lambda route: route.fulfill(json={
        "index": {"state": "running", "done": 1, "total": 4, "why": None},
        "calls": {"state": "running", "done": 1, "total": 4, "why": None},
        "findings": {"state": "running", "done": 1, "total": None, "why": None},
        "lines": {"state": "running", "done": 0, "total": None, "why": None},
        "instructions": None,
    }))
    view.open()
    expect(view.current()).to_contain_text(view.row(1)["address"])
    expect(view.page.locator("#work-progress")).to_contain_text("Index 25%")


def test_rows_equal_the_server(view):
    view.go_to(f"#{view.length // 2}")
    view.expect_n(view.length // 2)
    row = view.row(view.length // 2)
    expect(view.current().locator(".c1")).to_have_text(row["address"])
    expect(view.current().locator(".c3")).to_contain_text(re.sub(r"\s+", " ", row["text"]))


def test_scroll_to_the_end_and_the_middle(view):
    bar = view.page.locator("#lists .bar").bounding_box()
    x = bar["x"] + bar["width"] / 2
    view.page.mouse.move(x, bar["y"] + 10)
    view.page.mouse.down()
    view.page.mouse.move(x, bar["y"] + bar["height"] + 50, steps=5)
    expect(view.page.locator(".row.end:visible .c0")).to_have_text("end")
    expect(view.page.locator(f".row:visible >> text='{view.length:,}'")).to_be_visible()
    view.page.mouse.move(x, bar["y"] + bar["height"] / 2, steps=5)
    view.page.mouse.up()
    view.expect_first(0, lambda first: abs(first - view.length / 2) < view.length / 20)
    assert view.n == 1, "scrolling does not move the current instruction"


def test_wheel_scrolls_by_rows(view):
    view.page.locator("#rows0").hover()
    view.page.mouse.wheel(0, 200)
    view.expect_first(0, lambda first: first == 11)


def test_step_forward_and_backward(view):
    view.press("s", "s", "s")
    view.expect_n(4)
    view.press("S")
    view.expect_n(3)
    view.press("ArrowDown")
    view.expect_n(4)
    view.press("ArrowUp", "ArrowUp")
    view.expect_n(2)


def test_over_and_out_and_their_reverses(view):
    start = view.api("calls", from_=1, to=200, min=3, depth=1, depths=50, stack="all")["slices"]
    entry = min(slice[2] for slice in start if slice[2] > 1)
    call = entry - 1
    view.go_to(f"#{call}")
    view.expect_n(call)
    over = view.api("step", at=call, move="over")["n"]
    assert over > entry
    view.press("n")
    view.expect_n(over)
    view.press("N")
    view.expect_n(view.api("step", at=over, move="over_back")["n"])
    view.go_to(f"#{entry + 1}")
    view.expect_n(entry + 1)
    view.press("o")
    out = view.api("step", at=entry + 1, move="out")["n"]
    if out is None:
        expect(view.page.locator("#notice")).to_contain_text("does not return")
    else:
        view.expect_n(out)
    view.go_to(f"#{entry + 1}")
    view.expect_n(entry + 1)
    view.press("O")
    view.expect_n(view.api("step", at=entry + 1, move="out_back")["n"])


def test_go_to(view):
    view.go_to("#7")
    view.expect_n(7)
    row = view.row(view.length // 3)
    view.go_to(row["address"])
    view.expect_n(view.api("locate", place=row["address"])["n"])
    view.go_to("0x1")
    expect(view.page.locator("#notice")).to_contain_text("0x1 is not in this trace")


def test_search(view):
    text = view.row(30)["text"].split()[0]
    view.search(f"text {text}")
    first = view.api("find", from_=1, direction="next", text=text)["n"]
    view.expect_n(first)
    view.page.locator("#rows0").focus()
    view.press("r")
    second = view.api("find", from_=first, direction="next", text=text)["n"]
    view.expect_n(second)
    view.press("R")
    view.expect_n(first)
    address = view.row(100)["address"]
    view.search(address)
    view.expect_n(view.api("find", from_=first, direction="next", address=address)["n"])


def test_search_for_a_write(view):
    view.search("register x0")
    expected = view.api("find", from_=1, direction="next", register="x0")["n"]
    view.expect_n(expected)


def test_a_condition_that_is_none_is_explained(view):
    view.search("write nowhere")
    expect(view.page.locator("#notice")).to_contain_text("needs an address or a range")


def test_a_long_search_shows_progress_and_stops(view):
    looked = iter(range(100, 10**9, 100))
    view.page.route("**/api/find*", lambda route: (view.page.wait_for_timeout(20), route.fulfill(json={"n": None, "more": next(looked)})))
    view.search("text nothing-has-this")
    expect(view.page.locator("#searching")).to_be_visible()
    expect(view.page.locator("#searching-text")).to_contain_text("at #")
    view.page.click("#searching-stop")
    expect(view.page.locator("#searching")).to_be_hidden()
    expect(view.page.locator("#notice")).to_contain_text("stopped")
    view.page.unroute_all(behavior="ignoreErrors")


def test_next_execution_of_this_address(view):
    n = view.length // 2
    view.go_to(f"#{n}")
    view.expect_n(n)
    address = view.row(n)["address"]
    view.press("a")
    again = view.api("find", from_=n, direction="next", address=address)["n"]
    view.expect_n(again)
    view.press("A")
    view.expect_n(n)


def test_state_follows_the_position(view):
    n = view.api("find", from_=1, direction="next", register="x0")["n"]
    view.go_to(f"#{n}")
    view.expect_n(n)
    core = view.api("state", at=n)["cores"][0]
    row = view.page.locator("#pane-state .registers .item")
    for register in core["registers"][:3]:
        item = row.filter(has=view.page.locator(f".name:text-is('{register['name']}')"))
        expect(item.locator(".value")).to_have_text(register["value"])
        assert ("changed" in item.locator(".value").get_attribute("class")) == register["changed"]


def test_memory_at_an_address(view):
    n = view.length // 2
    view.go_to(f"#{n}")
    view.expect_n(n)
    view.page.fill("#memory", "0x10000+32")
    view.page.press("#memory", "Enter")
    lines = view.api("state", at=n, memory="0x10000+32")["cores"][0]["memory"]
    expect(view.page.locator(".memory-line")).to_have_count(len(lines))
    expect(view.page.locator(".memory-line .hex").first).to_have_text("".join(lines[0]["bytes"]))
    view.page.fill("#memory", "somewhere")
    view.page.press("#memory", "Enter")
    expect(view.page.locator("#detail .message")).to_contain_text("such as 0x8000+64")


def test_stack_follows_the_position(view):
    n = view.length // 2
    view.tab("Call stack")
    view.go_to(f"#{n}")
    view.expect_n(n)
    frames = view.api("stack", at=n)["frames"]
    items = view.page.locator("#pane-stack .item")
    expect(items).to_have_count(len(frames))
    expect(items.first).to_contain_text(frames[0]["function"] or frames[0]["address"])
    items.nth(len(frames) - 1).click()
    view.expect_n(frames[-1]["entry"])


def test_call_tree_opens_nodes(view):
    view.tab("Call tree")
    roots = view.api("tree", path="")["nodes"]
    items = view.page.locator("#pane-tree .item")
    expect(items.first).to_contain_text(roots[0]["function"] or roots[0]["address"])
    children = view.api("tree", path=roots[0]["address"])["nodes"]
    if len(roots) > 1:
        items.first.click()
    if children:
        expect(items.nth(1)).to_contain_text(children[0]["function"] or children[0]["address"])


def test_source_follows_the_position(view):
    n = view.length // 2
    view.go_to(f"#{n}")
    view.expect_n(n)
    row = view.row(n)
    if row["file"] is None:
        expect(view.page.locator("#pane-source .pane-head")).to_contain_text("No source line is known")
        return
    source = view.api("source", file=row["file"])
    line = view.page.locator("#pane-source .item[aria-selected=true]")
    expect(line.locator(".number")).to_have_text(str(row["line"]))
    expect(line.locator(".code")).to_have_text(source["lines"][row["line"] - 1].strip() or re.compile(""))


def test_packets_follow_the_position(new_view, capture_url):
    view = new_view(capture_url).open().wait_until_done()
    view.tab("Packets")
    n = view.length // 2
    view.go_to(f"#{n}")
    view.expect_n(n)
    here = next(packet for packet in view.api("packets", at=n)["packets"] if packet["here"])
    item = view.page.locator("#pane-packets .item[aria-selected=true]")
    expect(item).to_contain_text(f"0x{here['offset']:08x}")
    expect(item).to_contain_text(here["bytes"][:20])
    assert view.errors == []


def test_findings_lead_to_their_instruction(view):
    view.tab("Findings")
    answer = view.api("findings")
    if not answer["items"]:
        expect(view.page.locator("#pane-findings .empty")).not_to_have_text("")
        return
    expect(view.page.locator("#pane-findings .item").first).to_contain_text(answer["items"][0]["rule"])
    index, finding = next((i, item) for i, item in enumerate(answer["items"]) if item["n"] is not None)
    view.page.locator("#pane-findings .item").nth(index).click()
    view.expect_n(finding["n"])


def test_timeline_selects_zooms_and_pans(view):
    box = view.page.locator("#timeline").bounding_box()
    x, y = box["x"] + 132 + (box["width"] - 132) / 2, box["y"] + 75
    view.page.mouse.click(x, y)
    expect(view.page.locator("#position")).not_to_contain_text(re.compile(r"^#1 "))
    assert abs(view.n - view.length / 2) < view.length / 100
    view.page.mouse.move(x, y)
    for _ in range(16):
        view.page.mouse.wheel(0, -400)
    expect(view.page).to_have_url(re.compile(r"z=\d"))
    narrow = view_range(view)
    assert narrow[1] - narrow[0] < 40
    assert narrow[0] - view.length / 100 < view.n < narrow[1] + view.length / 100
    view.press("-", "-")
    view.page.wait_for_timeout(400)
    wider = view_range(view)
    assert wider[1] - wider[0] > 2 * (narrow[1] - narrow[0])
    view.page.mouse.down()
    view.page.mouse.move(x - 200, y, steps=4)
    view.page.mouse.up()
    view.page.wait_for_timeout(400)
    assert view_range(view)[0] > wider[0]
    view.press("0")
    expect(view.page).not_to_have_url(re.compile(r"z=\d"))


def view_range(view):
    found = re.search(r"z=(-?[\d.]+)(?:%2C|,)(-?[\d.]+)", view.page.url)
    return float(found[1]), float(found[2])


def test_time_axis(view):
    if not view.api("traces")["traces"][0]["sources"][0]["has"]["times"]:
        expect(view.page.locator("#axis")).to_be_hidden()
        return
    view.page.click("#axis")
    expect(view.page.locator("#axis")).to_have_attribute("aria-pressed", "true")
    expect(view.page).to_have_url(re.compile("x=time"))


def test_bookmarks_and_the_link_restore_the_view(view, new_view):
    n = view.length // 3
    view.go_to(f"#{n}")
    view.expect_n(n)
    view.press("+", "+", "+")
    view.tab("Bookmarks")
    view.page.fill("#bookmark-label", "here, <b>it</b> is")
    view.page.press("#bookmark-label", "Enter")
    expect(view.page.locator("#pane-bookmarks .item")).to_contain_text("here, <b>it</b> is")
    view.tab("Call stack")
    view.page.fill("#search", "text ldr")
    view.page.press("#search", "Tab")
    view.page.wait_for_timeout(500)
    fragment = view.page.evaluate("location.hash")
    other = new_view(view.url).open(fragment).wait_until_done()
    other.expect_n(n)
    expect(other.page.locator("#pane-bookmarks .item")).to_contain_text("here, <b>it</b> is")
    expect(other.page.get_by_role("tab", name="Call stack")).to_have_attribute("aria-selected", "true")
    expect(other.page.locator("#search")).to_have_value("text ldr")
    other.page.wait_for_timeout(500)
    assert view_range(other) == view_range(view)
    other.press("Home")
    other.page.locator("#pane-bookmarks .item").click()
    other.expect_n(n)


def test_a_malformed_link_is_harmless(new_view, url):
    view = new_view(url).open("#p=9.9.x,0.0.-1&z=nan,1e99&panes=nothing,<b>&b=1&b=0.0.5.ok&a=7").wait_until_done()
    view.expect_n(1)
    view.tab("Bookmarks")
    expect(view.page.locator("#pane-bookmarks .item")).to_have_count(1)
    assert view.errors == []


def test_errors_are_sentences(view):
    view.page.route("**/api/state*", lambda route: route.fulfill(status=400, json={"error": "The state cannot be shown <b>here</b>."}))
    view.go_to("#2")
    expect(view.page.locator("#detail .message")).to_have_text("The state cannot be shown <b>here</b>.")


def test_banner_when_the_server_is_gone(view):
    view.page.route("**/api/**", lambda route: route.abort())
    view.go_to("#9000")
    expect(view.page.locator("#banner")).to_be_visible()
    expect(view.page.locator("#banner")).to_contain_text("does not answer")
    view.page.unroute_all()
    view.page.click("#retry")
    expect(view.page.locator("#banner")).to_be_hidden()
    view.press("End")
    view.expect_n(view.length)
    view.errors.clear()


def test_stale_requests_are_aborted(view):
    aborted = []
    view.page.on("requestfailed", lambda request: aborted.append(request.url))
    view.page.route("**/api/state*", lambda route: (view.page.wait_for_timeout(50), route.continue_()))
    view.press(*["s"] * 12)
    view.expect_n(13)
    view.page.wait_for_timeout(1500)
    assert any("api/state" in url for url in aborted)
    view.page.unroute_all(behavior="ignoreErrors")
