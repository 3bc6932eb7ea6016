/*
 * <redis-autocomplete>: a text field that suggests, in the pattern of an ARIA 1.2 combobox.
 *
 * It holds a text input and a hidden input with the id of what was chosen. Without this script the text input is
 * all there is, and the form field looks the text up. Nothing is written by innerHTML, and no style is set.
 *
 * With data-multiple it also holds a check box for each chosen entry, and the text input is for another one. Here each of
 * them gets a button that removes it, and the check box is hidden.
 */
(() => {
    "use strict";

    if (customElements.get("redis-autocomplete")) {
        return;
    }

    const DEBOUNCE_MS = 180; // after the last key, before the server is asked
    const ANNOUNCE_MS = 700; // after the last change, before a screen reader is told
    const TIMEOUT_MS = 8000; // until an answer is given up
    const TEXT_SUFFIX = "-text"; // of the text input's name beside check boxes

    let serial = 0;

    function make(tag, className, attributes = {}) {
        const element = document.createElement(tag);
        element.className = className;
        for (const [name, value] of Object.entries(attributes)) {
            element.setAttribute(name, value);
        }
        return element;
    }

    class RedisAutocomplete extends HTMLElement {
        #input = null;
        #hidden = null;
        #popup = null;
        #list = null;
        #note = null;
        #remove = null;
        #chips = null;
        #voices = [];
        #results = []; // of all pages that were read
        #page = 1; // the last one
        #options = []; // the results, and what else the list offers
        #active = -1;
        #firstId = "";
        #forwarded = ""; // what the other fields had that this one depends on
        #choosing = false;
        #wanted = null; // which option was asked for before the answer came: "first" or "last", or a number
        #listening = null;
        #asking = null;
        #askTimer = 0;
        #speakTimer = 0;

        connectedCallback() {
            if (document.readyState === "loading") {
                document.addEventListener("DOMContentLoaded", () => this.isConnected && this.#setUp(), { once: true });
            } else {
                this.#setUp();
            }
        }

        disconnectedCallback() {
            this.#listening?.abort();
            this.#listening = null;
            this.#stop();
            clearTimeout(this.#speakTimer);
        }

        #setUp() {
            this.#listening?.abort();
            this.#listening = new AbortController();
            const options = { signal: this.#listening.signal };
            this.#input = this.querySelector("input[type=text]");
            this.#hidden = this.querySelector("input[type=hidden]");
            this.#chips = this.querySelector(".drc-chips");
            // The empty row of a formset is no field yet. Its clones are new elements and set themselves up; one
            // that gets its number only afterwards does so when it is focused.
            if (!this.#input || !this.#hidden || this.#input.name.includes("__prefix__")) {
                this.addEventListener("focusin", () => this.#setUp(), { ...options, once: true });
                return;
            }
            this.#firstId = this.#hidden.value;
            this.#forwarded = String(this.#forward());
            this.#build();
            this.#listen(options);
            this.#showRemove();
            this.#allChips().forEach((chip) => this.#dress(chip));
            this.#showChips();
        }

        #build() {
            // What a clone brings along from its original is made anew: its ids belong to the other row.
            this.querySelectorAll(":scope > [data-made]").forEach((element) => element.remove());
            this.#popup = make("div", "drc-popup", { "data-made": "", hidden: "" });
            this.#list = make("div", "drc-list", { role: "listbox", "aria-label": this.dataset.labelList });
            this.#note = make("div", "drc-note", { hidden: "", "aria-hidden": "true" });
            this.#popup.append(this.#list, this.#note);
            this.#remove = make("button", "drc-remove", { type: "button", "data-made": "", hidden: "" });
            this.#remove.textContent = "\u00d7";
            this.#voices = [0, 1].map(() => make("span", "drc-spoken", { role: "status", "data-made": "" }));
            this.append(this.#remove, this.#popup, ...this.#voices);
            const input = this.#input;
            input.setAttribute("role", "combobox");
            input.setAttribute("aria-autocomplete", "list");
            input.setAttribute("aria-expanded", "false");
            input.removeAttribute("aria-activedescendant");
            input.autocomplete = "off";
            this.#nameParts();
        }

        #nameParts() {
            const base = this.#input.id || `drc-autocomplete-${++serial}`;
            this.#list.id = `${base}-list`;
            this.#input.setAttribute("aria-controls", this.#list.id);
        }

        #listen(options) {
            const input = this.#input;
            input.addEventListener("input", () => this.#onInput(), options);
            input.addEventListener("keydown", (event) => this.#onKey(event), options);
            input.addEventListener("focus", () => this.#onFocus(), options);
            input.addEventListener("click", () => this.#onFocus(), options);
            this.addEventListener("focusout", (event) => this.contains(event.relatedTarget) || this.#onLeave(), options);
            this.#popup.addEventListener("mousedown", (event) => event.preventDefault(), options);
            this.#popup.addEventListener("click", (event) => this.#onClick(event), options);
            this.#remove.addEventListener("click", () => this.#clear(), options);
            this.#chips?.addEventListener("change", (event) => this.#onChip(event.target), options);
            this.#chips?.addEventListener("click", (event) => this.#onChipClick(event), options);
            this.#chips?.addEventListener("keydown", (event) => this.#onChipKey(event), options);
            input.form?.addEventListener("reset", () => setTimeout(() => this.#onReset()), options);
            if (this.dataset.forward) {
                input.form?.addEventListener("input", (event) => this.#onForward(event.target), options);
                input.form?.addEventListener("change", (event) => this.#onForward(event.target), options);
            }
        }

        /* ---- events ---- */

        /* Also while an input method composes: keyboards of phones compose each Latin word, and Hangul each syllable. */
        #onInput() {
            if (this.#choosing) {
                return;
            }
            this.#activate(-1);
            this.#hidden.value = "";
            this.#showRemove();
            this.#wanted = null;
            clearTimeout(this.#askTimer);
            this.#askTimer = setTimeout(() => this.#ask(), DEBOUNCE_MS);
        }

        #onFocus() {
            if (this.#input.id && this.#list.id !== `${this.#input.id}-list`) {
                this.#nameParts(); // the row got its number after it was inserted
            }
            if (!this.#choosing && !this.#input.value && this.#popup.hidden) {
                this.#ask();
            }
        }

        #onLeave() {
            this.#stop();
            if (this.#input.value.trim() && !this.#hidden.value && !this.#chips && this.#canEdit() && this.#hasDependents()) {
                this.#identify(this.#input.value);
            }
        }

        #onKey(event) {
            // Enter and the arrows belong to an input method that composes.
            if (event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey) {
                return;
            }
            const handled = {
                ArrowDown: () => this.#onArrow(1, event.altKey),
                ArrowUp: () => this.#onArrow(-1, event.altKey),
                Enter: () => this.#choose(this.#active),
                Escape: () => this.#onEscape(),
                Home: () => this.#activate(-1),
                End: () => this.#activate(-1),
                ArrowLeft: () => this.#activate(-1),
                ArrowRight: () => this.#activate(-1),
                Tab: () => this.#stop(),
                Backspace: () => this.#onBackspace(),
            }[event.key]?.();
            if (handled) {
                event.preventDefault();
                event.stopPropagation();
            }
        }

        #onArrow(step, alone) {
            if (alone && step < 0) {
                return this.#close();
            }
            if (!this.#options.length) {
                this.#wanted = alone ? null : step > 0 ? "first" : "last";
                this.#ask();
            } else if (!alone) {
                const count = this.#options.length;
                const from = this.#active < 0 && step < 0 ? count : this.#active;
                this.#activate((from + step + count) % count);
            }
            return true;
        }

        #onEscape() {
            if (this.#close()) {
                return true;
            }
            if (this.#input.value && this.#canEdit()) {
                this.#clear();
            }
            return false;
        }

        #onBackspace() {
            const last = this.#removers().pop();
            if (this.#input.value || !last || !this.#canEdit()) {
                return false;
            }
            this.#stop();
            last.focus(); // which says what a second press removes
            return true;
        }

        #onChip(box) {
            const say = box.checked ? this.dataset.textChosen : this.dataset.textRemoved;
            this.#speak(say.replace("{name}", () => this.#nameOf(box.closest(".drc-chip"))));
            this.#showChips();
        }

        #onChipClick(event) {
            const remover = event.target.closest("button");
            if (remover) {
                this.#removeChip(remover);
            }
        }

        #onChipKey(event) {
            const remover = event.target.closest("button");
            const forward = getComputedStyle(this).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
            const at = this.#removers().indexOf(remover);
            const handled = {
                Backspace: () => this.#removeChip(remover, true),
                Delete: () => this.#removeChip(remover),
                ArrowLeft: () => this.#focusChip(at + (forward === "ArrowLeft" ? 1 : -1)),
                ArrowRight: () => this.#focusChip(at + (forward === "ArrowRight" ? 1 : -1)),
            }[remover && event.key];
            if (handled) {
                event.preventDefault();
                handled();
            }
        }

        #onClick(event) {
            const option = event.target.closest("[role=option]");
            if (option) {
                this.#choose(this.#options.findIndex((one) => one.element === option));
            }
        }

        /* What was chosen belongs to the former values of the other fields. */
        #onForward(changed) {
            const forwarded = String(this.#forward());
            if (forwarded === this.#forwarded) {
                return;
            }
            this.#forwarded = forwarded;
            this.#stop();
            this.#chips?.querySelectorAll("input:checked").forEach((box) => {
                box.checked = false;
            });
            this.#showChips();
            if (!this.#hidden.value && changed.closest("redis-autocomplete")) {
                // The other field has identified its text after it was left: what was typed here meanwhile stays.
                if (document.activeElement === this.#input) {
                    this.#ask();
                }
            } else if (this.#input.value || this.#hidden.value) {
                this.#set("", "");
            }
        }

        #onReset() {
            this.#forwarded = String(this.#forward());
            this.#hidden.value = this.#firstId;
            this.#chips?.querySelectorAll("[data-added]").forEach((chip) => chip.remove());
            this.#stop();
            this.#showRemove();
            this.#showChips();
        }

        /* ---- asking the server ---- */

        #canEdit() {
            return !this.#input.readOnly && !this.#input.matches(":disabled");
        }

        async #ask(page = 1) {
            this.#stopAsking();
            const text = this.#input.value.replace(/\p{Cc}/gu, " ").trim(); // pasted tabs: the server refuses them
            const enough = [...text].length >= Number(this.dataset.minLength);
            if (!this.#canEdit() || !(enough || (!text && "recents" in this.dataset))) {
                this.#close();
                return;
            }
            const asking = new AbortController();
            this.#asking = asking;
            const timeout = setTimeout(() => asking.abort("timeout"), TIMEOUT_MS);
            this.#list.setAttribute("aria-busy", "true");
            try {
                const answer = await this.#fetch(text, page, asking.signal);
                if (this.#asking === asking) {
                    this.#results = page > 1 ? [...this.#results, ...answer.results] : answer.results;
                    this.#page = page;
                    const offers = this.#offers(text, answer.pagination.more);
                    this.#show([...this.#results, ...offers], answer.status, Boolean(text), page > 1);
                }
            } catch (error) {
                if (this.#asking === asking) {
                    this.#show([], error.refusal ?? this.dataset.textError, true);
                }
            } finally {
                clearTimeout(timeout);
                if (this.#asking === asking) {
                    this.#asking = null;
                    this.#list.removeAttribute("aria-busy");
                }
            }
        }

        /* Choose the entry that the text names, for the fields that depend on this one. The server does so with a form. */
        async #identify(value) {
            const text = value.replace(/\p{Cc}/gu, " ").trim();
            const forwarded = String(this.#forward());
            const found = await this.#fetch(text, 1, AbortSignal.timeout(TIMEOUT_MS)).catch(() => null);
            const named = found?.results.filter((one) => one.exact) ?? [];
            const isSame = this.#input.value === value && String(this.#forward()) === forwarded;
            if (named.length === 1 && this.isConnected && isSame && !this.#hidden.value) {
                this.#set(named[0].text, named[0].id);
                this.#speak(this.dataset.textChosen.replace("{name}", () => named[0].text));
            }
        }

        async #fetch(text, page, signal) {
            const url = new URL(this.dataset.url, document.baseURI);
            url.searchParams.set("term", text);
            if (page > 1) {
                url.searchParams.set("page", page);
            }
            if (this.dataset.scope) {
                url.searchParams.set("scope", this.dataset.scope);
            }
            this.#forward().forEach(([name, value]) => url.searchParams.set(`forward-${name}`, value));
            const response = await fetch(url, { signal, headers: { Accept: "application/json" } });
            if (!response.ok) {
                throw Object.assign(new Error(String(response.status)), { refusal: await this.#refusal(response) });
            }
            return response.json();
        }

        /* Why the view refuses the request, in the user's language; undefined for what is no answer of the view. */
        async #refusal(response) {
            if (response.status === 403 || response.status === 400) {
                const { error } = (await response.json().catch(() => null)) ?? {};
                return typeof error === "string" ? error : undefined;
            }
            return undefined;
        }

        /* Names and values of the fields that this one depends on: those of the same row, or else of the form, or those
           that the form does not send, because they are disabled or only shown. */
        #forward() {
            const names = this.dataset.forward?.split(" ") ?? [];
            const own = this.#name(); // not of an attribute: a formset renames the inputs of a new row only
            const row = own.slice(0, own.lastIndexOf("-") + 1);
            const data = names.length && this.#input.form ? new FormData(this.#input.form) : new FormData();
            const fixed = JSON.parse(this.dataset.forwardFixed ?? "{}");
            const valueOf = (name) => data.get(`${name}-id`) ?? data.get(name);
            return names.map((name) => [name, valueOf(row + name) ?? valueOf(name) ?? fixed[name] ?? ""]);
        }

        /* Whether another field of the form depends on this one. */
        #hasDependents() {
            const own = this.#name();
            const fields = this.#input.form?.querySelectorAll("redis-autocomplete[data-forward]") ?? [];
            const names = [...fields].flatMap((field) => field.dataset.forward.split(" "));
            return names.some((name) => own === name || own.endsWith(`-${name}`));
        }

        /* What the list offers after the results: the next page, and to create what was typed. */
        #offers(text, more) {
            const offers = more ? [{ offer: "more", text: this.dataset.labelMore }] : [];
            const label = this.dataset.labelCreate;
            if (label && text && !this.#results.some((one) => one.text.toLowerCase() === text.toLowerCase())) {
                offers.push({ offer: "create", name: text, text: label.replace("{name}", () => text) });
            }
            return offers;
        }

        #stopAsking() {
            clearTimeout(this.#askTimer);
            const asking = this.#asking;
            this.#asking = null; // first: whoever waits for the answer sees that it is not wanted
            asking?.abort();
            this.#list?.removeAttribute("aria-busy");
        }

        #stop() {
            this.#stopAsking();
            if (this.#popup) {
                this.#close();
            }
        }

        /* ---- the popup ---- */

        #show(results, status, speak, isFurther = false) {
            const before = this.#options[this.#active]?.id; // moved to while the answer was under way
            this.#activate(-1);
            this.#options = results.map((result, number) => ({ ...result, element: this.#option(result, number) }));
            this.#list.replaceChildren(...this.#grouped());
            this.#note.textContent = results.length ? "" : status;
            this.#note.hidden = results.length > 0;
            this.#list.hidden = !results.length;
            this.#popup.hidden = !results.length && !speak;
            this.#input.setAttribute("aria-expanded", String(results.length > 0));
            this.#place();
            const wanted = { first: 0, last: results.length - 1 }[this.#wanted] ?? this.#wanted;
            this.#activate(wanted ?? this.#options.findIndex((one) => one.id && one.id === before));
            this.#wanted = null;
            if (!isFurther && (speak || results.length)) {
                const created = this.#options.find((one) => one.offer === "create");
                this.#speak(created ? `${status}. ${created.text}` : status);
            }
        }

        #option(result, number) {
            const id = `${this.#list.id}-${number}`;
            const name = result.offer ? "drc-option drc-offer" : "drc-option";
            const option = make("div", name, { role: "option", id, "aria-selected": "false", dir: "auto" });
            const characters = [...result.text];
            const [start, end] = result.match ?? [0, 0];
            const match = make("mark", "drc-match");
            match.textContent = characters.slice(start, end).join("");
            option.append(characters.slice(0, start).join(""), match, characters.slice(end).join(""));
            return option;
        }

        #grouped() {
            const recent = this.#options.filter((one) => one.group === "recent").map((one) => one.element);
            const others = this.#options.filter((one) => one.group !== "recent").map((one) => one.element);
            if (!recent.length) {
                return others;
            }
            const label = make("div", "drc-group-label", { id: `${this.#list.id}-recent`, role: "presentation" });
            label.textContent = this.dataset.labelRecent;
            const group = make("div", "drc-group", { role: "group", "aria-labelledby": label.id });
            group.append(label, ...recent);
            return [group, ...others];
        }

        #place() {
            this.#popup.classList.remove("drc-above");
            const popup = this.#popup.getBoundingClientRect();
            const above = this.#input.getBoundingClientRect().top;
            this.#popup.classList.toggle("drc-above", popup.bottom > window.innerHeight && above > popup.height);
        }

        #activate(number) {
            this.#options[this.#active]?.element.setAttribute("aria-selected", "false");
            this.#active = number;
            const option = this.#options[number]?.element;
            if (!option) {
                this.#input.removeAttribute("aria-activedescendant");
                return;
            }
            option.setAttribute("aria-selected", "true");
            this.#input.setAttribute("aria-activedescendant", option.id);
            option.scrollIntoView({ block: "nearest" });
        }

        #close() {
            const wasOpen = !this.#popup.hidden;
            this.#activate(-1);
            this.#options = [];
            this.#list.replaceChildren();
            this.#popup.hidden = true;
            this.#input.setAttribute("aria-expanded", "false");
            return wasOpen;
        }

        /* ---- the value ---- */

        #choose(number) {
            const chosen = this.#options[number];
            if (!chosen) {
                this.#stop(); // Enter without an active option sends the form
                return false;
            }
            if (chosen.offer === "more") {
                this.#wanted = this.#results.length;
                this.#ask(this.#page + 1);
                return true;
            }
            this.#stop();
            const { id, text } = chosen.offer ? { id: "", text: chosen.name } : chosen;
            if (this.#chips) {
                this.#set("", "");
                this.#addChip(id, text);
                return true;
            }
            this.#set(text, id);
            this.#speak(this.dataset.textChosen.replace("{name}", () => text));
            return true;
        }

        /* The name of the field. */
        #name() {
            const name = this.#input.name;
            return this.#chips && name.endsWith(TEXT_SUFFIX) ? name.slice(0, -TEXT_SUFFIX.length) : name;
        }

        /* A chip without an id is text that the server creates an entry for; it is sent like the text input. */
        #addChip(id, text) {
            const name = id ? this.#name() : this.#input.name;
            const boxes = [...this.#chips.querySelectorAll("input")];
            let box = boxes.find((one) => one.name === name && one.value === (id || text));
            if (!box) {
                const chip = make("span", "drc-chip", { "data-added": "", dir: "auto" });
                const label = make("label", "");
                box = make("input", "", { type: "checkbox", name, value: id || text });
                label.append(box, ` ${text}`);
                chip.append(label);
                this.#chips.append(chip);
                this.#dress(chip);
            }
            box.checked = true;
            box.dispatchEvent(new Event("change", { bubbles: true }));
        }

        #allChips() {
            return [...(this.#chips?.querySelectorAll(".drc-chip") ?? [])];
        }

        #nameOf(chip) {
            return chip.querySelector("label").textContent.trim();
        }

        /* Give a chip its button instead of its check box. A cloned row brings along the buttons of its original. */
        #dress(chip) {
            chip.querySelector("[data-made]")?.remove();
            const box = chip.querySelector("input");
            const remover = make("button", "drc-chip-remove", { type: "button", "data-made": "" });
            remover.textContent = "\u00d7";
            remover.setAttribute("aria-label", this.dataset.labelRemove.replace("{name}", () => this.#nameOf(chip)));
            remover.hidden = box.disabled;
            box.hidden = true;
            chip.setAttribute("role", "listitem");
            chip.append(remover);
        }

        /* Show the chips whose boxes are checked. */
        #showChips() {
            if (!this.#chips) {
                return;
            }
            const shown = this.#allChips().filter((chip) => {
                chip.hidden = !chip.querySelector("input").checked;
                return !chip.hidden;
            });
            this.#chips.hidden = !shown.length;
            this.#chips.setAttribute("role", "list");
            this.#chips.setAttribute("aria-label", this.dataset.labelChosen);
        }

        /* The buttons of the chips that can be removed. */
        #removers() {
            return this.#allChips()
                .filter((chip) => !chip.hidden)
                .map((chip) => chip.querySelector("button"))
                .filter((remover) => !remover.hidden);
        }

        #removeChip(remover, toInput = false) {
            if (!this.#canEdit()) {
                return;
            }
            const at = this.#removers().indexOf(remover);
            const box = remover.closest(".drc-chip").querySelector("input");
            box.checked = false;
            box.dispatchEvent(new Event("change", { bubbles: true })); // which hides it
            const left = this.#removers().length;
            this.#focusChip(toInput ? left : Math.min(at, left - 1));
        }

        /* Focus the button of a chip; the text input after the last one, or if there is none. */
        #focusChip(at) {
            const removers = this.#removers();
            if (removers.length && at < removers.length) {
                removers[Math.max(at, 0)].focus();
            } else {
                this.#focusQuietly();
            }
        }

        #focusQuietly() {
            this.#choosing = true; // the focus comes from here: nothing opens
            this.#input.focus();
            this.#choosing = false;
        }

        #clear() {
            const text = this.#input.value;
            this.#stop();
            this.#set("", "");
            this.#focusQuietly();
            this.#speak(this.dataset.textRemoved.replace("{name}", () => text));
        }

        #set(text, id) {
            this.#choosing = true;
            try {
                this.#input.value = text;
                this.#hidden.value = id;
                this.#showRemove();
                this.#input.dispatchEvent(new Event("input", { bubbles: true }));
                this.#input.dispatchEvent(new Event("change", { bubbles: true }));
            } finally {
                this.#choosing = false;
            }
        }

        #showRemove() {
            const chosen = Boolean(this.#hidden.value) && this.#canEdit();
            this.#remove.hidden = !chosen;
            this.classList.toggle("drc-chosen", chosen);
            const label = this.dataset.labelRemove.replace("{name}", () => this.#input.value);
            this.#remove.setAttribute("aria-label", label);
        }

        /* Two regions in turn: the same text twice is spoken twice, and one text never twice. */
        #speak(text) {
            clearTimeout(this.#speakTimer);
            this.#speakTimer = setTimeout(() => {
                const [old, next] = this.#voices;
                old.textContent = "";
                next.textContent = text;
                this.#voices.reverse();
            }, ANNOUNCE_MS);
        }
    }

    customElements.define("redis-autocomplete", RedisAutocomplete);
})();
