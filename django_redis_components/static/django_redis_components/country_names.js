/* Names the countries of the page in the reader's language. Without JavaScript their codes are shown. */
(() => {
    "use strict";

    const root = document.querySelector("[data-drc-dashboard]");
    if (!root || !Intl.DisplayNames) {
        return;
    }
    const names = new Intl.DisplayNames([document.documentElement.lang || "en"], { type: "region", fallback: "none" });

    function nameOf(code) {
        try {
            return names.of(code) || "";
        } catch {
            return ""; // not a code
        }
    }

    /** Add the names that are missing: a refresh brings other countries. */
    function update() {
        for (const code of root.querySelectorAll("[data-drc-country]")) {
            const added = code.querySelector("[data-drc-added]");
            const text = nameOf(code.dataset.drcCountry);
            if (!added && text) {
                const name = document.createElement("span");
                name.dataset.drcAdded = "";
                name.textContent = ` ${text}`;
                code.append(name);
            } else if (added && added.textContent !== ` ${text}`) {
                added.textContent = ` ${text}`;
            }
        }
    }

    update();
    new MutationObserver(update).observe(root, { subtree: true, childList: true, attributes: true });
})();
