// The search page: every section of the book in MiniSearch's index (BM25), and the results as a list.
// Runs behind minisearch.js and sections.js, which holds [page, its title, id, heading, prose, code] of each section.
(function () {
  "use strict";
  // What people type for a chapter beside its title.
  const TAUGHT = {
    alibi: "slopes linear bias biases",
    fox: "forget forgetting gates",
    gradients: "gradients backprop backpropagation",
    kernels: "kernels triton flashattention",
    practice: "kv kvcache cache packing packed padding",
    relative: "t5 shaw transformer xl kerple fire buckets relative positions",
    rope: "rotations rotary rotate roformer",
    rope2d: "2d images axial mrope vision",
    scaling: "yarn ntk dynamic longrope interpolation extrapolation long longer context length",
    sinusoidal: "frequency frequencies wavelengths",
    why_position: "permutations equivariant equivariance order nope",
  };
  const LISTS = /^book\/(api|notation|references|(errata|teachers)\/index)\./;
  const COMMON = new Set(("a an and are as at be by can do for from get got has have how i if in is it its my no not of on or so " +
    "than that the then there this to was we what when where which why will with you your").split(" "));

  // A name is also its parts; plurals count as their singular; numbers say nothing.
  const humps = (word) => {
    const parts = word.split(/(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/);
    return parts.every((part) => part.length > 2) ? parts : [word]; // RoPE is one word
  };
  const tokens = (text) => (text.match(/[\p{L}\p{N}_]+/gu) || []).flatMap((word) => {
    const parts = word.split("_").filter(Boolean).flatMap(humps);
    return (parts.length > 1 ? [word, ...parts] : [word]).map((part) => part.toLowerCase());
  });
  const term = (word) => (COMMON.has(word) || /^\d+$/.test(word) ? null : word.replace(/(?<=..[^s])s$/, ""));
  const terms = (text) => tokens(text).map(term).filter(Boolean);

  const index = new MiniSearch({
    idField: "at", fields: ["taught", "title", "heading", "text", "code"],
    storeFields: ["page", "title", "id", "heading", "text", "code", "top", "taught"],
    tokenize: tokens, processTerm: term,
  });
  index.addAll(SECTIONS.map(([page, title, id, heading, text, code], at) => {
    const top = heading === title;
    return { at, page, title, id, heading, text, code, top, taught: top ? TAUGHT[page.split("/")[1]] || "" : "" };
  }));

  // [section, score], the best first: those with the query's words side by side are lifted, lists and labs lowered.
  function find(asked) {
    const wanted = terms(asked), pairs = wanted.slice(1).map((word, n) => wanted[n] + " " + word);
    const found = index.search(asked, {
      boost: { taught: 15, title: 2, heading: 4, code: 0.5 }, prefix: (word) => word.length > 3, fuzzy: (word) => (word.length > 5 ? 0.15 : 0),
      weights: { prefix: 0.3, fuzzy: 0.15 },
      boostDocument: (at, word, section) =>
        (LISTS.test(section.page) ? 0.2 : section.page.startsWith("notebooks") ? 0.6 : 1) * (section.top ? 1.2 : 1),
    });
    return found.slice(0, 100).map((section) => {
      const said = " " + terms([section.heading, section.text, section.code].join(" ")).join(" ") + " ";
      const side = pairs.length ? pairs.filter((pair) => said.includes(` ${pair} `)).length / pairs.length : 0;
      const whole = wanted.filter((word) => said.includes(` ${word} `)).length / (wanted.length || 1);
      const named = section.heading.toLowerCase() === asked.toLowerCase() ? 5 : 1;
      const teaches = wanted.every((word) => terms(section.taught).includes(word)) ? 3 : 1;
      return [section, section.score * (1 + side) * (0.3 + whole) * named * teaches];
    }).sort((a, b) => b[1] - a[1]);
  }

  // Some words around the place where most of the query stands.
  function excerpt(text, asked) {
    const wanted = new Set(terms(asked)), words = text.split(" "), hits = words.map((word) => terms(word).some((t) => wanted.has(t)));
    let best = 0, most = -1;
    for (let n = 0, sum = 0; n < words.length; n++) {
      sum += hits[n] - (n >= 30 ? hits[n - 30] : 0);
      if (sum > most) [most, best] = [sum, Math.max(0, n - 29)];
    }
    const start = Math.max(0, best - 3), part = document.createElement("p");
    part.className = "context";
    if (start) part.append("… ");
    words.slice(start, start + 36).forEach((word, n) => {
      const shown = document.createElement(hits[start + n] ? "mark" : "span");
      shown.textContent = word;
      part.append(shown, " ");
    });
    if (start + 36 < words.length) part.append("…");
    return part;
  }

  function show(asked) {
    const place = document.getElementById("search-results"), summary = document.createElement("p"), list = document.createElement("ul");
    const results = [], of = {};
    for (const [section] of find(asked)) {
      of[section.page] = (of[section.page] || 0) + 1;
      if (of[section.page] <= 3 && results.length < 30) results.push(section);
    }
    summary.className = "search-summary";
    summary.setAttribute("role", "status");
    summary.textContent = results.length ? `Results: ${results.length}. The best come first.` : "Nothing has these words. Try fewer or others.";
    list.className = "search";
    for (const section of results) {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = section.page + (section.top ? "" : "#" + section.id);
      link.textContent = section.top ? section.title : `${section.title} > ${section.heading || section.id}`;
      item.append(link, excerpt(section.text || section.code, asked));
      list.append(item);
    }
    place.replaceChildren(summary, list);
  }

  const asked = (new URLSearchParams(location.search).get("q") || "").trim();
  for (const field of document.querySelectorAll("form.bd-search input")) field.value = asked;
  if (asked) show(asked);
})();
