/* Adds a button that copies to each command on the page. Without JavaScript a command is selected by hand. */
(() => {
    "use strict";

    const root = document.querySelector("[data-drc-dashboard]");
    if (!root) {
        return;
    }
    const texts = root.dataset;

    /** Copy a text of the page. Browsers offer the clipboard on secure pages only; elsewhere the selection is copied. */
    async function copy(code) {
        if (navigator.clipboard) {
            await navigator.clipboard.writeText(code.textContent);
            return true;
        }
        getSelection().selectAllChildren(code);
        return document.execCommand("copy");
    }

    function add(code) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "drc-copy";
        button.dataset.drcAdded = "";
        button.textContent = texts.textCopy;
        button.setAttribute("aria-label", `${texts.textCopy} ${code.textContent}`);
        button.addEventListener("click", async () => {
            if (await copy(code).catch(() => false)) {
                button.textContent = texts.textCopied;
                root.querySelector("[data-drc-status]").textContent = texts.textCopied;
                setTimeout(() => (button.textContent = texts.textCopy), 2000);
            }
        });
        code.after(button);
    }

    /** Add the buttons that are missing: a refresh brings new commands, and changes others. */
    function update() {
        for (const code of root.querySelectorAll("code[dir=ltr]")) {
            const button = code.nextElementSibling;
            if (!button || !("drcAdded" in button.dataset)) {
                add(code);
            } else if (!button.getAttribute("aria-label").endsWith(` ${code.textContent}`)) {
                button.setAttribute("aria-label", `${texts.textCopy} ${code.textContent}`);
            }
        }
    }

    update();
    new MutationObserver(update).observe(root, { subtree: true, childList: true, characterData: true });
})();
