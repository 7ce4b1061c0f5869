// Weights of search results. They are the usual ones, but short names come first: dd.fit before Whitening.fit.
var Scorer = {
  score: ([docname, title, anchor, description, score, filename, kind]) =>
    kind === "object" ? score - title.split(".").length / 10 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
