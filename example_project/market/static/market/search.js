// Shows results while the visitor types. Without it the form is sent by its button.
"use strict";

(() => {
  const DEBOUNCE_MS = 150;
  const form = document.getElementById("search");
  const results = document.getElementById("results");
  let timer = 0;
  let asking = null;

  const refresh = async () => {
    asking?.abort();
    asking = new AbortController();
    const query = new URLSearchParams(new FormData(form));
    history.replaceState(null, "", `?${query}`);
    query.set("part", "1");
    try {
      const reply = await fetch(`?${query}`, { signal: asking.signal });
      if (!reply.ok) return;
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      results.replaceChildren(...fresh.body.childNodes);
    } catch {
      // a newer request replaced this one, or the site is away: the button still works
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, DEBOUNCE_MS);
  });
})();
