/* Lists of tasks: the box in the head ticks all rows, the number of ticked rows is shown, and a button unticks them.
   Without JavaScript the box in the head selects what the page lists, too: the server reads it. */
(() => {
    "use strict";

    for (const form of document.querySelectorAll("[data-drc-select]")) {
        const status = form.querySelector("[data-drc-selected]");
        const clear = form.querySelector("[data-drc-clear]");
        const head = form.querySelector('thead input[type="checkbox"]');
        const rows = [...form.querySelectorAll('tbody input[type="checkbox"]')];
        if (!status || !head) {
            continue;
        }

        const show = () => {
            const count = rows.filter((row) => row.checked).length;
            head.checked = count === rows.length;
            head.indeterminate = count > 0 && count < rows.length;
            status.hidden = clear.hidden = !count;
            status.querySelector("span").textContent = count.toLocaleString(document.documentElement.lang || undefined);
        };

        const setAll = (checked) => {
            for (const row of rows) {
                row.checked = checked;
            }
            show();
        };

        form.addEventListener("change", (event) => (event.target === head ? setAll(head.checked) : show()));
        clear.addEventListener("click", () => {
            setAll(false);
            head.focus(); // the button is hidden now
        });
        window.addEventListener("pageshow", show); // the browser may have kept what was ticked
    }
})();
