// The search page: which text Sphinx's searchtools.js shows of a result, what it puts first, and what it says of none.
// Runs between searchtools.js and the index, which starts the search.
(function () {
  "use strict";
  const REMOVED = ".headerlink, script, style, .gp, .linenos, .prompt, .lab-links, annotation, details, .cell_input";
  const HEADING = "h1, h2, h3, h4, h5, h6";
  const FOUND = "Search finished, found ${resultCount} page(s) matching the search query.";

  // First the chapter that teaches a word, where no title says so; then titles and headings with all of the query's words.
  // Where scores are equal: chapters before labs; lists last. Sphinx's own scores are whole numbers.
  const TAUGHT = {
    alibi: /slopes?|linear bias(es)?/,
    fox: /forget(ting)?( gates?)?/,
    gradients: /gradients?|backprop(agation)?/,
    kernels: /kernels?|triton|flash ?attention/,
    practice: /kv ?cache|cache|packing|packed|padding/,
    relative: /t5|shaw|transformer-?xl|kerple|fire|buckets?|relative( positions?)?/,
    rope: /rotations?|rotary|rotate|roformer/,
    rope2d: /2d|images?|axial|m-?rope|vision/,
    scaling: /yarn|ntk|longrope|interpolation|extrapolation|long(er)? context|context length/,
    sinusoidal: /frequenc(y|ies)|wavelengths?/,
    why_position: /permutations?|equivarian(t|ce)|order|nope/,
  };
  const LISTS = /^book\/(api|notation|references|(errata|teachers)\/index)$/;
  const asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase().trim();
  const words = asked.split(/[^\p{L}\p{N}]+/u).filter(Boolean).map((word) => word.replace(/(?<=...)s$/, ""));
  const has = (text, word) => new RegExp(`(?<![\\p{L}\\p{N}])${word}` + (word[2] ? "" : "s?(?![\\p{L}\\p{N}])"), "iu").test(text);
  const hit = (text) => words.every((word) => has(text, word));
  let headings; // {page: how many of its headings have all words}
  Scorer.score = ([page, title, , description, score]) => {
    if (!headings) {
      headings = {};
      for (const [heading, places] of Object.entries(Search._index.alltitles)) {
        if (!hit(heading)) continue;
        for (const [file] of places) {
          const page = Search._index.docnames[file];
          headings[page] = (headings[page] || 0) + 1;
        }
      }
    }
    if (LISTS.test(page)) return score - (description ? 0 : 30); // names of the package have a description
    const [folder, name] = page.split("/");
    const taught = name in TAUGHT && new RegExp(`^(${TAUGHT[name].source})$`).test(asked);
    return score + (folder === "book" ? 0.5 : 0.25) + (taught ? (folder === "book" ? 300 : 50) : 0)
      + (hit(title) ? 100 : words.some((word) => word === title.toLowerCase()) ? 40 : 0)
      + (headings[page] ? 30 + headings[page] : 0);
  };

  // A hit leads to the heading with most of the words. Where fewer than three pages have all of them: those with most,
  // too, where a rare word counts for more, and a heading with most of them counts as much as half of all words.
  const named = () => {
    const best = {}; // {page: [share of the words, heading, its id]}: of those with as many, the shortest
    for (const [heading, places] of Object.entries(Search._index.alltitles)) {
      const share = words.filter((word) => has(heading, word)).length / words.length - heading.length / 1e5;
      if (share < 0.6) continue;
      for (const [file, id] of places) {
        const page = Search._index.docnames[file];
        if (id !== null && share > (best[page] || [0])[0]) best[page] = [share, heading, "#" + id];
      }
    }
    return best;
  };
  const strict = Search.performTermsSearch;
  const most = (terms, excluded, best) => {
    const sums = new Map();
    let total = 0;
    for (const term of terms) {
      const hits = strict(new Set([term]), excluded);
      const worth = Math.log((Search._index.docnames.length + 1) / (hits.length || 1));
      total += hits.length ? worth : 0;
      for (const hit of hits) sums.set(hit[0], [hit, (sums.has(hit[0]) ? sums.get(hit[0])[1] : 0) + worth]);
    }
    const worth = ([hit, sum]) => sum + (hit[0] in best ? (best[hit[0]][0] * total) / 2 : 0);
    const ranked = [...sums.values()].filter((one) => worth(one) >= total / 2).sort((a, b) => worth(b) - worth(a)).slice(0, 10);
    return ranked.map(([hit, sum]) => [...hit.slice(0, 4), Math.round((30 * worth([hit, sum])) / total), hit[5]]);
  };
  Search.performTermsSearch = (terms, excluded) => {
    const best = named();
    let found = strict(terms, excluded);
    if (found.length < 3 && terms.size > 1) {
      const more = most(terms, excluded, best).filter(([page]) => !found.some((hit) => hit[0] === page));
      if (!found.length && more.length) {
        Documentation.TRANSLATIONS[FOUND] = "No page has all of these words. Results with most of them: ${resultCount}. The best come first.";
      }
      found = [...found, ...more];
    }
    return found.map(([page, title, anchor, ...rest]) =>
      page in best && best[page][1] !== title ? [page, `${title} > ${best[page][1]}`, best[page][2], ...rest] : [page, title, anchor, ...rest]);
  };

  // A page's prose, or that of the place an anchor names; its title stands in the link already.
  Search.htmlToText = (source, anchor) => {
    const page = new DOMParser().parseFromString(source, "text/html");
    const article = page.querySelector("article.bd-article");
    if (!article) return "";
    const named = anchor && page.getElementById(decodeURIComponent(anchor.slice(1)));
    const place = named && article.contains(named) ? named : article;
    if (place.tagName === "DT") return place.nextElementSibling.textContent.replace(/\s+/g, " ").trim();
    for (const part of place.querySelectorAll(REMOVED)) part.remove();
    const heading = place.querySelector(HEADING);
    if (heading) heading.remove();
    return place.textContent.replace(/\s+/g, " ").trim();
  };

  Object.assign(Documentation.TRANSLATIONS, {
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
      "No page has all of these words. Try fewer or others; numbers and very common words, such as “the”, are not searched.",
    [FOUND]: "Results: ${resultCount}. The best come first.",
  });
})();
