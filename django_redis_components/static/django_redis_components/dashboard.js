/* Refreshes an open dashboard page. Without JavaScript the page is complete, and "Refresh" is a link.
   It fetches the page's fragment and patches changed nodes in place, so that focus, selection and
   open details survive. It stops while the page is hidden or paused. */
(() => {
    "use strict";

    const root = document.querySelector("[data-drc-dashboard]");
    if (!root) {
        return;
    }
    const status = root.querySelector("[data-drc-status]");
    const pause = root.querySelector("[data-drc-pause]");
    const texts = root.dataset;
    const refreshMs = Number(texts.refreshS) * 1000;
    const maxWaitMs = 60000;
    const storageKey = "drc-dashboard-paused";
    const policy = window.trustedTypes?.createPolicy("django-redis-components", { createHTML: (html) => html });
    let timer = 0;
    let waitMs = refreshMs;
    let request = null;
    let paused = loadPaused();

    function loadPaused() {
        try {
            return localStorage.getItem(storageKey) === "1";
        } catch {
            return false;
        }
    }

    function savePaused() {
        try {
            localStorage.setItem(storageKey, paused ? "1" : "0");
        } catch {
            // A private window may refuse storage. The button still works.
        }
    }

    /** Set the live region's text, once per change. */
    function announce(text) {
        if (status.textContent !== text) {
            status.textContent = text;
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

    /** Patch one node to equal another. A node of another shape is replaced, unless it has the focus. */
    function patch(old, fresh) {
        if (old.isEqualNode(fresh)) {
            return;
        }
        if (old.nodeType !== Node.ELEMENT_NODE) {
            old.data = fresh.data;
            return;
        }
        syncAttributes(old, fresh);
        if (fresh.firstElementChild?.dataset.drcKey && old.firstElementChild) {
            patchRows(old, fresh);
            return;
        }
        const before = [...old.childNodes].filter((node) => !("drcAdded" in (node.dataset ?? {})));
        const after = [...fresh.childNodes];
        const alike = before.length === after.length && before.every((node, at) => node.nodeName === after[at].nodeName);
        if (alike) {
            before.forEach((node, at) => patch(node, after[at]));
        } else if (!old.contains(document.activeElement)) {
            old.replaceChildren(...after.map((node) => document.importNode(node, true)));
        }
    }

    /** Patch rows that have keys. A row keeps its node, so that focus and selection stay on it. */
    function patchRows(old, fresh) {
        const rows = new Map([...old.children].map((row) => [row.dataset.drcKey, row]));
        const keys = new Set([...fresh.children].map((row) => row.dataset.drcKey));
        rows.forEach((row, key) => keys.has(key) || row.remove());
        let next = old.firstElementChild;
        for (const row of fresh.children) {
            const found = rows.get(row.dataset.drcKey);
            if (found) {
                patch(found, row);
            }
            if (found && found === next) {
                next = next.nextElementSibling;
            } else {
                old.insertBefore(found || document.importNode(row, true), next);
            }
        }
    }

    /** Parse a page of this server; no script in it runs. */
    function parse(html) {
        return new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
    }

    function show(html) {
        const fresh = parse(html);
        const before = headline();
        for (const region of root.querySelectorAll("[data-drc-live]")) {
            const found = fresh.querySelector(`[data-drc-live="${region.dataset.drcLive}"]`);
            if (found) {
                patch(region, found);
            }
        }
        if (root.classList.contains("drc-stale")) {
            root.classList.remove("drc-stale");
            announce(`${texts.textBack} ${headline()}`);
        } else if (headline() !== before) {
            announce(headline());
        }
    }

    function markStale(text) {
        root.classList.add("drc-stale");
        announce(text);
        waitMs = Math.min(waitMs * 2, maxWaitMs);
    }

    async function handle(response) {
        if (response.redirected || response.status === 403) {
            paused = true;
            updateButton();
            announce(texts.textSignedOut || "");
        } else if (response.ok) {
            if ("drcOutage" in texts) {
                location.reload();
                return;
            }
            waitMs = refreshMs;
            show(await response.text());
        } else if (response.status === 503 && "drcOutage" in texts) {
            waitMs = Math.min(waitMs * 2, maxWaitMs);
        } else if (response.status === 503) {
            const page = parse(await response.text());
            const words = page.querySelector("[data-drc-headline]");
            markStale(`${words ? words.textContent : ""} ${texts.textAway}`.trim());
        } else {
            markStale(texts.textUnanswered);
        }
    }

    async function refresh() {
        request = new AbortController();
        const { signal } = request;
        const limit = setTimeout(() => request && request.abort("late"), 20000);
        try {
            const url = new URL(location.href);
            url.hash = "";
            if (texts.query) {
                url.search = texts.query; // what the page shows by default may be something else by now
            }
            url.searchParams.set("format", "fragment");
            await handle(await fetch(url, { signal, cache: "no-store" }));
        } catch {
            if (!signal.aborted || signal.reason === "late") {
                markStale(texts.textUnanswered || "");
            }
        } finally {
            clearTimeout(limit);
            request = null;
            schedule();
        }
    }

    /** Refresh, unless rows would move under the pointer. */
    function refreshUnlessHeld() {
        if (root.querySelector("[data-drc-hold] a:hover")) {
            schedule();
        } else {
            refresh();
        }
    }

    /** Schedule the next refresh. At most one request runs at a time. */
    function schedule() {
        clearTimeout(timer);
        if (!paused && !document.hidden && !request) {
            timer = setTimeout(refreshUnlessHeld, waitMs);
        }
    }

    function stop() {
        clearTimeout(timer);
        if (request) {
            request.abort("stop");
        }
    }

    function updateButton() {
        const other = pause.dataset.textResume;
        if (paused !== (pause.dataset.paused === "1")) {
            pause.dataset.textResume = pause.textContent;
            pause.textContent = other;
            pause.dataset.paused = paused ? "1" : "0";
        }
    }

    pause.addEventListener("click", () => {
        paused = !paused;
        savePaused();
        updateButton();
        if (paused) {
            stop();
        } else if (!request) {
            refresh();
        }
    });

    document.addEventListener("visibilitychange", () => {
        if (document.hidden) {
            stop();
        } else if (!paused && !request) {
            clearTimeout(timer);
            refresh();
        }
    });

    pause.hidden = false;
    updateButton();
    schedule();
})();
