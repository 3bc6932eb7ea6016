// Keeps the number of unread messages in the navigation current while the page is visible.
"use strict";

(() => {
  const EVERY_MS = 30_000;
  const MAX = 99;
  const badge = document.getElementById("unread");

  const refresh = async () => {
    if (document.hidden) return;
    try {
      const reply = await fetch(badge.dataset.url);
      if (!reply.ok) return;
      const { total } = await reply.json();
      badge.firstElementChild.textContent = total > MAX ? `${MAX}+` : total;
      badge.hidden = total === 0;
    } catch {
      // the site is away: the number stays as it is
    }
  };

  if (!badge) return;
  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("unread-changed", refresh);
})();
