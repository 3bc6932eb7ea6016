// Refreshes the parts of the page while a rush runs. A part whose button has the focus or is pressed stays as it is.
"use strict";

(() => {
  const EVERY_MS = 600;
  const area = document.getElementById("rush");

  const isInUse = (part) => part.contains(document.activeElement) || part.querySelector("button:active") !== null;

  const refresh = async () => {
    let next = EVERY_MS;
    try {
      const reply = await fetch(area.dataset.state, { headers: { Accept: "text/html" } });
      if (!reply.ok) throw new Error(reply.statusText);
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      const isRunning = fresh.querySelector('[data-running="1"]') !== null;
      for (const part of fresh.querySelectorAll("[data-part]")) {
        const shown = area.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!shown) area.append(part);
        else if (!isInUse(shown) && shown.innerHTML !== part.innerHTML) shown.replaceWith(part);
      }
      if (!isRunning) return;
    } catch {
      next = EVERY_MS * 5; // the site restarts, or Redis is away
    }
    setTimeout(refresh, next);
  };

  if (area.querySelector('[data-running="1"]')) setTimeout(refresh, EVERY_MS);
})();
