/* One sentence, every method. First the closed forms, which hold what posenc.chapters.sentence.sentence computes with posenc;
   then the drawing. */
(function () {
  "use strict";

  // ---- closed forms: the weights [T][T] of each method; `data` has the numbers that are set by hand

  const dot = (a, b) => a.reduce((sum, x, lane) => sum + x * b[lane], 0);
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  const range = (n, f) => Array.from({ length: n }, (_, i) => f(i));

  function random(seed, lane) {
    return ((seed * seed * (2 * lane + 3) + seed * (31 * lane + 17) + 7 * lane) % 211) / 105 - 1;
  }

  // What a word asks for, what it shows, and the direction of its letters.
  function content(word, data) {
    const { lanes, common, letters, threshold } = data.strengths, last = lanes - 2, pairs = lanes / 2 - 1;
    const odd = (lane) => lane % 2 === 1 && lane < last;
    let e = new Array(lanes).fill(0);
    for (const letter of word.toLowerCase()) {
      for (let lane = 0; lane < last; lane++) e[lane] += random(letter.codePointAt(0), lane);
    }
    const middle = e.reduce((sum, x, lane) => sum + (odd(lane) ? x : 0), 0) / pairs;
    e = e.map((x, lane) => (odd(lane) ? x - middle : x));
    const length = Math.sqrt(dot(e, e)) || 1;
    e = e.map((x) => x / length);
    const q = e.map((x, lane) => letters * x + (odd(lane) ? common / Math.sqrt(pairs) : 0)), k = [...q];
    q[lanes - 1] = threshold;
    k[lanes - 1] = -threshold;
    return { q, k, e, size: [...word].length };
  }

  const frequency = (pair, lanes) => 10000 ** ((-2 * pair) / lanes);

  function turned(x, place) {
    const out = [];
    for (let pair = 0; pair < x.length / 2; pair++) {
      const angle = place * frequency(pair, x.length), [a, b] = [x[2 * pair], x[2 * pair + 1]];
      out.push(a * Math.cos(angle) - b * Math.sin(angle), a * Math.sin(angle) + b * Math.cos(angle));
    }
    return out;
  }

  function sinusoid(place, lanes) {
    return range(lanes, (lane) => {
      const angle = place * frequency(lane >> 1, lanes);
      return lane % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }

  const add = (x, y) => x.map((value, lane) => value + y[lane]);

  function softmax(scores, sink = -Infinity) {
    const top = Math.max(sink, ...scores), powers = scores.map((z) => Math.exp(z - top));
    const sum = powers.reduce((a, b) => a + b, Math.exp(sink - top));
    return powers.map((x) => x / sum);
  }

  function stick(scores) { // from the first on: what each takes of what those before it left
    let left = 1;
    return scores.map((z) => {
      const piece = left * sigmoid(z);
      left -= piece;
      return piece;
    });
  }

  // What a word's place does to its query and key, for the methods at `embed` and `rotate`.
  const PLACED = {
    sinusoidal: (x, place) => add(x, sinusoid(place, x.length)),
    learned: (x, place) => x.map((value, lane) => value + 0.5 * random(place + 1, lane)),
    rope: turned,
    rse: turned,
    exposb: (x, place) => turned(x, place).map((value, lane) => {
      const d = x.length, band = 0.8 + 0.4 * Math.exp(-((lane - d / 4) ** 2) / (2 * (d / 8) ** 2));
      return value * band * (1 + 0.2 * Math.exp(-0.001 * place));
    }),
  };

  // What is added to the logits of query i: a number a key; d is how far back, z the logits, t the words.
  const ADDED = {
    shaw: ({ data, d }) => data.clipped[Math.max(0, data.clipped.length - 1 - d)],
    transformer_xl: ({ t, i, d }) => (2 * dot(t[i].q, sinusoid(d, t[i].q.length))) / Math.sqrt(t[i].q.length),
    t5: ({ d }) => -0.3 * (d < 4 ? d : Math.min(7, 4 + Math.floor((Math.log(d / 4) / Math.log(4)) * 4 + 1e-9))),
    kerple: ({ d }) => -Math.log1p(Math.exp(-0.7) * d),
    fire: ({ i, d }) => (-2.5 * Math.log1p(0.1 * d)) / (Math.log1p(0.1 * Math.max(i, 8)) + 1e-6),
    alibi: ({ d, slope }) => -slope * d,
    rse: ({ d }) => -0.1 * d,
    cope: ({ z, i, j }) => -0.5 * Math.min(7, z.slice(j, i + 1).reduce((sum, x) => sum + sigmoid(x), 0)),
    fox: ({ t, i, j }) => t.slice(j + 1, i + 1).reduce((sum, { size }) => sum + Math.log(sigmoid(4 - 0.7 * size)), 0),
    inkling: ({ t, i, d }) => {
      const far = Math.min(t[i].size, 8) / 8;
      return d < 8 ? (1 - far) * 3 * Math.exp(-d) + far * (3 - 3 * Math.exp(-d / 3)) : 0;
    },
  };

  const WEIGHED = {
    stickbreaking: (z) => [...stick(z.slice(0, -1).reverse()).reverse(), 0],
    rse: stick,
    sink: (z) => softmax(z, 0),
    exposb: (z) => softmax(z.map((x, j) => x * (0.7 + 0.3 * Math.exp(-0.005 * (z.length - 1 - j))))),
  };

  function through(t, i) { // PaTH: the query's products with the keys, through the words between
    let u = t[i].q;
    const scores = [];
    for (let j = i; j >= 0; j--) {
      scores.unshift(dot(u, t[j].k) / Math.sqrt(u.length));
      const step = 0.5 * dot(u, t[j].e);
      u = u.map((x, lane) => x - step * t[j].e[lane]);
    }
    return scores;
  }

  function weights(data, method, words, slope) {
    const place = PLACED[method] || ((x) => x), added = ADDED[method];
    const plain = words.map((word) => content(word, data));
    const t = plain.map((word, i) => ({ ...word, q: place(word.q, i), k: place(word.k, i) }));
    return t.map((query, i) => {
      const none = new Array(t.length - 1 - i).fill(0);
      if (method === "learned" && i >= data.rows) return new Array(t.length).fill(NaN);
      let z = t.slice(0, i + 1).map((key) => dot(query.q, key.k) / Math.sqrt(query.q.length));
      if (method === "path") z = through(t, i);
      if (added) z = z.map((x, j) => x + added({ data, t, z, i, j, d: i - j, slope }));
      return [...(WEIGHED[method] || softmax)(z), ...none];
    });
  }

  window.posencSentence = { weights };

  // ---- the drawing

  const STYLE = `
.sentence-tools { display: flex; flex-wrap: wrap; gap: 0.3rem; align-items: start; }
.sentence-tools > * { font: inherit; font-size: 0.85rem; color: inherit; background: none;
  border: 1px solid var(--x-line); border-radius: 0.4rem; padding: 0.2rem 0.6rem; min-height: 1.9rem; }
.sentence-tools button { cursor: pointer; }
.sentence-tools [aria-pressed="true"] { border-color: var(--x-accent); font-weight: 600; }
.sentence-tools button:disabled { opacity: 0.5; cursor: default; }
.sentence-field { flex: 1 1 7rem; min-width: 0; }
.sentence-words { display: flex; flex-wrap: wrap; gap: 0.1rem; margin: 0.35rem 0 0; padding: 0.1rem; cursor: pointer;
  touch-action: pan-y; user-select: none; font-size: 1rem; line-height: 1.4; }
.sentence-words span { padding: 0 0.3rem; border: 2px solid transparent; border-radius: 0.4rem; }
.sentence-words [data-filler="true"] { font-style: italic; font-size: 0.85em; }
.sentence-words .sentence-query { border-color: var(--x-accent); font-weight: 600; }
.sentence-words .sentence-key { border-bottom: 2px solid var(--x-orange, #b85c00); border-radius: 0; }
.sentence-words .sentence-later { color: var(--x-muted); text-decoration: line-through; text-decoration-thickness: 1px; }
.sentence-said { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; margin: 0.1rem 0 0.4rem; font-size: 0.85rem; line-height: 1.3rem; }
.sentence-said p { margin: 0; font-variant-numeric: tabular-nums; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.sentence-said .sentence-how { color: var(--x-muted); }
.sentence-grid { display: grid; grid-template-columns: repeat(7, minmax(0, 1fr)); gap: 0.4rem 0.7rem; }
.sentence-card { position: relative; min-width: 0; font-size: 0.8125rem; line-height: 1.25rem; }
.sentence-card header { overflow: hidden; font-weight: 600; letter-spacing: -0.02em; white-space: nowrap; text-overflow: ellipsis; }
.sentence-card b { position: absolute; top: 1.3rem; right: 0; color: var(--x-orange, #b85c00); font-size: 1rem; font-variant-numeric: tabular-nums; pointer-events: none; }
.sentence-card a { position: absolute; top: 2.55rem; right: 0; min-width: 1.5rem; color: var(--x-muted); line-height: 1.5rem; text-align: right; }
.sentence-card small { display: none; overflow: hidden; color: var(--x-muted); font-size: 0.8125rem; letter-spacing: -0.02em; white-space: nowrap; text-overflow: ellipsis; }
.sentence-card svg { display: block; width: 100%; overflow: visible; touch-action: pan-y; cursor: crosshair; }
.sentence-card .sentence-bars { height: 2.1rem; margin-top: 0.15rem; }
.sentence-fan b { top: auto; bottom: 0.2rem; right: auto; left: 0.4rem; }
.sentence-fan svg { box-sizing: border-box; height: calc(100% - 1.25rem); touch-action: none; cursor: grab; border: 1px solid var(--x-line); border-radius: 0.3rem; }
.sentence-ground { fill: currentColor; fill-opacity: 0.07; }
.sentence-bars .sentence-ground { fill-opacity: 0.4; }
.sentence-cell { fill: var(--x-accent); }
.sentence-marked { fill: var(--x-orange, #b85c00); }
.sentence-row, .sentence-column { fill: none; stroke: currentColor; vector-effect: non-scaling-stroke; }
.sentence-column { stroke: var(--x-orange, #b85c00); stroke-width: 2; }
.sentence-ray, .sentence-slope { stroke: var(--x-line); vector-effect: non-scaling-stroke; }
.sentence-slope { stroke: var(--x-accent); stroke-width: 3; }
.sentence-rim, .sentence-dot { stroke: var(--x-accent); stroke-width: 14; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.sentence-dot { stroke: var(--x-ground); stroke-width: 9; }
.sentence-out { grid-column: span 2; align-self: end; margin: 0; color: var(--x-muted); font-size: 0.8125rem; line-height: 1.35; }
@container (min-width: 50rem) {
  .sentence-card b { top: 2.55rem; }
  .sentence-card a { top: 3.8rem; }
  .sentence-card small { display: block; }
  .sentence-card.sentence-fan b { top: auto; }
  .sentence-fan svg { height: calc(100% - 2.5rem); }
}
@container (max-width: 33rem) {
  .sentence-now { position: sticky; top: calc(var(--bar, 3.5rem) - 0.25rem); z-index: 1; padding-bottom: 0.2rem; background: var(--x-ground); }
  .sentence-grid { grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 0.2rem 0.6rem; }
  .sentence-card { display: grid; grid-template: "name link" 1.5rem "map share" 1rem "map bars" 1.6rem / 2.6rem minmax(0, 1fr); gap: 0 0.3rem; }
  .sentence-card header { grid-area: name; width: max-content; line-height: 1.5rem; }
  .sentence-card b { position: static; grid-area: share; font-size: 0.8125rem; line-height: 1rem; }
  .sentence-card a { position: static; grid-area: link; justify-self: end; }
  .sentence-card .sentence-map { grid-area: map; }
  .sentence-card .sentence-bars { grid-area: bars; height: 1.6rem; margin: 0; }
  .sentence-fan { display: block; order: 1; grid-column: 1 / -1; }
  .sentence-card.sentence-fan b { position: absolute; top: 0; bottom: auto; right: 0; left: auto; line-height: 1.5rem; }
  .sentence-fan svg { height: 3.2rem; }
  .sentence-out { order: 2; grid-column: 1 / -1; }
  .sentence-out span { display: none; }
  .sentence-tools > * { flex: 1 1 auto; padding: 0.1rem 0.3rem; }
  .sentence-tools > .sentence-field { flex-basis: 100%; font-size: 1rem; }
  .sentence-words { margin-top: 0.2rem; font-size: 0.85rem; }
  .sentence-words [data-filler="true"] { font-size: inherit; }
  .sentence-said { margin: 0; font-size: 0.8125rem; }
}
@media (forced-colors: active) {
  .sentence-cell, .sentence-marked { fill: CanvasText; }
  .sentence-marked { fill: Highlight; }
  .sentence-column { stroke: Highlight; }
  .sentence-words span { border-color: Canvas; }
  .sentence-words .sentence-query { border-color: CanvasText; }
  .sentence-words .sentence-key { border-color: Canvas Canvas Highlight; }
}`;
  const MOST = 24, LEVELS = 12, SHADE = (weight) => (1.5 * weight) ** 0.7; // so that small weights are seen
  const RANGE = { m: [1 / 256, 1], d: 9, depth: 4 }; // of the fan: slopes, words back, logits down

  function Sentence(place, data, make) {
    const self = { own: [], words: [], query: 0, key: 0, slope: data.slope, added: 0, at: 0 };
    const cards = new Map();

    // the sentence
    place.innerHTML = `<style>${STYLE}</style><div class="sentence-tools"><input type="text" class="sentence-field" maxlength="160" spellcheck="false"
        autocomplete="off" aria-label="The sentence: type your own"><button type="button">ten filler words more</button><button type="button">ten fewer</button></div>
      <div class="sentence-now"><div class="sentence-words" role="slider" tabindex="0" aria-label="The word that looks" aria-valuemin="1"></div>
      <div class="sentence-said"><p class="sentence-readout" aria-live="polite"></p><p class="sentence-how">Press a word: it looks. Press a bar: it is looked at.</p></div></div>
      <div class="sentence-grid"></div>`;
    const [field, strip, readout, grid] = ["field", "words", "readout", "grid"].map((part) => place.querySelector(`.sentence-${part}`));
    const [more, fewer] = place.querySelectorAll("button");
    const presets = data.presets.map((text) => {
      const button = make("button", "", { type: "button", "aria-label": text });
      button.textContent = `${text.split(" ").slice(0, 2).join(" ")} …`;
      button.addEventListener("click", () => {
        field.value = text;
        read();
      });
      more.before(button);
      return button;
    });

    function read() {
      self.own = field.value.split(/\s+/).filter(Boolean).slice(0, MOST);
      self.added = 0;
      presets.forEach((button, i) => button.setAttribute("aria-pressed", field.value === data.presets[i]));
      if (self.own.length) fill(self.own.length - 1);
    }

    // Filler stands before the word that looks: so that word goes on looking, from farther away.
    function fill(query) {
      const filler = data.filler.split(" "), own = self.own;
      self.at = Math.min(self.at, own.length - 1);
      const between = Array.from({ length: 10 * self.added }, (_, i) => filler[i % 10]);
      if (!self.added) self.at = query;
      self.words = [...own.slice(0, self.at), ...between, ...own.slice(self.at)];
      self.query = self.added ? self.at + between.length : query;
      self.key = Math.max(0, Math.min(self.key, self.query));
      more.disabled = self.added > 1;
      fewer.disabled = !self.added;
      strip.replaceChildren(...self.words.map((word, i) => {
        const span = make("span", "", { "data-filler": i >= self.at && i < self.at + between.length });
        span.textContent = word;
        return span;
      }));
      strip.setAttribute("aria-valuemax", self.words.length);
      if (self.query) self.key = strongest();
      compute();
    }

    more.addEventListener("click", () => {
      if (!self.added) self.at = self.query;
      self.added++;
      fill(self.query);
    });
    fewer.addEventListener("click", () => {
      self.added--;
      fill(self.at);
    });
    field.addEventListener("input", read);

    // The word before it that is most like the one that looks.
    function strongest() {
      const row = rows("nope")[self.query].slice(0, self.query);
      return row.indexOf(Math.max(...row));
    }

    function rows(method) {
      const kept = data.weights[self.words.join(" ")];
      if (kept && (method !== "alibi" || self.slope === data.slope)) {
        return kept[method].map((row) => [...row, ...new Array(kept[method].length - row.length).fill(0)]);
      }
      return weights(data, method, self.words, self.slope);
    }

    // the cards
    const levels = range(LEVELS, (level) => `<path class="sentence-cell" fill-opacity="${(level + 1) / LEVELS}"/>`).join("");
    for (const { name, title, full, note, page } of data.methods) {
      const card = make("div", "sentence-card", { title: `${full}: ${note}` });
      card.innerHTML = `<header></header><small></small>
        <svg viewBox="0 0 100 100" class="sentence-map" aria-hidden="true"><path class="sentence-ground" d="M0 0V100H100Z"/>${levels}<rect
          class="sentence-column"/><rect class="sentence-row"/></svg><b></b><a href="${page}">read</a>
        <svg viewBox="0 0 100 32" preserveAspectRatio="none" class="sentence-bars" aria-hidden="true"><path class="sentence-ground" d="M0 32V31.3H100V32Z"/><path
          class="sentence-cell"/><path class="sentence-marked"/></svg>`;
      const part = (selector) => card.querySelector(selector), [map, bars] = card.querySelectorAll("svg");
      part("header").textContent = title;
      part("small").textContent = note;
      part("a").setAttribute("aria-label", `read the chapter: ${full}`);
      cards.set(name, {
        name, title, rows: [], share: part("b"), levels: [...map.querySelectorAll(".sentence-cell")], row: part(".sentence-row"),
        column: part(".sentence-column"), plain: bars.querySelector(".sentence-cell"), marked: part(".sentence-marked"),
      });
      grid.append(card);
      if (name === "alibi") grid.append(fan());
      for (const picture of [map, bars]) follow(picture, picture === map);
    }
    const out = make("p", "sentence-out", {});
    out.innerHTML = "<span>A row for each word that looks, darker where it looks more. The framed row stands below as bars: drag it. </span>";
    out.append(data.left_out);
    grid.append(out);

    // Pressing or dragging takes the row as the word that looks; what the pointer is over is the word looked at.
    function follow(picture, picks) {
      const point = (event) => {
        const box = picture.getBoundingClientRect(), n = self.words.length;
        const at = (share) => Math.max(0, Math.min(n - 1, Math.floor(share * n)));
        const pressed = picks && (event.type === "pointerdown" || event.buttons & 1);
        const query = pressed ? at((event.clientY - box.top) / box.height) : self.query;
        move(query, at((event.clientX - box.left) / box.width));
      };
      picture.addEventListener("pointerdown", (event) => {
        picture.setPointerCapture(event.pointerId);
        point(event);
      });
      picture.addEventListener("pointermove", point);
    }

    strip.addEventListener("pointerdown", pick);
    strip.addEventListener("pointermove", (event) => event.buttons & 1 && pick(event));
    function pick(event) {
      const under = document.elementFromPoint(event.clientX, event.clientY), i = [...strip.children].indexOf(under);
      if (i < 0) return;
      if (event.type === "pointerdown") strip.setPointerCapture(event.pointerId);
      move(i, Math.min(self.key, i));
    }
    strip.addEventListener("keydown", (event) => {
      const { query, key } = self, last = self.words.length - 1;
      const to = {
        ArrowRight: [query + 1, key], ArrowLeft: [query - 1, key], Home: [0, 0], End: [last, key],
        ArrowUp: [query, key + 1], ArrowDown: [query, key - 1],
      }[event.key];
      if (!to) return;
      event.preventDefault();
      move(Math.max(0, Math.min(last, to[0])), to[1]);
    });

    function move(query, key) {
      key = Math.max(0, Math.min(query, key));
      if (query === self.query && key === self.key) return;
      Object.assign(self, { query, key });
      mark();
    }

    function compute(only) {
      for (const card of only ? [cards.get(only)] : cards.values()) {
        card.rows = rows(card.name);
        const size = 100 / self.words.length, paths = card.levels.map(() => "");
        card.rows.forEach((row, i) => row.slice(0, i + 1).forEach((weight, j) => {
          const level = Math.ceil(SHADE(weight) * LEVELS - 0.5) - 1;
          if (level >= 0) paths[Math.min(level, LEVELS - 1)] += `M${(j * size).toFixed(2)} ${(i * size).toFixed(2)}h${size.toFixed(2)}v${size.toFixed(2)}h-${size.toFixed(2)}z`;
        }));
        card.levels.forEach((path, level) => path.setAttribute("d", paths[level]));
      }
      mark();
    }

    const percent = (weight) => (Number.isNaN(weight) ? "no row" : weight > 0 && weight < 0.005 ? "<1%" : `${(100 * weight).toFixed(0)}%`);

    function mark() {
      const { query, key, words } = self, size = 100 / words.length;
      const bar = (weight, j) => `M${(j + 0.12) * size} 32v${-31 * Math.max(weight, 0.004)}h${0.76 * size}V32z`;
      for (const card of cards.values()) {
        const row = card.rows[query], known = !Number.isNaN(row[key]);
        card.share.textContent = percent(row[key]);
        card.plain.setAttribute("d", known ? row.slice(0, query + 1).map((weight, j) => (j === key ? "" : bar(weight, j))).join("") : "");
        card.marked.setAttribute("d", known ? bar(row[key], key) : "");
        for (const [name, value] of Object.entries({ x: 0, y: query * size, width: (query + 1) * size, height: size })) card.row.setAttribute(name, value);
        for (const [name, value] of Object.entries({ x: key * size, y: query * size, width: size, height: size })) card.column.setAttribute(name, value);
      }
      const named = [...cards.values()].filter((card) => !Number.isNaN(card.rows[query][key])).sort((a, b) => a.rows[query][key] - b.rows[query][key]);
      const say = (card) => `${percent(card.rows[query][key])} ${card.title}`;
      readout.textContent = `“${words[query]}” at “${words[key]}”: ${say(named[0])} … ${say(named[named.length - 1])}`;
      [...strip.children].forEach((span, i) => {
        span.className = i === query ? "sentence-query" : i > query ? "sentence-later" : i === key ? "sentence-key" : "";
      });
      strip.setAttribute("aria-valuenow", query + 1);
      strip.setAttribute("aria-valuetext", `${words[query]}, word ${query + 1}, at ${words[key]}`);
    }

    // ALiBi's fan: what each slope takes from the logit, by distance; the line in use can be dragged.
    function fan() {
      const at = (m) => (m * RANGE.d > RANGE.depth ? [RANGE.depth / m / RANGE.d, 1] : [1, (m * RANGE.d) / RANGE.depth]);
      const to = (m) => at(m).map((share, axis) => share * (axis ? 88 : 90) + 5);
      const box = make("div", "sentence-card sentence-fan", {}), rays = data.slopes.map((m) => `<path class="sentence-ray" d="M5 5L${to(m)}"/>`);
      box.innerHTML = `<header>ALiBi slope</header><small>drag the line</small><svg viewBox="0 0 100 100" preserveAspectRatio="none" role="slider"
        tabindex="0" aria-label="ALiBi’s slope" aria-valuemin="${RANGE.m[0]}" aria-valuemax="${RANGE.m[1]}">${rays.join("")}<path
        class="sentence-slope"/><path class="sentence-rim"/><path class="sentence-dot"/></svg><b></b>`;
      const drawn = box.querySelector("svg"), [line, rim, dot] = drawn.querySelectorAll("path:not(.sentence-ray)"), value = box.querySelector("b");
      const set = (m) => {
        self.slope = Math.max(RANGE.m[0], Math.min(RANGE.m[1], m));
        line.setAttribute("d", `M5 5L${to(self.slope)}`);
        for (const round of [rim, dot]) round.setAttribute("d", `M${to(self.slope)}h0`);
        value.textContent = String(+self.slope.toPrecision(2));
        drawn.setAttribute("aria-valuenow", self.slope.toPrecision(2));
        if (cards.get("alibi").rows.length) compute("alibi");
      };
      const drag = (event) => {
        const box = drawn.getBoundingClientRect();
        const x = (event.clientX - box.left) / box.width - 0.05, y = (event.clientY - box.top) / box.height - 0.05;
        set(((Math.max(y, 0.001) / 0.88) * RANGE.depth) / ((Math.max(x, 0.02) / 0.9) * RANGE.d));
      };
      drawn.addEventListener("pointerdown", (event) => {
        drawn.setPointerCapture(event.pointerId);
        drag(event);
      });
      drawn.addEventListener("pointermove", (event) => event.buttons & 1 && drag(event));
      drawn.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 0.25, ArrowUp: 0.25, ArrowLeft: -0.25, ArrowDown: -0.25 }[event.key];
        if (!step) return;
        event.preventDefault();
        set(self.slope * 2 ** step);
      });
      set(data.slope);
      return box;
    }

    field.value = data.presets[0];
    read();
  }

  window.posencLive("sentence", Sentence);
})();
