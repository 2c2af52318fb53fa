// The search page: what Sphinx's searchtools.js shows beside a result, what it puts first, and what it says of none.
// Runs between searchtools.js and the index, which starts the search.
(function () {
  "use strict";
  const LENGTH = 240;
  const REMOVED = ".headerlink, script, style, .gp, .linenos, .prompt, .lab-links, annotation, details, .cell_input";
  const HEADING = "h1, h2, h3, h4, h5, h6";

  // First the chapter that teaches a word, where no title says so; then titles and headings with all of the query's words.
  // Where scores are equal: chapters before labs; lists last. Sphinx's own scores are whole numbers.
  const TAUGHT = {
    alibi: /slopes?|linear bias(es)?/,
    fox: /forget(ting)?( gates?)?/,
    gradients: /gradients?|backprop(agation)?/,
    kernels: /kernels?|triton|flash ?attention/,
    practice: /kv ?cache|cache|packing|packed|padding|position[_ ]ids?/,
    relative: /t5|shaw|transformer-?xl|kerple|fire|buckets?|relative( positions?)?/,
    rope: /rotations?|rotary|rotate|roformer/,
    rope2d: /2d|images?|axial|m-?rope|vision/,
    scaling: /yarn|ntk|longrope|interpolation|extrapolation|long(er)? context|context length/,
    sinusoidal: /frequenc(y|ies)|wavelengths?/,
    symptoms: /rope_scaling|rope_deltas|(original_)?max_position_embeddings|cache_position/,
    why_position: /permutations?|equivarian(t|ce)|order|nope/,
  };
  const LISTS = /^book\/(api|errata|notation|references|teachers)$/;
  let asked, words, headings; // the query; its words; {page: how many of its headings have all words}
  const hit = (text) => words.every((word) => new RegExp("(?<![\\p{L}\\p{N}])" + word, "iu").test(text));
  const parseQuery = Search._parseQuery;
  Search._parseQuery = (query) => {
    asked = query.toLowerCase().trim();
    words = asked.split(/[^\p{L}\p{N}]+/u).filter(Boolean).map((word) => word.replace(/(?<=...)s$/, ""));
    headings = undefined;
    return parseQuery(query);
  };
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
      + (hit(title) ? 100 : 0) + (headings[page] ? 30 + headings[page] : 0);
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

  // Where most of the words stand close together. The keywords are stems: "frequenci" for frequency. A hit begins a word;
  // inside of one is the second choice.
  function firstHit(text, keywords) {
    const stems = [...keywords].map((word) => word.replace(/(?<=...)i$/, "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    for (const before of ["(?<![\\p{L}\\p{N}_])", ""]) {
      const hits = stems.flatMap((stem) => [...text.matchAll(new RegExp(before + stem, "giu"))].map(({ index }) => [index, stem]));
      hits.sort((a, b) => a[0] - b[0]);
      let best = 0, most = 0;
      for (let i = 0; i < hits.length && most < stems.length; i++) {
        const near = new Set();
        for (let j = i; j < hits.length && hits[j][0] < hits[i][0] + LENGTH / 2; j++) near.add(hits[j][1]);
        if (near.size > most) [best, most] = [hits[i][0], near.size];
      }
      if (most) return best;
    }
    return 0;
  }

  Search.makeSearchSummary = (source, keywords, anchor) => {
    const text = Search.htmlToText(source, anchor);
    if (!text) return null;
    let start = Math.max(firstHit(text, keywords) - LENGTH / 3, 0);
    if (start > 0) start = text.indexOf(" ", start) + 1;
    let end = Math.min(start + LENGTH, text.length);
    if (end < text.length) end = Math.max(text.lastIndexOf(" ", end), start + 1);
    const summary = document.createElement("p");
    summary.className = "context";
    summary.textContent = (start > 0 ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
    return summary;
  };

  Object.assign(Documentation.TRANSLATIONS, {
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
      "No page has all of these words. Try fewer or others; numbers and very common words, such as “the”, are not searched.",
    "Search finished, found ${resultCount} page(s) matching the search query.": "Results: ${resultCount}. The best come first.",
  });
})();
