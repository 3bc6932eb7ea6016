// The order of search results: titles with the words of the query, then components and guides; decisions and single
// objects of the reference come last.
"use strict";

var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    if (query && title.toLowerCase().includes(query)) score += 30;
    if (docname.startsWith("components/")) return score + (anchor ? 10 : 20);
    if (docname.startsWith("guides/") || docname === "tutorial") return score + 5;
    if (docname.startsWith("decisions/") || docname.startsWith("contributing/")) return score - 40;
    return docname === "api" || docname.startsWith("reference/python/") ? score - 30 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
