// Shows new messages by a long poll of the package's JSON view, and sends without reloading. The page works without it.
"use strict";

(() => {
  const WAIT_S = 25;
  const LIMIT = 100;
  const MAX_LIMIT = 1_000;
  const TIMEOUT_MS = (WAIT_S + 10) * 1000;
  const MIN_PAUSE_MS = 500;
  const MAX_PAUSE_MS = 30_000;
  const RESTART = "restart";

  const chat = document.getElementById("chat");
  const log = document.getElementById("log");
  const connection = document.getElementById("connection");
  const form = document.getElementById("write");
  const field = form.elements.text;
  const events = JSON.parse(document.getElementById("events").textContent);

  let cursor = Number(chat.dataset.cursor); // id of the last message on the page
  let revision = Number(chat.dataset.revision); // edits and deletions that the page shows
  let acknowledged = cursor;
  let etag = "";
  let names = {};
  let notSent = false; // a message is still in the field because it was not sent
  let polling = null; // AbortController of the request in flight
  let wake = () => {};

  class Closed extends Error {}

  const checked = (reply) => {
    if ([401, 403, 404].includes(reply.status)) throw new Closed();
    if (!reply.ok) throw new Error(reply.statusText);
    return reply;
  };

  const post = async (url, data) => {
    const headers = { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value };
    return checked(await fetch(url, { method: "POST", headers, body: JSON.stringify(data) }));
  };

  const nameOf = (id) => names[id] ?? chat.dataset.former;

  const loadNames = async (messages) => {
    if (messages.every(({ sender, body }) => sender in names && (body?.event !== "added" || body.member in names))) return;
    names = { ...names, ...(await checked(await fetch(chat.dataset.members)).json()) };
    document.getElementById("members").textContent = Object.values(names).join(", ");
  };

  const element = ({ id, sender, body, sent_at }) => {
    const event = Object.hasOwn(events, body?.event) ? events[body.event] : null;
    const row = document.getElementById(event ? "event" : "message").content.firstElementChild.cloneNode(true);
    row.dataset.id = id;
    const said = { "%(sender)s": nameOf(sender), "%(member)s": nameOf(body?.member) };
    row.querySelector(".said").textContent = event
      ? event.replace(/%\(\w+\)s/g, (placeholder) => said[placeholder])
      : (body?.text ?? "");
    const time = row.querySelector("time");
    time.dateTime = sent_at;
    time.textContent = sent_at.slice(0, 16).replace("T", " ");
    if (!event) row.querySelector("b").textContent = nameOf(sender);
    row.classList.toggle("own", sender === chat.dataset.user);
    return row;
  };

  const textOf = (row) => row.querySelector(".said").textContent;

  const show = async ({ messages, is_truncated, last_id, is_cut }) => {
    await loadNames(messages);
    if (is_truncated) log.replaceChildren(); // messages are missing: what was fetched is a new beginning
    log.append(...messages.map(element));
    cursor = is_cut ? messages.at(-1).id : last_id; // a deleted message leaves a gap in the ids
  };

  const request = async (query, options = {}) => {
    const url = `${chat.dataset.messages}?${new URLSearchParams(query)}`;
    return fetch(url, { cache: "no-store", signal: polling.signal, ...options });
  };

  // Fetches again what the page shows, after an edit or a deletion.
  const refresh = async () => {
    const rows = [...log.children];
    let after = rows.length ? Number(rows[0].dataset.id) - 1 : cursor;
    const found = new Map();
    let first = 0; // older messages were not deleted, but removed because all have read them
    let latest = null; // revision of the first reply: a later change is found by the next poll
    for (let data; data === undefined || (after < cursor && data.is_cut); ) {
      data = await (await checked(await request({ after, limit: MAX_LIMIT }))).json();
      if (data.is_truncated) first = data.messages[0]?.id ?? cursor + 1;
      for (const message of data.messages) found.set(message.id, message);
      after = data.messages.at(-1)?.id ?? cursor;
      latest ??= data.revision;
    }
    await loadNames([...found.values()]);
    for (const row of rows) {
      const id = Number(row.dataset.id);
      const current = found.get(id) && element(found.get(id));
      if (!current && id >= first) row.remove();
      else if (current && textOf(current) !== textOf(row)) row.replaceWith(current);
    }
    revision = latest;
  };

  const poll = async (wait) => {
    if (acknowledged < cursor) {
      await post(chat.dataset.ack, { id: cursor });
      acknowledged = cursor;
      document.dispatchEvent(new Event("unread-changed"));
    }
    polling = new AbortController();
    const timer = setTimeout(() => polling.abort(), TIMEOUT_MS);
    try {
      const headers = etag ? { "If-None-Match": etag } : {};
      const reply = await request({ after: cursor, limit: LIMIT, wait, revision }, { headers });
      if (reply.status === 304) return;
      const data = await checked(reply).json();
      await show(data);
      if (data.revision !== revision) await refresh();
      etag = reply.headers.get("ETag");
    } finally {
      clearTimeout(timer);
    }
  };

  const pause = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  // A hidden page marks nothing as read, and occupies no thread of the site.
  const untilVisible = async () => {
    while (document.hidden) await pause(MAX_PAUSE_MS);
  };

  const follow = async () => {
    for (let failures = 0; ; ) {
      await untilVisible();
      try {
        await poll(failures ? 0 : WAIT_S); // the first answer after a failure comes at once, and ends the notice
        failures = 0;
        notSent = false;
        connection.textContent = "";
      } catch (error) {
        if (error instanceof Closed) break;
        if (error === RESTART) continue;
        failures += 1;
        connection.textContent = notSent ? chat.dataset.failed : chat.dataset.lost;
        await pause(Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** failures) * (0.5 + Math.random() / 2));
      }
    }
    connection.textContent = chat.dataset.closed;
  };

  const restart = () => {
    polling?.abort(RESTART);
    wake();
  };

  let sending = { text: "", key: "" };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return;
    if (sending.text !== text) sending = { text, key: crypto.randomUUID() }; // sent again, it is the same message
    const { key } = sending;
    try {
      await post(chat.dataset.messages, { body: { text }, key });
      if (field.value.trim() === text) field.value = "";
      if (sending.key === key) sending = { text: "", key: "" };
      notSent = false;
      connection.textContent = "";
      wake();
    } catch {
      notSent = true;
      connection.textContent = chat.dataset.failed;
    }
  });

  for (const name of ["online", "offline"]) window.addEventListener(name, restart);
  document.addEventListener("visibilitychange", restart);
  follow();
})();
