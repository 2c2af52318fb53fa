// Twelve gates under the hand: CoPE adds them and reads a table there, FoX adds their logarithms. See gates.py.
posencLive("gates", function (place, data) {
  "use strict";
  const { words, presets, table, slope, lowest } = data, N = words.length, LAST = table && table.length - 1, LOW = -7; // logits that are drawn
  const BLUE = "var(--x-blue, #0072b2)", ORANGE = "var(--x-orange, #c45500)", GROUND = "var(--x-ground)", INK = "currentColor";
  const HUE = table ? "var(--x-purple, #a8468a)" : "var(--x-green, #00805a)", FAINT = `stroke="${INK}" stroke-opacity="0.2"`;
  const GHOST = `fill="none" stroke="${INK}" stroke-dasharray="3 3" stroke-opacity="0.65"`;
  const MIDDLE = 'text-anchor="middle"', END = 'text-anchor="end"', SMALL = `${MIDDLE} font-size="11"`, BOLD = 'font-weight="600"';
  const fresh = (i, query = data.query) => ({ preset: i, query, gates: presets[i][1].slice() });
  const entry = window.posencExplorables?.get("gates") || {}; // the player reads and writes the address
  // `last` is what was moved last, a gate's number, "query" or "preset", and `before` how all stood then.
  let now = fresh(0), before = null, last = null, drag = null, tapped = -1, waits = 0, width = 0, g = null;

  const clamp = (v, low, high) => Math.min(Math.max(v, low), high), f = (v) => String(+v.toFixed(1));
  const say = (v) => String(+v.toFixed(2)).replace("-", "−"), keys = (n, kind = "key") => `${n} ${kind}${n === 1 ? "" : "s"}`;
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
    figure.live .live-place .gates-said { justify-content: start; max-width: none; min-height: 3.5rem; margin: 0.5rem 0; }
    .gates-plot { display: block; width: 100%; overflow: visible; font: 13px system-ui, sans-serif; }
    .gates-plot text { fill: var(--x-text); stroke: var(--x-ground); stroke-width: 3px; paint-order: stroke; }
    .gates-plot text { pointer-events: none; user-select: none; -webkit-user-select: none; }
    .gates-plot .gates-query { fill: var(--x-ground); stroke: none; }
    [data-l] > rect { fill: transparent; cursor: ns-resize; }
    [data-l][role="radio"] > rect { cursor: pointer; }
    [data-l] > .gates-hold { touch-action: none; }
    [data-l]:focus { outline: none; }
    [data-l]:focus-visible > .gates-hold { stroke: var(--x-accent); stroke-width: 2; }
    @container (max-width: 34rem) { .gates-tools span { display: none; } .gates-tools button { padding-inline: 0.5rem; }
      figure.live .live-place .gates-said { min-height: ${table ? 3.2 : 4.8}rem; margin: 0.3rem 0 0; font-size: 0.8rem; } }
  </style><div class="explorable-tools gates-tools" role="group" aria-label="all gates"><span>${table ? "count" : "gates"}</span>${
    presets.map(([name]) => `<button type="button">${name}</button>`).join("")}<button type="button">Reset</button></div>
  <p class="explorable-readout gates-said"></p><svg class="gates-plot" role="group" aria-label="twelve words and their gates">
    <pattern id="gates-grille" width="7" height="9" patternUnits="userSpaceOnUse"><path d="M3.5 0V9M0 4.5H7" stroke="${INK}"/></pattern>
    <g aria-hidden="true"></g>${handles(slider)}<g role="radiogroup" aria-label="the query">${handles('role="radio"')}</g>
  </svg><p class="explorable-spoken" role="status"></p>`;
  const svg = place.querySelector("svg"), back = svg.querySelector("g"), [chips, spoken] = place.querySelectorAll("p");
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

  // Where all stands. The table's curve is beside the staircase and as high as it; on a phone it lies below, as wide.
  function measure() {
    width = Math.max(place.clientWidth, 280);
    const wide = width >= 560, left = 30, right = table && wide ? width - 176 : width, step = (right - left) / N;
    const tall = wide ? 112 : 96, floor = 28 + tall, query = floor + (wide ? 46 : 57), top = query + (wide ? 46 : 38);
    const foot = top + (wide ? (table ? 180 : 130) : 120), below = foot + (wide ? 44 : 36), unit = wide ? 38 : 23; // of a bias
    const x = (l) => left + (l + 0.5) * step, y = (v) => top + (foot - top) * (table ? 1 - v / N : Math.min(v / LOW, 1));
    const at = (p, z) => (wide ? [width - 140 + (z + 1.4) * unit, y(p)] : [left + 6 + (p * (width - left - 12)) / N, below + (2.2 - z) * unit]);
    g = { wide, left, right, step, tall, floor, query, top, foot, below, x, y, at };
    svg.style.height = `${table ? (wide ? foot + 22 : below + 104) : below + 88}px`;
  }

  const stairs = (steps, look) => path(steps.flatMap((v, j) => [[g.x(j - 0.5), g.y(v)], [g.x(j + 0.5), g.y(v)]])
    .concat(table ? [[g.x(steps.length - 0.5), g.y(0)]] : []), look);

  function scene(is, was) {
    const { left, right, top, foot, below, x, y, wide } = g, mine = last in words && last <= now.query ? last : -1;
    let out = text(0, 12, "gate") + text(left - 8, 32, 1, END) + text(left - 8, g.floor + 4, 0, END);
    const low = (l) => g.floor + 24 + (wide ? 0 : (l % 2) * 15);
    out += words.map((word, l) => text(x(l), low(l), word, `${MIDDLE} opacity="${l > now.query ? 0.45 : 1}"`)).join("");
    for (const v of table ? [0, N] : [0, -3, -6]) out += path([[left, y(v)], [right, y(v)]], FAINT) + text(left - 8, y(v) + 4, say(v), END);
    const down = [[x(now.query), g.query + 11], [x(now.query), foot]];
    out += path(down, `stroke="${ORANGE}" stroke-width="2" stroke-dasharray="5 3"`);
    const long = wide ? ": the gates from it to the query, added" : "";
    out += text(left, top - 10, table ? `position of each key${long}` : "what is left of each key, in logits");
    if (table) {
      out += path([[left, y(LAST)], [width, y(LAST)]], `stroke="${INK}" stroke-dasharray="6 4"`) + text(left - 8, y(LAST) + 4, LAST, END);
      out += text(width, y(LAST) - 6, "the last row", END);
    } else if (presets[now.preset][0] === "as ALiBi") {
      const line = [[x(0), y(-slope * now.query)], [x(now.query), y(0)]];
      out += path(line, `stroke="${ORANGE}" stroke-width="9" stroke-opacity="0.35" stroke-linecap="round"`);
      out += text(width, foot - 8, `pale: ALiBi’s line, −${slope} × distance`, END);
    }
    const dots = (steps, look) => stairs(steps, look[0]) + steps.map((v, j) => dot([x(j), y(v)], j === mine ? 6 : 4, look[1])).join("");
    out += (was ? dots(was.steps, [GHOST, GHOST]) : "") + dots(is.steps, [`stroke="${HUE}" stroke-width="2.5"`, `fill="${HUE}"`]);
    if (is.steps[0]) out += text(x(0), y(is.steps[0]) - 9, say(is.steps[0]), SMALL);
    return out + (table ? curve(is, was, mine) : weights(is, was));
  }

  function curve(is, was, mine) {
    const { wide, at, below, foot, left } = g, gray = `stroke="${INK}" stroke-opacity="0.7"`;
    let out = path([at(0, 0), at(N, 0)], FAINT) + text(wide ? width - 140 : left, (wide ? g.top : below) - 10, "bias read there");
    const tick = (z) => (wide ? text(at(0, z)[0], foot + 18, say(z), MIDDLE) : text(left - 8, at(0, z)[1] + 4, say(z), END));
    out += [-1, 0, 1, 2].map(tick).join("");
    if (!wide) {
      out += [0, LAST, N].map((p) => text(at(p, 0)[0], below + 101, p, MIDDLE)).join("");
      out += path([at(LAST, 2.2), at(LAST, -1.6)], `stroke="${INK}" stroke-dasharray="6 4"`);
    }
    out += path([...table.map((z, p) => at(p, z)), at(N, table[LAST])], gray);
    out += table.map((z, p) => rect(at(p, z)[0] - 6, at(p, z)[1] - 6, 12, 12, `fill="none" ${gray}`)).join("");
    const dots = ({ steps, second }, look) => steps.map((p, j) => dot(at(p, second[j]), j === mine ? 6 : 4.5, look)).join("");
    out += (was ? dots(was, GHOST) : "") + dots(is, `fill="${HUE}"`);
    if (mine < 0) return out;
    const [x, y] = at(is.steps[mine], is.second[mine]), roomy = x < width - 50;
    return out + text(roomy ? x + 11 : x - 11, y + 4, words[mine], roomy ? BOLD : `${BOLD} ${END}`);
  }

  function weights(is, was) {
    const { x, step, foot, left, below } = g, high = (share) => below + 84 - 168 * share;
    const bar = (share, j, look) => rect(x(j) - step * 0.35, high(share), step * 0.7, 168 * share, look);
    let out = path([[left, high(0)], [width, high(0)]], FAINT);
    out += is.second.map((share, j) => bar(share, j, `fill="${HUE}" fill-opacity="0.6"`)).join("");
    if (was) out += was.second.map((share, j) => bar(share, j, GHOST)).join("");
    out += is.second.map((share, j) => text(x(j), high(Math.max(share, was?.second[j] ?? 0)) - 5, short(share.toFixed(g.wide ? 3 : 2)), SMALL)).join("");
    return out + text(left, foot + 22, "weights of keys of equal content");
  }

  function draw() {
    const is = read(now), was = before && read(before), half = Math.min(g.step - 5, 36) / 2, pill = Math.min(g.x(now.query), width - 22);
    const fields = ([, column, hold], l, tall, y) => [[column, ...tall], [hold, y - 22, 44]].forEach(([rect, y, height]) => {
      set(rect, { x: f(g.x(l) - g.step / 2), y: f(y), width: f(g.step), height: f(height) });
    });
    back.innerHTML = scene(is, was);
    sliders.forEach((one, l) => {
      const value = now.gates[l], x = g.x(l), level = (v) => g.floor - g.tall * v, old = before ? level(before.gates[l]) : 0;
      const shut = `fill="url(#gates-grille)" stroke="${INK}"`, box = (y, h, look) => rect(x - half, y, 2 * half, h, look);
      one.children[0].innerHTML = box(28, g.tall, `fill="none" ${FAINT}`)
        + box(level(value), g.tall * value, `fill="${BLUE}" fill-opacity="0.3"`)
        + box(28, g.tall * (1 - value), shut) + (before && before.gates[l] !== value ? dot([x, old], 8, GHOST) : "")
        + dot([x, level(value)], 8, `fill="${GROUND}" stroke="${BLUE}" stroke-width="2.5"`)
        + text(x, 12, short(say(value)), last === l ? `${SMALL} ${BOLD}` : SMALL);
      fields(one.children, l, [4, g.tall + 40], level(value));
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
    const chip = (part) => `<span class="explorable-chip">${part}</span>`;
    chips.innerHTML = said(is, was).map(chip).join('<span class="explorable-dot"> · </span>');
    place.dataset.shown = JSON.stringify({ ...now, ...is });
  }

  // In words: what the last move was, and what came of it.
  function said({ steps, second }, was) {
    const ask = "pull a gate, or move the query", query = `query “${words[now.query]}”`, n = now.query + 1;
    const apart = was ? steps.map((v, j) => v - was.steps[j]).filter((d) => Math.abs(d) > 1e-9) : [], moved = apart.length;
    const pulled = last in words && `“${words[last]}” ${say(before.gates[last])} → ${say(now.gates[last])}`;
    const late = last > now.query, why = late ? "it stands after the query" : last || table ? "nothing moved" : "no key stands before it";
    if (table) {
      const far = steps.filter((p, j) => p >= LAST && (!pulled || (was.steps[j] >= LAST && p !== was.steps[j]))).length;
      const rows = `read${far > 1 ? "" : "s"} the last row`;
      if (!pulled) return [was ? query : ask, `${keys(n)}, the oldest at ${say(steps[0])}`, `${far || "none"} ${rows}`];
      const old = far ? `the oldest ${far > 1 ? `${far} ` : ""}still ${rows}` : "each reads another place";
      return moved ? [pulled, `${moved} of ${keys(n)} moved`, old] : [`${pulled}: ${why}`];
    }
    const period = words.indexOf("."), share = (from, to) => second.slice(from, to).reduce((a, b) => a + b, 0).toFixed(3);
    const out = [`first sentence ${share(0, period)}`, `its period ${share(period, period + 1)}`, `rest ${share(period + 1)}`];
    const off = Math.max(...steps.map((v, j) => Math.abs(v + slope * (now.query - j))));
    const by = `${apart[0] < 0 ? "fell" : "rose"} by ${Math.abs(apart[0]).toFixed(2)}`;
    const beside = off < 1e-9 ? "the same logits as ALiBi’s" : `${off.toFixed(2)} off ALiBi’s logits`;
    if (presets[now.preset][0] === "as ALiBi") out.push(beside);
    if (pulled) out.push(`${pulled}: ${moved ? `${keys(moved, "older key")} ${by}` : why}`);
    else if (last === "query") out.push(`${query}: ${moved ? `older keys ${by}` : "no key fell"}`);
    return was ? out : [...out, ask];
  }

  function begin(what, anew) {
    if (anew || what !== last || !before) before = { ...now, gates: now.gates.slice() };
    last = what;
  }
  function show() {
    draw();
    clearTimeout(waits);
    waits = setTimeout(() => { spoken.textContent = chips.textContent, entry.writeLink?.(); }, 400);
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
