/* Lists of tasks: j and k move the focus to the next and the previous row, x ticks a row, Enter opens its task. They work
   only while the focus is in the list (WCAG 2.1.4), not in its text fields, and never with a modifier key. */
(() => {
    "use strict";

    const FIELDS = 'input:not([type="checkbox"]), select, textarea, [contenteditable]';

    for (const list of document.querySelectorAll("[data-drc-row-keys]")) {
        const rows = [...list.querySelectorAll("tbody tr")];
        const linkOf = (row) => row.querySelector("th a");
        const boxOf = (row) => row.querySelector('input[type="checkbox"]');

        const focus = (row) => {
            if (!linkOf(row)) {
                row.tabIndex = -1;
            }
            (linkOf(row) ?? row).focus();
        };

        list.addEventListener("keydown", (event) => {
            const { target, key } = event;
            if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.isComposing || target.matches(FIELDS)) {
                return;
            }
            const at = rows.indexOf(target.closest("tr"));
            const row = rows[at];
            if (key === "j" && rows[at + 1]) {
                focus(rows[at + 1]);
            } else if (key === "k" && rows[at - 1]) {
                focus(rows[at - 1]);
            } else if (key === "x" && row && boxOf(row) && !event.repeat) {
                boxOf(row).click();
            } else if (key === "Enter" && row && target === boxOf(row) && linkOf(row)) {
                linkOf(row).click(); // it would submit the form
            } else {
                return;
            }
            event.preventDefault();
        });
        document.getElementById(list.getAttribute("aria-describedby")).hidden = false;
    }
})();
