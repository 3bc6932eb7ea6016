"""Windows of Chromium that tests use one after the other.

A new context with its page, the start of a process for it and the first load of the styles and scripts cost several
times as much processor time as a page that is opened in a used one. A test that fails closes the windows it used.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.support.axe import AXE_SCRIPT
from tests.support.waiting import TIMEOUT_S

#: Debian's browser. Playwright's own would have to be downloaded.
CHROMIUM = Path(shutil.which("chromium") or "/usr/bin/chromium")

#: Chromium's own user interface: each context would draw two pages of its address bar, which no test reads, for half of
#: the processor time of a test, and keep a process for a next page.
UNSEEN = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess"]

#: What Playwright disables itself: Chromium obeys the last list only.
DISABLED_BY_PLAYWRIGHT = [
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    f"--disable-features={','.join(DISABLED_BY_PLAYWRIGHT + UNSEEN)}",
]

#: Console message of a browser about a response with this status.
STATUS = "the server responded with a status of {}"

#: Policy violations, reported by the browser itself.
COLLECT_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile || ""}`));
"""

#: Leaves the page, with its timers and requests, for an empty one in the same process.
LEAVE = """() => {
    localStorage.clear();
    sessionStorage.clear();
    location.replace("about:blank");
}"""


class Complaints:
    """What a page's console and policy complained about, except for what the test expects."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._expected: list[str] = []

    def expect_status(self, status: int) -> None:
        self._expected.append(STATUS.format(status))

    def expect_offline(self) -> None:
        self._expected.append("net::ERR_INTERNET_DISCONNECTED")

    def on_console(self, message: ConsoleMessage) -> None:
        if (message.location.get("url") or "").endswith("/favicon.ico"):
            return  # which the browser asks for by itself, once
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def on_error(self, error: object) -> None:
        self.found.append(f"uncaught: {error}")

    def unexpected(self) -> list[str]:
        return [text for text in self.found if not any(expected in text for expected in self._expected)]


class Window:
    """A context with one page, and the complaints of the test that uses it.

    Args:
        options: options of the context that a page cannot change.
    """

    def __init__(self, browser: Browser, options: dict[str, Any]) -> None:
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(TIMEOUT_S * 1_000)
        self.context.add_init_script(COLLECT_VIOLATIONS)
        if AXE_SCRIPT.is_file() and options.get("java_script_enabled", True):
            self.context.add_init_script(f"window.loadAxe = () => {{{AXE_SCRIPT.read_text()}}};")
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.on_console(message))
        self.page.on("pageerror", lambda error: self.complaints.on_error(error))
        self.complaints = Complaints()

    def look(self, scheme: str, forced_colors: str, width: int, height: int) -> None:
        """Show pages so from now on."""
        self.page.emulate_media(color_scheme=scheme, forced_colors=forced_colors)  # type: ignore[arg-type]
        size = {"width": width, "height": height}
        if self.page.viewport_size != size:
            self.page.set_viewport_size(size)  # type: ignore[arg-type]

    def collect(self) -> None:
        """Add the violations of the policy to the complaints."""
        for page in self.context.pages:
            self.complaints.found += [f"policy: {text}" for text in page.evaluate("window.violations || []")]

    def clear(self) -> None:
        """Remove what a test leaves in the window."""
        for page in self.context.pages:
            if page is not self.page:
                page.close()
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.mouse.move(0, 0)
        if self.page.url != "about:blank":
            with self.page.expect_navigation(url="about:blank"):
                self.page.evaluate(LEAVE)
        self.context.clear_cookies()
        self.complaints = Complaints()  # of nobody


class Windows:
    """The windows that no test uses, by the options of their contexts."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._unused: dict[str, list[Window]] = {}
        self._keys: dict[Window, str] = {}

    def take(self, options: dict[str, Any], *, is_shared: bool) -> Window:
        """Return a window for a test; one that is not shared is new, and no other test gets it."""
        key = repr(sorted(options.items()))
        unused = self._unused.setdefault(key, [])
        if is_shared and unused:
            return unused.pop()
        window = Window(self._browser, options)
        if is_shared:
            self._keys[window] = key
        return window

    def give_back(self, window: Window, *, is_usable: bool) -> None:
        """Close the window, or keep it for the next test."""
        key = self._keys.get(window)
        if key is None or not is_usable:
            window.context.close()
            return
        window.clear()
        self._unused[key].append(window)
