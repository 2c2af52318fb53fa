// Twelve gates under the hand: CoPE adds them and reads a table there, FoX adds their logarithms. See gates.py.
posencLive("gates", function (place, data) {
  "use strict";
  const { words, presets, table, slope, lowest } = data, N = words.length, LAST = table && table.length - 1;
  const BLUE = "var(--x-blue, #0072b2)", ORANGE = "var(--x-orange, #c45500)", GROUND = "var(--x-ground)", INK = "currentColor";
  const HUE = table ? "var(--x-purple, #a8468a)" : "var(--x-green, #00805a)", FAINT = `stroke="${INK}" stroke-opacity="0.2"`;
  const GHOST = `fill="none" stroke="${INK}" stroke-dasharray="3 3" stroke-opacity="0.65"`;
  const MIDDLE = 'text-anchor="middle"', END = 'text-anchor="end"', SMALL = `${MIDDLE} font-size="12"`, BOLD = 'font-weight="600"';
  const fresh = (i, query = data.query) => ({ preset: i, query, gates: presets[i][1].slice() });
  const entry = window.posencExplorables?.get("gates") || {}; // the player reads and writes the address
  // `last` is what was moved last, a gate's number, "query" or "preset", and `before` how all stood then.
  let now = fresh(0), before = null, last = null, drag = null, tapped = -1, waits = 0, width = 0, g = null;

  const clamp = (v, low, high) => Math.min(Math.max(v, low), high), f = (v) => String(+v.toFixed(1));
  const say = (v) => String(+v.toFixed(2)).replace("-", "−");
  const short = (said) => (g.wide ? said : said.replace(/^0\./, ".")); // a phone's columns are narrow
  const set = (element, look) => { for (const name in look) element.setAttribute(name, look[name]); };
  const text = (x, y, said, look = "") => `<text x="${f(x)}" y="${f(y)}" ${look}>${said}</text>`;
  const rect = (x, y, w, h, look) => `<rect x="${f(x)}" y="${f(y)}" width="${f(w)}" height="${f(h)}" ${look}/>`;
  const dot = ([x, y], r, look) => `<circle cx="${f(x)}" cy="${f(y)}" r="${r}" ${look}/>`;
  const path = (points, look) => `<path d="M${points.map((p) => p.map(f).join(" ")).join("L")}" fill="none" ${look}/>`;

  const handles = (more) => `<g data-l ${more}><g></g><rect rx="4"/><rect rx="4" class="gates-hold"/></g>`.repeat(N);
  const slider = `role="slider" tabindex="0" aria-orientation="vertical" aria-valuemin="${lowest}" aria-valuemax="1"`;
  place.innerHTML = `<style>
    .gates-tools.explorable-tools { flex-wrap: wrap; gap: 0.4rem; font-size: 0.9rem; }
    .gates-tools button:last-child { margin-left: auto; }
    .gates-tools button[aria-disabled="true"] { opacity: 0.45; cursor: default; }
    .gates-tools button[aria-pressed="true"] { border-color: var(--x-accent); box-shadow: inset 0 -2px var(--x-accent); font-weight: 600; }
    .gates-plot { display: block; margin-top: 0.8rem; width: 100%; overflow: visible; font: 13px system-ui, sans-serif; }
    .gates-plot text { fill: var(--x-text); stroke: var(--x-ground); stroke-width: 3px; paint-order: stroke; }
    .gates-plot text { pointer-events: none; user-select: none; -webkit-user-select: none; }
    .gates-plot .gates-query { fill: var(--x-ground); stroke: none; }
    [data-l] > rect { fill: transparent; cursor: ns-resize; }
    [data-l][role="radio"] > rect { cursor: pointer; }
    [data-l] > .gates-hold { touch-action: none; }
    [data-l]:focus { outline: none; }
    [data-l]:focus-visible > .gates-hold { stroke: var(--x-accent); stroke-width: 2; }
    @container (max-width: 34rem) { .gates-tools span { display: none; } .gates-tools button.gates-all { padding-inline: 0.4rem; font-weight: 400; } }
  </style><div class="explorable-tools gates-tools" role="group" aria-label="all gates"><span>${table ? "count" : "gates"}</span>${
    presets.map(([name]) => `<button type="button" class="gates-all">${name}</button>`).join("")}<button type="button" class="gates-all">Reset</button></div>
  <svg class="gates-plot" role="group" aria-label="twelve words and their gates">
    <pattern id="gates-grille" width="7" height="9" patternUnits="userSpaceOnUse"><path d="M3.5 0V9M0 4.5H7" stroke="${INK}"/></pattern>
    <g aria-hidden="true"></g>${handles(slider)}<g role="radiogroup" aria-label="the query">${handles('role="radio"')}</g>
  </svg><p class="explorable-spoken" role="status"></p>`;
  const svg = place.querySelector("svg"), back = svg.querySelector("g"), spoken = place.querySelector("p");
  const buttons = [...place.querySelectorAll("button")], reset = buttons.pop(), all = [...svg.querySelectorAll("[data-l]")];
  const sliders = all.slice(0, N), radios = all.slice(N);

  // Of the query's keys: positions and biases, or what is left of them and their weights.
  function read({ gates, query }) {
    const steps = [];
    for (let j = query, sum = 0; j >= 0; j--) {
      steps[j] = table ? sum + gates[j] : sum;
      sum += table ? gates[j] : Math.log(gates[j]);
    }
    if (table) return { steps, second: steps.map(lookup) };
    const parts = steps.map(Math.exp), whole = parts.reduce((a, b) => a + b);
    return { steps, second: parts.map((part) => part / whole) };
  }
  function lookup(p) {
    const row = Math.min(Math.floor(p), LAST - 1), w = Math.min(p, LAST) - row;
    return (1 - w) * table[row] + w * table[row + 1];
  }

  // Where all stands: doors, words, the query; then positions beside the table that they read, and the biases; or what is
  // left of each key. At the foot brackets say what came of it.
  function measure() {
    width = Math.max(place.clientWidth, 280);
    const wide = width >= 560, left = table ? (wide ? 88 : 36) : 2, step = (width - 2 - left) / N, door = 46, tall = wide ? 92 : 72;
    const floor = door + tall, query = floor + (wide ? 46 : 57), top = query + (table ? 42 : 54), row = wide ? 14 : 13, unit = wide ? 26 : 18;
    const high = table ? N * row : wide ? 170 : 120, foot = top + high, zero = foot + (wide ? 48 : 36) + 2 * unit;
    const low = table ? zero + 1.2 * unit + (wide ? 24 : 8) : foot + 8, x = (l) => left + (l + 0.5) * step;
    g = { wide, left, step, door, tall, floor, query, top, row, unit, foot, zero, low, x, y: (v) => foot - (high * v) / (table ? N : 1) };
    svg.style.height = `${low + (table ? 32 : g.wide ? 50 : 84)}px`;
  }

  const bar = (j, from, to, look) => rect(g.x(j) - g.step * 0.36, Math.min(from, to), g.step * 0.72, Math.abs(to - from), look);
  function bracket(from, to, large, name = "", drop = 0) {
    const [a, b, y] = [g.x(from) - g.step * 0.42, g.x(to) + g.step * 0.42, g.low], middle = Math.max((a + b) / 2, g.least);
    g.least = table ? middle + 58 : drop ? middle + 30 : g.least; // a phone's columns are narrower than the words under them
    return path([[a, y], [a, y + 6], [b, y + 6], [b, y]], `stroke="${INK}" stroke-width="1.5"`)
      + (drop ? path([[middle, y + 6], [middle, y + 10 + drop]], `stroke="${INK}" stroke-width="1.5"`) : "")
      + text(middle, y + 26 + drop, large, `${MIDDLE} font-weight="700" font-size="${g.wide ? 18 : 15}"`)
      + text(middle, y + 43 + drop, name, SMALL);
  }
  // Neighbors whose bias moved, or did not.
  const runs = (is, was) => is.second.reduce((out, v, j) => {
    const kind = Math.abs(v - was.second[j]) > 1e-9 ? "moved" : "stays", end = out[out.length - 1];
    if (end && end.kind === kind) end.to = j; else out.push({ kind, from: j, to: j });
    return out;
  }, []);
  function groups({ second }) {
    const at = words.indexOf("."), parts = [["first sentence", 0, at], ["its period", at, at + 1], ["rest", at + 1, N]];
    return parts.filter(([, from]) => from < second.length).map(([name, from, to]) => ({ name, from, to: Math.min(to, second.length) - 1, sum: second.slice(from, to).reduce((a, b) => a + b, 0) }));
  }

  function scene(is, was) {
    g.least = table ? 0 : 44;
    const low = (l) => g.floor + 24 + (g.wide ? 0 : (l % 2) * 15);
    return text(0, 13, `${table ? "the gate" : "the door"} of each word: pull one down`, BOLD)
      + words.map((word, l) => text(g.x(l), low(l), word, `${MIDDLE} opacity="${l > now.query ? 0.45 : 1}"`)).join("")
      + (table ? counted(is, was) : left(is, was));
  }

  // CoPE: the positions, at whose left edge stands the table; the biases that they read there.
  function counted(is, was) {
    const { left, wide, y, row, foot, unit, zero, low } = g, cell = wide ? 40 : 30, seam = y(LAST) - row / 2, pulled = was && last in words;
    let out = text(0, g.top - 12, wide ? "the position of each key: the gates from it to the query, added" : "each key’s position: its gates added", BOLD);
    out += rect(left, g.top - 4, width - left, seam - g.top + 4, `fill="${INK}" fill-opacity="0.06"`) + text(left - 6 - cell / 2, seam - 7, "table", SMALL);
    out += text(width - 8, g.top + 22, wide ? "beyond the table all read its last row" : "here all read the last row", `${END} font-size="14"`);
    table.forEach((z, p) => {
      const at = y(p) - row / 2;
      out += rect(left - 6 - cell, at, cell, row, `fill="${HUE}" fill-opacity="${p % 2 ? 0.12 : 0.22}"`) + text(left - 6 - cell / 2, y(p) + 4, say(z), SMALL)
        + (wide ? text(left - 12 - cell, y(p) + 4, p === LAST ? `row ${p}` : p, `${END} font-size="12"`) : "")
        + path([[left, y(p)], [width, y(p)]], `stroke="${INK}" stroke-opacity="0.1"`);
    });
    out += path([[left - 6 - cell, seam], [width, seam]], `stroke="${INK}" stroke-width="1.5" stroke-dasharray="6 4"`);
    if (was) out += was.steps.map((p, j) => (p === is.steps[j] ? "" : bar(j, foot, y(p), GHOST))).join("");
    is.steps.forEach((p, j) => {
      out += bar(j, foot, Math.max(y(p), seam), `fill="${HUE}" fill-opacity="0.4"`) + (y(p) < seam ? bar(j, seam, y(p), `fill="${INK}" fill-opacity="0.15"`) : "");
      out += path([[g.x(j) - g.step * 0.36, y(p)], [g.x(j) + g.step * 0.36, y(p)]], `stroke="${HUE}" stroke-width="3"`);
    });
    out += text(0, zero - 2 * unit - (wide ? 22 : 8), "the bias that each key gets", BOLD) + path([[left, zero], [width, zero]], FAINT);
    const found = pulled ? runs(is, was) : [], level = (z) => zero - unit * z;
    if (was) out += was.second.map((z, j) => (z === is.second[j] ? "" : bar(j, zero, level(z), GHOST))).join("");
    is.second.forEach((z, j) => {
      const stays = found.some(({ kind, from, to }) => kind === "stays" && from <= j && j <= to);
      out += bar(j, zero, level(z), `fill="${HUE}" fill-opacity="${stays || !pulled ? 0.75 : 0.25}" stroke="${HUE}"`);
      if (wide) out += text(g.x(j), z < 0 ? level(z) + 16 : level(z) - 6, say(z), SMALL);
    });
    return out + (pulled ? found.map(({ kind, from, to }) => bracket(from, to, kind)).join("") : text(left, low + 26, "pull a gate: whose bias stays?", `font-size="14"`));
  }

  // FoX: what the doors leave of each key, and which share of the weight the parts of the text then have.
  function left(is, was) {
    const { x, y, foot } = g, parts = is.steps.map(Math.exp);
    let out = text(0, g.query + 32, g.wide ? "what is left of each key: the doors after it, multiplied; below, the weight of each part" : "what is left of each key; below, weights", BOLD) + path([[0, foot], [width, foot]], FAINT);
    out += parts.map((part, j) => bar(j, foot, y(part), `fill="${HUE}" fill-opacity="0.6"`)).join("");
    if (was) out += was.steps.map((v, j) => (v === is.steps[j] ? "" : bar(j, foot, y(Math.exp(v)), GHOST))).join("");
    if (presets[now.preset][0] === "as ALiBi") {
      const line = parts.map((_, j) => [x(j), y(Math.exp(-slope * (now.query - j)))]), far = now.query > 5;
      out += path(line, `stroke="${ORANGE}" stroke-width="9" stroke-opacity="0.45" stroke-linecap="round"`);
      out += text(far ? 0 : width, g.top + 22, "pale line: ALiBi", far ? "" : END);
    }
    out += parts.map((part, j) => text(x(j), y(part) - 6, short(part.toFixed(2).replace("1.00", "1")), SMALL)).join("");
    // On a phone the period's column is narrower than its sum, which hangs below its neighbors'.
    return out + groups(is).map(({ name, from, to, sum }, i) => bracket(from, to, sum.toFixed(3), name, i === 1 && !g.wide ? 34 : 0)).join("");
  }

  function draw() {
    const is = read(now), was = before && read(before), half = Math.min(g.step - 5, 36) / 2, pill = Math.min(g.x(now.query), width - 22);
    const fields = ([, column, hold], l, tall, y) => [[column, ...tall], [hold, y - 22, Math.min(44, tall[0] + tall[1] - y + 22)]].forEach(([rect, y, height]) => {
      set(rect, { x: f(g.x(l) - g.step / 2), y: f(y), width: f(g.step), height: f(height) });
    });
    back.innerHTML = scene(is, was);
    sliders.forEach((one, l) => {
      const value = now.gates[l], x = g.x(l), level = (v) => g.floor - g.tall * v, old = before ? level(before.gates[l]) : 0;
      const shut = `fill="url(#gates-grille)" stroke="${INK}"`, box = (y, h, look) => rect(x - half, y, 2 * half, h, look);
      one.children[0].innerHTML = box(g.door, g.tall, `fill="none" ${FAINT}`)
        + box(level(value), g.tall * value, `fill="${BLUE}" fill-opacity="0.3"`)
        + box(g.door, g.tall * (1 - value), shut) + (before && before.gates[l] !== value ? dot([x, old], 8, GHOST) : "")
        + dot([x, level(value)], 8, `fill="${GROUND}" stroke="${BLUE}" stroke-width="2.5"`)
        + text(x, g.door - 13, short(say(value)), last === l ? `${SMALL} ${BOLD}` : SMALL);
      fields(one.children, l, [g.door - 26, g.tall + 36], level(value));
      const says = { "aria-label": `gate of “${words[l]}”, word ${l + 1}`, "aria-valuenow": +value.toFixed(2) };
      set(one, { ...says, opacity: l > now.query ? 0.45 : 1 });
    });
    radios.forEach((one, l) => {
      const on = l === now.query, was = before && before.query === l, ring = was ? GHOST : `fill="none" stroke="${INK}"`;
      const mark = Math.abs(g.x(l) - pill) > 30 ? dot([g.x(l), g.query], was ? 8 : 4, ring) : "";
      one.children[0].innerHTML = !on ? mark : rect(pill - 24, g.query - 11, 48, 22, `rx="11" fill="${ORANGE}"`)
        + text(pill, g.query + 4, "query", `class="gates-query" ${BOLD} ${MIDDLE} font-size="12"`);
      fields(one.children, l, [g.query - 22, 44], g.query);
      set(one, { "aria-label": `“${words[l]}”, word ${l + 1}`, "aria-checked": on, tabindex: on ? 0 : -1 });
    });
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === now.preset));
    reset.setAttribute("aria-disabled", !before);
    place.dataset.shown = JSON.stringify({ ...now, ...is });
  }

  // In words: what the last move was, and what came of it.
  function said(is, was) {
    const pulled = was && last in words, range = ({ from, to }) => `${from + 1}${to > from ? ` to ${to + 1}` : ""}`;
    const move = pulled ? `“${words[last]}” ${say(before.gates[last])} → ${say(now.gates[last])}` : `query “${words[now.query]}”`;
    if (!table) return `${move}: ${groups(is).map(({ name, sum }) => `${name} ${sum.toFixed(3)} of the weight`).join(", ")}`;
    return `${move}: ${pulled ? runs(is, was).map((run) => `bias of words ${range(run)} ${run.kind}`).join(", ") : `oldest at ${say(is.steps[0])}`}`;
  }

  function begin(what, anew) {
    if (anew || what !== last || !before) before = { ...now, gates: now.gates.slice() };
    last = what;
  }
  function show() {
    draw();
    clearTimeout(waits);
    waits = setTimeout(() => { spoken.textContent = said(read(now), before && read(before)), entry.writeLink?.(); }, 400);
  }
  // A gate keeps to whole quarters, and to the preset's own, where the hand comes near.
  function pull(l, value, near = 0) {
    const mark = [0, 0.25, 0.5, 0.75, 1, presets[now.preset][1][l]].find((v) => Math.abs(v - value) < near);
    now.gates[l] = clamp(mark ?? Math.round(value * 100) / 100, lowest, 1);
    show();
  }
  const ask = (l) => { now.query = clamp(l, 0, N - 1); show(); };
  const restart = (i, query) => { [now, before, last] = [fresh(i, query), null, null]; show(); };
  const over = ({ target }) => all.indexOf(target.closest("[data-l]")), held = ({ target }) => target.matches(".gates-hold");
  const valueAt = (event) => (g.floor - event.clientY + svg.getBoundingClientRect().top) / g.tall;
  const wordAt = (event) => Math.floor((event.clientX - svg.getBoundingClientRect().left - g.left) / g.step);

  svg.addEventListener("pointerdown", (event) => {
    const mine = over(event), gate = mine < N;
    tapped = -1;
    if (event.button || mine < 0) return;
    if (event.pointerType === "touch" && !held(event)) return void (tapped = mine); // it may want to scroll, or else it clicks
    event.preventDefault();
    svg.setPointerCapture(event.pointerId);
    all[mine].focus({ preventScroll: true, focusVisible: false });
    drag = { l: gate ? mine : -1, off: held(event) ? now.gates[mine] - valueAt(event) : 0 };
    begin(gate ? mine : "query", true);
    if (!gate) ask(mine - N); else if (!held(event)) pull(mine, valueAt(event), 0.02);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!svg.hasPointerCapture(event.pointerId)) return;
    if (drag.l >= 0) pull(drag.l, valueAt(event) + drag.off, 0.02); else if (wordAt(event) !== now.query) ask(wordAt(event));
  });
  // A shape's touch-action alone does not keep the page from scrolling under the finger.
  svg.addEventListener("touchstart", (event) => { if (held(event)) event.preventDefault(); }, { passive: false });
  svg.addEventListener("click", (event) => { if (tapped >= 0) begin(tapped, true), pull(tapped, valueAt(event), 0.05); });
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5, Home: -20, End: 20 }[event.key];
    const mine = over(event);
    if (mine < 0 || !by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    begin(mine < N ? mine : "query");
    if (mine < N) return pull(mine, now.gates[mine] + 0.05 * by);
    ask(now.query + (/Up|Down/.test(event.key) ? -by : by));
    radios[now.query].focus();
  });
  buttons.forEach((button, i) => button.addEventListener("click", () => { begin("preset", true), now = fresh(i, now.query), show(); }));
  reset.addEventListener("click", () => restart(now.preset));
  const own = () => now.gates.map((v, l) => `gate${l}:${v}`).filter((_, l) => now.gates[l] !== presets[now.preset][1][l]);
  const link = () => `gates=${[`preset:${now.preset}`, `query:${now.query}`, ...own()]}`;
  Object.assign(entry, { ready: () => true, changed: () => before !== null, link });
  // An answer to the question above, or an address: a preset by its number, the query, gates.
  place.addEventListener("set", ({ detail: { preset, query = data.query, ...gates } }) => {
    restart(clamp(Math.round(preset) || 0, 0, presets.length - 1), clamp(Math.round(query) || 0, 0, N - 1));
    for (const l of words.keys()) if (`gate${l}` in gates) begin(l, !before), pull(l, Number(gates[`gate${l}`]) || 0);
  });
  new ResizeObserver(() => { if (place.clientWidth !== width) measure(), draw(); }).observe(place);
  measure();
  draw();
});
