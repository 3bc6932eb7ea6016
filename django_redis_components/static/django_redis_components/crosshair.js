/* One crosshair in all charts of the history, at the nearest interval with data, and its values beside the titles.
   Without JavaScript the values are in the tables below the charts. */
(() => {
    "use strict";

    const root = document.querySelector("[data-drc-dashboard]");
    if (!root || !root.querySelector("[data-drc-crosshair]")) {
        return;
    }
    let pointed = -1;

    function set(node, name, value) {
        if (node.getAttribute(name) !== value) {
            node.setAttribute(name, value);
        }
    }

    /** Return the values of an interval in words, from the row of the panel's table. */
    function words(panel) {
        const row = panel.querySelector(`tr[data-drc-at="${pointed}"]`);
        if (!row) {
            return "";
        }
        const names = [...panel.querySelectorAll("thead th")].map((head) => head.textContent.trim());
        const cells = [...row.children].map((cell) => cell.textContent.trim());
        const values = cells.slice(1).map((cell, at) => `${names[at + 1]} ${cell}`);
        return `${cells[0]}: ${values.join(" · ")}`;
    }

    /** Draw it. A refresh of the page has removed it. */
    function draw() {
        root.classList.toggle("drc-pointed", pointed >= 0);
        for (const line of root.querySelectorAll("[data-drc-crosshair] .drc-crosshair")) {
            const count = Number(line.closest("svg").dataset.drcCount);
            const x = `${(((pointed + 0.5) / count) * 100).toFixed(2)}%`;
            set(line, "x1", x);
            set(line, "x2", x);
        }
        for (const readout of root.querySelectorAll("[data-drc-readout]")) {
            const text = pointed < 0 ? "" : words(readout.closest("section"));
            if (readout.textContent !== text) {
                readout.textContent = text;
            }
        }
    }

    function point(event) {
        const chart = event.target.closest?.("[data-drc-crosshair] svg.drc-chart");
        if (!chart) {
            pointed = -1;
        } else {
            const box = chart.getBoundingClientRect();
            const at = ((event.clientX - box.left) / box.width) * Number(chart.dataset.drcCount) - 0.5;
            const known = [...chart.closest("section").querySelectorAll("tr[data-drc-at]")].map((row) => Number(row.dataset.drcAt));
            pointed = known.reduce((best, each) => (Math.abs(each - at) < Math.abs(best - at) ? each : best), known[0] ?? -1);
        }
        draw();
    }

    root.addEventListener("pointermove", point);
    root.addEventListener("pointerleave", point);
    new MutationObserver(draw).observe(root, { subtree: true, attributeFilter: ["x1"] });
})();
