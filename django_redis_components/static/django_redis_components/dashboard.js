/* Keeps an open dashboard up to date. Without it the page is whole, and "Refresh" is a link.
   It asks for the page's own fragment and patches what differs, text by text: nothing that is
   focused, selected or unfolded is replaced. It stops while the page is hidden or paused. */
(() => {
    "use strict";

    const root = document.querySelector("[data-drc-dashboard]");
    if (!root) {
        return;
    }
    const said = root.querySelector("[data-drc-said]");
    const pause = root.querySelector("[data-drc-pause]");
    const texts = root.dataset;
    const refreshMs = Number(texts.refreshS) * 1000;
    const longestMs = 60000;
    const remembered = "drc-dashboard-paused";
    let timer = 0;
    let waitMs = refreshMs;
    let asking = null;
    let paused = recall();

    function recall() {
        try {
            return localStorage.getItem(remembered) === "1";
        } catch {
            return false;
        }
    }

    function remember() {
        try {
            localStorage.setItem(remembered, paused ? "1" : "0");
        } catch {
            // Private windows may refuse; the button works all the same.
        }
    }

    /** Tells a screen reader, politely and once. */
    function say(text) {
        if (said.textContent !== text) {
            said.textContent = text;
        }
    }

    function headline() {
        const found = root.querySelector("[data-drc-headline]");
        return found ? found.textContent : "";
    }

    function syncAttributes(old, fresh) {
        for (const { name } of [...old.attributes]) {
            if (!fresh.hasAttribute(name) && name !== "open") {
                old.removeAttribute(name);
            }
        }
        for (const { name, value } of fresh.attributes) {
            if (old.getAttribute(name) !== value) {
                old.setAttribute(name, value);
            }
        }
    }

    /** Make one node like another. What has another shape is replaced, unless the focus is in it. */
    function patch(old, fresh) {
        if (old.isEqualNode(fresh)) {
            return;
        }
        if (old.nodeType !== Node.ELEMENT_NODE) {
            old.data = fresh.data;
            return;
        }
        syncAttributes(old, fresh);
        const before = [...old.childNodes];
        const after = [...fresh.childNodes];
        const alike = before.length === after.length && before.every((node, at) => node.nodeName === after[at].nodeName);
        if (alike) {
            before.forEach((node, at) => patch(node, after[at]));
        } else if (!old.contains(document.activeElement)) {
            old.replaceChildren(...after.map((node) => document.importNode(node, true)));
        }
    }

    function show(html) {
        const fresh = new DOMParser().parseFromString(html, "text/html");
        const before = headline();
        for (const region of root.querySelectorAll("[data-drc-live]")) {
            const found = fresh.querySelector(`[data-drc-live="${region.dataset.drcLive}"]`);
            if (found) {
                patch(region, found);
            }
        }
        if (root.classList.contains("drc-stale")) {
            root.classList.remove("drc-stale");
            say(`${texts.textBack} ${headline()}`);
        } else if (headline() !== before) {
            say(headline());
        }
    }

    function grow(text) {
        root.classList.add("drc-stale");
        say(text);
        waitMs = Math.min(waitMs * 2, longestMs);
    }

    async function take(response) {
        if (response.redirected || response.status === 403) {
            paused = true;
            label();
            say(texts.textSignedOut || "");
        } else if (response.ok) {
            if ("drcOutage" in texts) {
                location.reload();
                return;
            }
            waitMs = refreshMs;
            show(await response.text());
        } else if (response.status === 503 && "drcOutage" in texts) {
            waitMs = Math.min(waitMs * 2, longestMs);
        } else if (response.status === 503) {
            const page = new DOMParser().parseFromString(await response.text(), "text/html");
            const words = page.querySelector("[data-drc-headline]");
            grow(`${words ? words.textContent : ""} ${texts.textAway}`.trim());
        } else {
            grow(texts.textUnanswered);
        }
    }

    async function ask() {
        asking = new AbortController();
        const { signal } = asking;
        const limit = setTimeout(() => asking && asking.abort("late"), 20000);
        try {
            const url = new URL(location.href);
            url.hash = "";
            url.searchParams.set("format", "fragment");
            await take(await fetch(url, { signal, cache: "no-store" }));
        } catch {
            if (!signal.aborted || signal.reason === "late") {
                grow(texts.textUnanswered || "");
            }
        } finally {
            clearTimeout(limit);
            asking = null;
            plan();
        }
    }

    /** One request at a time: the next is planned when the last has ended. */
    function plan() {
        clearTimeout(timer);
        if (!paused && !document.hidden && !asking) {
            timer = setTimeout(ask, waitMs);
        }
    }

    function stop() {
        clearTimeout(timer);
        if (asking) {
            asking.abort("stop");
        }
    }

    function label() {
        const other = pause.dataset.textResume;
        if (paused !== (pause.dataset.paused === "1")) {
            pause.dataset.textResume = pause.textContent;
            pause.textContent = other;
            pause.dataset.paused = paused ? "1" : "0";
        }
    }

    pause.addEventListener("click", () => {
        paused = !paused;
        remember();
        label();
        if (paused) {
            stop();
        } else if (!asking) {
            ask();
        }
    });

    document.addEventListener("visibilitychange", () => {
        if (document.hidden) {
            stop();
        } else if (!paused && !asking) {
            clearTimeout(timer);
            ask();
        }
    });

    pause.hidden = false;
    label();
    plan();
})();
