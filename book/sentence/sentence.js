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
.sentence-tools, .sentence-presets, .sentence-filler, .sentence-slot, .sentence-foot { display: flex; gap: 0.3rem; align-items: center; }
.live-place :where(.sentence-field, .sentence-link, .sentence-copy, .sentence-presets button, .sentence-filler button, .sentence-all, .sentence-card) { box-sizing: border-box; min-height: 1.9rem; margin: 0;
  padding: 0.1rem 0.6rem; border: 1px solid var(--x-line); white-space: nowrap; border-radius: 0.4rem; color: inherit; background: var(--x-ground); font: inherit; font-size: 0.85rem; }
figure.live .live-place p:not(.explorable-spoken), .live-place label, .live-place span { max-width: none; overflow: hidden; margin: 0; font-size: inherit; line-height: inherit; text-overflow: ellipsis; white-space: nowrap; }
.live-place :is(button, input, a):focus-visible { outline: 2px solid var(--x-accent); outline-offset: 1px; box-shadow: none; }
.sentence-presets [aria-pressed="true"] { border-color: var(--x-accent); box-shadow: inset 0 -2px var(--x-accent); }
.sentence-filler :disabled { opacity: 0.5; }
.sentence-tools { flex-wrap: wrap; }
.sentence-tools .sentence-field { flex: 1 1 24rem; min-width: 0; }
.sentence-copy { flex: none; min-width: 5.6rem; }
.sentence-a { --hue: var(--x-accent); }
.sentence-b { --hue: var(--x-green, #00795c); }
.sentence-stage { position: relative; height: 26rem; }
.sentence-stage svg { width: 100%; height: 100%; fill: none; }
.sentence-stage text { fill: currentColor; stroke: none; font-size: 0.875rem; font-variant-numeric: tabular-nums; text-anchor: middle; }
.sentence-stage .sentence-key { font-size: 1.0625rem; font-weight: 700; }
.sentence-stage path { stroke: color-mix(in srgb, var(--hue) 42%, var(--x-ground)); }
.sentence-stage .sentence-on { stroke: var(--hue); }
.sentence-slot { position: absolute; z-index: 1; top: 0; left: 0; right: 0; gap: 0.6rem; align-items: start; height: 1.5rem; font-size: 0.9rem; line-height: 1.5rem; white-space: nowrap; }
.sentence-slot.sentence-b { top: auto; bottom: 0; align-items: end; }
.sentence-slot input { margin: 0 0.4rem 0 0; accent-color: var(--hue); vertical-align: -0.1em; }
.sentence-slot b { color: var(--hue); }
.sentence-slot a { margin-left: auto; font-size: 0.8125rem; }
.sentence-words button { position: absolute; padding: 0; border: 0; color: inherit; background: none; font: inherit; touch-action: pan-y; user-select: none; }
.sentence-words button:hover { background: color-mix(in srgb, currentColor 6%, transparent); }
.live-place .sentence-words span { display: inline-block; box-sizing: border-box; max-width: 8rem; padding: 0 0.3rem; border: 2px solid transparent; border-radius: 0.4rem; line-height: 1.5; vertical-align: middle; }
.sentence-words .sentence-filled { font-style: italic; }
.sentence-words [aria-pressed="true"] span { border-radius: 0; box-shadow: inset 0 -4px var(--x-orange, #b85c00); }
.sentence-words [aria-current="true"] span { border-color: currentColor; border-radius: 0.4rem; font-weight: 700; }
.live-place .sentence-turned span { max-height: 5.6rem; padding: 0.2rem 0; line-height: 1.1; writing-mode: vertical-rl; transform: rotate(180deg); }
.sentence-turned [aria-pressed="true"] span { box-shadow: inset 3px 0 var(--x-orange, #b85c00); }
.sentence-tight button:not([aria-current="true"], [aria-pressed="true"]) span { color: transparent; background: linear-gradient(var(--x-line) 0 0) center / 2px 60% no-repeat; }
.sentence-said { position: relative; height: 1.4rem; margin: 0.2rem 0; font-size: 0.9rem; line-height: 1.4rem; text-align: center; }
.sentence-link { width: 70%; min-height: 0; padding: 0 0.3rem; line-height: 1.1rem; }
.live-place :is(.sentence-said :last-child, .sentence-filled, .sentence-later, .sentence-foot p) { color: var(--x-muted); }
.sentence-foot { font-size: 0.8125rem; line-height: 1.3rem; }
.live-place .sentence-head { font-size: 0.9rem; font-weight: 600; }
.live-place .sentence-grid [hidden], .sentence-foot[hidden] { display: none; }
.sentence-grid { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 0.3rem; margin: 0.3rem 0 0.6rem; }
.sentence-card { display: grid; grid-template: 1.2rem 1rem / minmax(0, 1fr) 2.9rem; align-content: center; min-height: 2.75rem; padding: 0 0.35rem; font-size: 0.8125rem; line-height: 1.2rem; text-align: left; }
.sentence-card :is(b, small) { justify-self: end; padding-left: 0.2rem; background: var(--x-ground); font-size: 0.8125rem; line-height: 1rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.sentence-card span { grid-area: 1 / 1 / 2 / 3; }
.sentence-card b { grid-area: 1 / 2; }
.sentence-card i { align-self: center; width: calc((100% - 8px) * var(--share)); height: 0.4rem; background: var(--hue, var(--x-muted)); forced-color-adjust: none; }
.sentence-card[aria-pressed="true"] { border-color: var(--hue); box-shadow: inset 0 0 0 1px var(--hue); }
.sentence-foot { flex-wrap: wrap; gap: 0 1.2rem; margin-bottom: 0.5rem; }
.sentence-foot label { flex: 0 0 18rem; }
.sentence-foot input { width: 9rem; margin: 0; accent-color: var(--x-accent); vertical-align: middle; }
figure.live .live-place .sentence-foot p { flex: 1 1 16rem; white-space: normal; }
@container (max-width: 33rem) {
  .sentence-tools .sentence-field { flex: 1 0 60%; font-size: 1rem; }
  .sentence-tools :is(.sentence-presets, .sentence-filler, .sentence-copy, button) { flex: auto; }
  .live-place .sentence-tools button { padding: 0.1rem 0.2rem; font-size: 0.8125rem; line-height: 1.1; }
  .sentence-stage { height: 20.5rem; }
  .live-place .sentence-words:not(.sentence-turned) span { padding: 0; }
  .live-place .sentence-words:not(.sentence-turned) [aria-current="true"] span { margin: 0 -3px; padding: 0 3px; }
  .sentence-grid { grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 0.25rem; }
  .live-place .sentence-card { grid-template-columns: minmax(0, 1fr) auto; padding: 0 0.25rem; }
  .sentence-card b { font-size: 0.75rem; }
  .sentence-stage text { font-size: 0.75rem; }
  .sentence-stage .sentence-key { font-size: 0.9375rem; }
  .sentence-foot label { flex: 1 0 100%; }
  .sentence-foot input { width: 55%; }
}
@media (max-width: 30rem) { figure:has(> [data-live="sentence"]) { padding: 0.4rem 0.5rem 0.5rem; } }
@media (pointer: coarse) {
  :is(.sentence-field, .sentence-copy, .sentence-presets button, .sentence-filler button, .sentence-all, .sentence-foot input) { min-height: 2.75rem; }
  .sentence-slot, .sentence-slot :is(label, a) { height: 2.75rem; box-sizing: border-box; }
  .sentence-slot.sentence-b :is(label, a) { padding-top: 1.25rem; }
}
@media (forced-colors: active) {
  .sentence-words button:not([aria-current="true"]) span { border-color: Canvas; }
  .sentence-words button[aria-pressed="true"] span { border-bottom-color: Highlight; border-left-color: Highlight; }
}
@media (prefers-reduced-motion: no-preference) { .sentence-card i { transition: width 0.4s; } }`;
  const MOST = 24, SIDES = { a: "above", b: "below" };
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
  const clip = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);
  const percent = (share) => (Number.isNaN(share) ? "no row" : share > 0 && share < 0.005 ? "<1%" : `${(100 * share).toFixed(0)}%`);
  const SLOT = (side) => `<div class="sentence-slot sentence-${side}"><label><input type="radio" name="sentence-side" value="${side}">${SIDES[side]}: <b></b></label><a target="_top">chapter</a></div>`;
  const SITE = new URL("../../../", document.currentScript.src); // from _static/explore/live

  // In the address: s the sentence, f times ten filler words before its word i, q the word that asks, k the one looked
  // at, a and b the methods above and below, m the logarithm of ALiBi's slope.
  function Sentence(place, data, make) {
    const self = { ...data.start, side: "a", rows: {} }, cards = new Map(data.methods.map((method) => [method.name, { ...method, card: make("button", "", { type: "button" }) }]));
    const entry = window.posencExplorables?.get("sentence") || {}; // the player reads and writes the address
    place.innerHTML = `<style>${STYLE}</style><div class="sentence-stage"><svg aria-hidden="true"></svg>${SLOT("a")}<div class="sentence-words" role="group"
        aria-label="The words. Arrow keys left and right: which one asks; up and down: which one it looks at"></div>${SLOT("b")}</div>
      <div class="sentence-said" role="status"><p class="explorable-spoken"></p><p></p></div>
      <p class="sentence-head"></p><div class="sentence-grid"></div>
      <div class="sentence-foot"><label>ALiBi’s slope <input type="range" min="-8" max="0" step="0.25"> <span></span></label><p></p></div>
      <div class="sentence-tools"><div class="sentence-presets"></div><div class="sentence-filler"><button type="button">ten filler words more</button><button type="button">ten fewer</button></div><button type="button" class="sentence-all"></button>
        <input type="text" class="sentence-field" spellcheck="false" autocomplete="off" aria-label="The sentence: type your own"><button type="button" class="sentence-copy"></button></div>`;
    const parts = ["field", "stage", "stage svg", "words", "grid", "copy", "foot input", "foot p", "foot", "all", "head", "presets"].map((part) => place.querySelector(`.sentence-${part}`));
    const [field, stage, drawing, strip, grid, copy, slope, out, foot, all, head, choices] = parts;
    const [more, fewer] = place.querySelectorAll(".sentence-filler button"), [readout, note] = place.querySelectorAll(".sentence-said p");
    const tell = (words) => { note.textContent = words || "Press a word: it is looked at. Again: it asks."; };
    out.textContent = data.left_out;
    const presets = data.presets.map((text) => {
      const button = make("button", "", { type: "button", "aria-label": text });
      button.textContent = `${text.split(" ").slice(0, 2).join(" ")} …`;
      button.addEventListener("click", () => type(text));
      choices.append(button);
      return button;
    });

    // the sentence
    function type(text) {
      const all = text.split(/\s+/).filter(Boolean), used = Math.min(all.length, MOST);
      if (field.value !== text) field.value = text;
      if (!used) return tell("Nothing is typed: the last sentence stays.");
      Object.assign(self, { own: all.slice(0, MOST), f: 0, at: 0, query: used - 1, wish: -1 });
      lay();
      tell(all.length > MOST ? `Only the first ${MOST} of ${all.length} words are used.` : used === 1 && "One word has none before it: type a second.");
    }

    // Filler stands before the word that asked: so that word goes on asking, and looking at the same, from farther away.
    function fill(step) {
      const [asks, wish] = [self.query, looked()].map((i) => self.words[i].id), where = (id) => self.words.findIndex((word) => word.id === id);
      if (!self.f) self.at = self.query;
      self.f += step;
      lay(() => Object.assign(self, { query: where(asks) < 0 ? self.at + 10 * self.f : where(asks), wish: where(wish) }));
      tell();
    }

    function lay(then) {
      const filler = data.filler.split(" "), own = self.own.map((text, id) => ({ text, id }));
      self.words = [...own.slice(0, self.at), ...range(10 * self.f, (i) => ({ text: filler[i % filler.length], id: -1 - i })), ...own.slice(self.at)];
      if (then) then();
      strip.replaceChildren(...self.words.map(({ text, id }) => {
        const button = make("button", id < 0 ? "sentence-filled" : "", { type: "button" });
        button.appendChild(make("span", "", {})).textContent = text;
        return button;
      }));
      [more.disabled, fewer.disabled] = [self.f > 1, !self.f];
      presets.forEach((button, i) => button.setAttribute("aria-pressed", self.own.join(" ") === data.presets[i]));
      compute([...cards.keys()]);
    }

    function compute(methods) {
      for (const name of methods) self.rows[name] = weights(data, name, self.words.map(({ text }) => text), 2 ** self.m);
      fit();
    }

    // The word looked at: the one that was pressed, as long as it stands before the one that asks; or else the likest.
    function looked() {
      const { query, wish } = self, row = self.rows.nope[query].slice(0, query);
      return wish >= 0 && wish <= query ? wish : Math.max(0, row.indexOf(Math.max(...row)));
    }

    const ask = (i) => mark({ query: clamp(i, 0, self.words.length - 1), wish: self.wish === i ? -1 : self.wish });
    const look = (i) => mark({ wish: clamp(i, 0, self.query) });

    // the picture
    function fit() {
      const wide = stage.clientWidth, middle = stage.clientHeight / 2, labels = [...strip.children], spans = labels.map((label) => label.firstChild);
      if (!wide) return; // not seen yet
      strip.className = "sentence-words";
      let sizes, sum; // words lie as large as they can; where even small ones are too long, they stand
      for (const size of [19, 17, 15, 13]) {
        strip.style.fontSize = `${size}px`;
        sizes = spans.map((span) => Math.max(size === 13 ? 25 : wide > 600 ? 32 : 26, span.offsetWidth + 2)), sum = sizes.reduce((a, b) => a + b, 0);
        if (sum <= wide) break;
      }
      const each = wide / labels.length;
      self.turned = sum > wide;
      if (self.turned) {
        strip.classList.add("sentence-turned", ...(each < 10 ? ["sentence-tight"] : []));
        strip.style.fontSize = `${clamp(each - 2, 12, 15)}px`;
      }
      self.columns = sizes.map((size) => (self.turned ? each : size + (wide - sum) / labels.length));
      self.x = self.columns.map((column, i) => column / 2 + self.columns.slice(0, i).reduce((a, b) => a + b, 0));
      self.band = self.turned ? Math.max(...spans.map((span) => span.offsetHeight)) : 34;
      const styles = labels.map((_, i) => [self.x[i] - self.columns[i] / 2, self.columns[i], middle - self.band / 2 - 20, self.band + 40]);
      styles.forEach((style, i) => ["left", "width", "top", "height"].forEach((name, at) => { labels[i].style[name] = `${style[at]}px`; }));
      mark();
    }

    function arcs(side, most) {
      const { query, x, band, turned } = self, key = looked(), row = self.rows[self[side]][query], up = side === "a" ? 1 : -1, middle = stage.clientHeight / 2;
      const foot = middle - up * (band / 2 + (turned ? 34 : 22)), room = middle - band / 2 - (turned ? 66 : 54), widest = Math.min(18, 0.6 * self.columns[query]), taken = [], on = (j, said) => (j === key ? said : "");
      const order = range(query + 1, (j) => j).sort((i, j) => (j === key) - (i === key) || row[j] - row[i]);
      const lines = order.filter((j) => j < query && row[j] > most / 200).reverse().map((j) => {
        const far = x[query] - x[j], top = foot - (up * 4 * Math.min(room, far + 8, (0.2 + (0.8 * far) / (x[query] - x[0])) * room)) / 3;
        return `<path${on(j, ' class="sentence-on"')} stroke-width="${Math.max(0.7, (widest * row[j]) / most)}" d="M${x[query]} ${foot}C${x[query]} ${top} ${x[j]} ${top} ${x[j]} ${foot}"/>`;
      });
      const shares = order.filter((j) => j === key || row[j] >= 0.005).map((j) => {
        const text = percent(row[j]), half = turned ? 6 : ((j === key ? 5.8 : 4.7) - (stage.clientWidth < 520 ? 0.7 : 0)) * text.length + 3, close = (at) => taken.find((other) => Math.abs(at - other[0]) < half + other[1]);
        let at = clamp(x[j], half, stage.clientWidth - half);
        const other = close(at), aside = other ? other[0] + Math.sign(at - other[0]) * (half + other[1] + 0.1) : at;
        if (Math.abs(aside - at) <= self.columns[j] / 5) at = clamp(aside, half, stage.clientWidth - half);
        if (close(at)) return "";
        taken.push([at, half]);
        const stands = turned && ` transform="translate(${at + 4.5} ${foot + up * 17}) rotate(-90)"`;
        return `<text${on(j, turned ? ' font-weight="700"' : ' class="sentence-key"')}${stands || ` x="${at}" y="${foot + (up > 0 ? 18 : -6)}"`}>${text}</text>`;
      });
      return `<g class="sentence-${side}">${lines.join("")}${shares.join("")}</g>`;
    }

    function mark(change) {
      Object.assign(self, change);
      const { query, words } = self, key = looked(), sides = Object.keys(SIDES), share = (name) => self.rows[name][query][key];
      const most = Math.max(1e-9, ...sides.flatMap((side) => self.rows[self[side]][query].slice(0, query)).filter((x) => x > 0));
      drawing.innerHTML = sides.map((side) => arcs(side, most)).join("");
      [...strip.children].forEach((button, i) => {
        button.classList.toggle("sentence-later", i > query);
        for (const [name, value] of [["aria-current", i === query], ["aria-pressed", i === key], ["tabindex", i === query ? 0 : -1]]) button.setAttribute(name, value);
      });
      for (const side of sides) {
        const { full, page } = cards.get(self[side]);
        const [dot, name, link] = ["input", "b", "a"].map((part) => stage.querySelector(`.sentence-slot.sentence-${side} ${part}`));
        [dot.checked, name.textContent, link.href] = [side === self.side, full, new URL(page, SITE)];
        link.setAttribute("aria-label", `chapter: ${full}`);
      }
      const order = [...cards.keys()].sort((a, b) => (share(b) || 0) - (share(a) || 0)), top = share(order[0]) || 1, drawn = sides.map((side) => self[side]);
      const shown = [...drawn, ...order.filter((name) => !drawn.includes(name)).slice(0, 4)];
      for (const [name, { card }] of cards) {
        const side = sides.find((one) => self[one] === name), [, said, , small] = card.children;
        card.className = `sentence-card${side ? ` sentence-${side}` : ""}`;
        card.setAttribute("aria-pressed", Boolean(side));
        card.hidden = !self.all && !shown.includes(name);
        [said.textContent, small.textContent] = [percent(share(name)), SIDES[side] || ""];
        card.style.setProperty("--share", (share(name) || 0) / top);
      }
      rank(order.map((name) => cards.get(name).card));
      const each = sides.map((side) => `${cards.get(self[side]).title} ${percent(share(self[side]))}`), said = (i) => `“${clip(words[i].text)}”`;
      [foot.hidden, all.textContent, head.textContent] = [!self.all, self.all ? "only six" : "all methods", `${said(query)} looks at ${key === query ? "itself" : said(key)}:`];
      readout.textContent = `${head.textContent} ${each.join(", ")}`;
      [slope.value, slope.nextElementSibling.textContent, copy.textContent] = [self.m, +(2 ** self.m).toPrecision(2), "Copy link"];
      slope.setAttribute("aria-valuetext", slope.nextElementSibling.textContent);
      clearTimeout(self.timer);
      if (self.timer !== undefined || changed()) self.timer = setTimeout(() => entry.writeLink?.(), 200);
    }

    // The cards, the largest share first: those that overtake others are seen to.
    function rank(order) {
      if (order.every((card, i) => card === grid.children[i])) return;
      const before = order.map((card) => card.getBoundingClientRect()), held = document.activeElement;
      order.forEach((card) => card.getAnimations().forEach((animation) => animation.cancel()));
      grid.append(...order);
      if (grid.contains(held)) held.focus({ preventScroll: true });
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) order.forEach((card, i) => {
        const now = card.getBoundingClientRect(), from = `translate(${before[i].left - now.left}px, ${before[i].top - now.top}px)`;
        if (before[i].width) card.animate([{ transform: from }, { transform: "none" }], { duration: 500, easing: "ease-in-out" });
      });
    }
    for (const [name, { card, title, full, note: says }] of cards) {
      card.title = `${full}: ${says}`;
      card.innerHTML = "<span></span><b></b><i></i><small></small>";
      card.firstChild.textContent = title;
      card.addEventListener("click", () => {
        const { side } = self, other = side === "a" ? "b" : "a";
        mark({ [other]: self[other] === name ? self[side] : self[other], [side]: name });
      });
    }

    // the address
    function state() {
      const { own, f, at, query, a, b, m } = self;
      return Object.entries({ s: own.join(" "), f, i: f ? at + 1 : 1, q: query + 1, k: looked() + 1, a, b, m }).filter(([name, value]) => value !== data.start[name]);
    }
    const link = () => `sentence=${state().map(([name, value]) => `${name}:${encodeURIComponent(value)}`)}`, changed = () => state().length > 0;
    Object.assign(entry, { ready: () => true, changed, link });

    function set(given) {
      const wanted = { ...data.start, ...given }, number = (name, low, high) => clamp([wanted[name], data.start[name]].map(Number).find(Number.isFinite), low, high);
      const whole = (name, low, high) => Math.floor(number(name, low, high));
      for (const side of ["a", "b"]) self[side] = cards.has(wanted[side]) ? wanted[side] : data.start[side];
      self.m = number("m", -8, 0);
      type(wanted.s.trim() || data.start.s);
      Object.assign(self, { f: whole("f", 0, 2), at: whole("i", 1, self.own.length) - 1 });
      lay(() => ["query", "wish"].forEach((name, i) => { self[name] = whole("qk"[i], 1, self.words.length) - 1; }));
    }

    // A word that is pressed, or dragged over: one before the word that asks is looked at, and asks if pressed again.
    const under = (event) => self.x.filter((x, i) => x - self.columns[i] / 2 <= event.clientX - strip.getBoundingClientRect().left).length - 1;
    let from = 0, drags = null;
    strip.addEventListener("pointerdown", (event) => [from, drags] = [under(event), null]);
    strip.addEventListener("pointermove", (event) => {
      if (!drags && event.buttons & 1 && under(event) !== from) drags = from >= self.query ? ask : look;
      if (drags && event.buttons & 1) drags(under(event));
    });
    strip.addEventListener("click", (event) => {
      const i = [...strip.children].indexOf(event.target.closest("button"));
      if (i >= 0 && !drags) (i > self.query || i === looked() ? ask : look)(i);
      drags = null;
    });
    strip.addEventListener("keydown", (event) => {
      const { query, words } = self, key = looked();
      const to = { ArrowLeft: [ask, query - 1], ArrowRight: [ask, query + 1], Home: [ask, 0], End: [ask, words.length - 1], ArrowUp: [look, key + 1], ArrowDown: [look, key - 1] }[event.key];
      if (!to) return;
      event.preventDefault();
      to[0](to[1]);
      strip.children[self.query].focus({ preventScroll: true });
    });
    stage.addEventListener("change", ({ target }) => { self.side = target.value; });
    all.addEventListener("click", () => mark({ all: !self.all }));
    field.addEventListener("input", () => type(field.value));
    more.addEventListener("click", () => fill(1));
    fewer.addEventListener("click", () => fill(-1));
    slope.addEventListener("input", () => {
      self.m = Number(slope.value);
      compute(["alibi"]);
    });
    copy.addEventListener("click", async () => {
      const address = `${location.href.split("#")[0]}#${link()}`;
      try {
        await navigator.clipboard.writeText(address);
        copy.textContent = "Copied";
        tell("Copied: the link opens what you see.");
      } catch (error) {
        tell("Copy this: ");
        const shown = note.appendChild(make("input", "sentence-link", { readonly: "", "aria-label": "The link" }));
        shown.value = address;
        shown.select();
      }
    });
    place.addEventListener("set", ({ detail }) => set(detail));
    set({});
    new ResizeObserver(fit).observe(stage);
  }

  window.posencLive("sentence", Sentence);
})();
