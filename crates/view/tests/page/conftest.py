"""Fixtures: a server, a browser, and a page with the words of the tests."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from traces import write_loop

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]
ROUNDS = 4000

expect.set_options(timeout=20_000)


def cannot_run(reason):
    """Skip a test that cannot run here; fail in strict mode."""
    if os.environ.get("UNSPOOL_STRICT") == "1":
        pytest.fail(f"cannot run: {reason}")
    pytest.skip(reason)


class Server:
    def __init__(self, *traces):
        program = os.environ.get("UNSPOOL_BIN") or cannot_run("UNSPOOL_BIN names no program")
        self.process = subprocess.Popen([program, "view", "--no-open", *map(str, traces)], stdout=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/\w+/", line):
                self.url = found[0]
                break
        assert self.url, "the server printed no address"

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(scope="session")
def serve():
    servers = []

    def start(*traces):
        variable = "UNSPOOL_VIEW_URL" if len(traces) == 1 else "UNSPOOL_VIEW_PAIR_URL"
        if url := os.environ.get(variable):
            return url
        if os.environ.get("UNSPOOL_VIEW_URL"):
            cannot_run(f"{variable} is not set")
        servers.append(Server(*traces))
        return servers[-1].url

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def url(serve, tmp_path_factory):
    return serve(write_loop(tmp_path_factory.mktemp("one") / "loop.tarmac", ROUNDS))


@pytest.fixture(scope="session")
def pair_url(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    return serve(write_loop(folder / "a.tarmac", ROUNDS), write_loop(folder / "b.tarmac", ROUNDS, round_without_store=1000))


@pytest.fixture(scope="session")
def capture_url(serve):
    return serve(Path(__file__).resolve().parents[4] / "examples" / "hello-qemu")


@pytest.fixture(scope="session")
def browser():
    if not Path(CHROMIUM).exists():
        cannot_run(f"{CHROMIUM} does not exist (Debian: chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory):
    folder = Path(os.environ.get("UNSPOOL_SHOTS") or tmp_path_factory.mktemp("shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class View:
    """A page of the viewer."""

    def __init__(self, page, url, t=0):
        self.page, self.url, self.t = page, url, t
        self.errors = []
        self.requests = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" and "status of 400" not in message.text else None)
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, fragment=""):
        self.page.goto(self.url + fragment)
        expect(self.page.locator(".rows .row:visible .op").first).to_be_visible()
        return self

    def wait_until_done(self):
        """Wait until the index, the calls and the findings are complete."""
        expect(self.page.locator("#position")).to_contain_text(re.compile(r"of [\d,]+"))
        expect(self.page.locator("#work-progress .work:visible")).to_have_count(0)
        return self

    def api(self, path, /, **parameters):
        """The server's answer; the first source of the current trace by default."""
        parameters = {"t": self.t, "s": 0, **parameters} if path not in ("traces", "differences") else parameters
        parameters = {name.rstrip("_"): str(value) for name, value in parameters.items()}
        response = self.page.request.get(f"{self.url}api/{path}", params=parameters)
        assert response.ok, response.text()
        return json.loads(response.text())

    def row(self, n):
        return self.api("instructions", from_=n, count=1)["rows"][0]

    @property
    def length(self):
        return self.api("progress")["instructions"]

    @property
    def n(self):
        return int(re.match(r"#([\d,]+)", self.page.locator("#position").inner_text())[1].replace(",", ""))

    def expect_n(self, n):
        expect(self.page.locator("#position")).to_contain_text(re.compile(rf"^#{n:,} "))
        expect(self.current(self.t)).to_contain_text(f"{n:,}")

    def current(self, index=0):
        """The current row of an instruction list."""
        return self.page.locator(f"#rows{index} .row.current:visible")

    def expect_first(self, index, accept):
        """Wait until the first visible row of an instruction list is accepted."""
        numbers = f"[...document.querySelectorAll('#rows{index} .row:not([hidden])')].map(row => Number(row.getAttribute('aria-posinset')))"
        for _ in range(200):
            first = self.page.evaluate(f"Math.min(...{numbers})")
            if accept(first):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"the first row is {first}")

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def go_to(self, place):
        self.page.fill("#place", place)
        self.page.press("#place", "Enter")

    def search(self, condition, key="Enter"):
        self.page.fill("#search", condition)
        self.page.press("#search", key)

    def tab(self, name):
        self.page.get_by_role("tab", name=name, exact=True).click()


@pytest.fixture
def new_view(browser):
    contexts = []

    def create(url, width=1440, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        return View(context.new_page(), url)

    yield create
    for context in contexts:
        context.close()


@pytest.fixture
def view(new_view, url):
    result = new_view(url).open().wait_until_done()
    yield result
    assert result.errors == []
    assert all(request.startswith(result.url) for request in result.requests if not request.startswith("data:"))
