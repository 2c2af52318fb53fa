// Two words of a sentence turn the hands of eight dials, and eight scores add up. See clock.py; the style is clock.css.
posencLive("clock", function (place, data) {
  "use strict";
  const { words, frequencies, phases, lengths } = data, LAST = words.length - 1, FULL = 2 * Math.PI, NAMES = [words[data.m], words[data.n]]; // the query's, the key's
  const HUES = ["var(--x-blue)", "var(--x-orange, #c45500)"], GREEN = "var(--x-green, #00805a)", PURPLE = "var(--x-purple, #a8468a)", INK = "currentColor", GROUND = "var(--x-ground)";
  // Two layouts; the style shows one, by the figure's width. A box: top, height, width, the word's turn.
  const VIEWS = [
    { name: "wide", W: 820, H: 488, size: 14, word: 13, left: 2, pitch: 34, box: [8, 30, 33, 0], pill: 104, c: [150, 284], R: 122, says: [310, 22, 252], x: 304, step: 64, r: 24, zero: 344, unit: 130, axis: 476 },
    { name: "narrow", W: 356, H: 491, size: 12, word: 12, left: 4, pitch: 14.5, box: [3, 40, 13, -90], pill: 104, c: [136, 197], R: 92, says: [308, 104, 0], x: 0, step: 44.5, r: 18, zero: 423, unit: 56, axis: 166 },
  ].map((v) => ({ ...v, phone: v.W < 500, dials: v.zero - 0.75 * v.unit - v.r - (v.W < 500 ? 8 : 26), below: v.zero + 0.75 * v.unit + (v.W < 500 ? 2 : 15) }));
  const KINDS = [["bracket"], ["word", 1], ["word", 0], ["hand", 1], ["hand", 0]]; // what can be taken in hand
  let at = [data.m, data.n], start = null, last = null, pair = 1, drag = null; // the words' places; those before the last move, and what moved
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high), mod = (x, by) => x - by * Math.floor(x / by), sorted = (places) => [Math.min(...places), Math.max(...places)];
  const angle = (which, i, places = at) => phases[which][i] + places[which] * frequencies[i], degrees = (turn) => (360 * turn) / FULL;
  const scores = (places) => frequencies.map((_, i) => lengths[0] * lengths[1] * Math.cos(angle(0, i, places) - angle(1, i, places)));
  const total = (places) => scores(places).reduce((a, b) => a + b), turns = frequencies.map(degrees).map((d) => `${d.toFixed(d > 9.5 ? 0 : 1)}°`);
  const signed = (said) => said.replace(/-/g, "−"), say = (x) => signed(x.toFixed(2)), f = (x) => String(+x.toFixed(1)), to = ([x, y]) => `${f(x)} ${f(y)}`;
  const MIDDLE = 'text-anchor="middle"', BOLD = 'font-weight="700"', GHOST = `fill="none" stroke="${INK}" stroke-dasharray="3 3"`;
  const text = (x, y, said, more = MIDDLE) => `<text x="${f(x)}" y="${f(y)}" ${more}>${said}</text>`;
  const rect = (x, y, w, h, more) => `<rect x="${f(x)}" y="${f(y)}" width="${f(w)}" height="${f(h)}" ${more}/>`;
  const ring = ([x, y], r, fill, hue, width) => `<circle cx="${f(x)}" cy="${f(y)}" r="${r}" fill="${fill}" stroke="${hue}" stroke-width="${width}"/>`;
  const path = (d, hue, width, dash = "") => `<path d="${d}" fill="none" stroke="${hue}" stroke-width="${width}"${dash && ` stroke-dasharray="${dash}"`}/>`;
  const line = (from, end, ...look) => path(`M${to(from)}L${to(end)}`, ...look), tip = ([x, y], r, turn) => [x + r * Math.sin(turn), y - r * Math.cos(turn)];
  const column = (v, i) => [v.x + i * v.step + 1, v.dials - v.r - 3, v.step - 2, v.below - v.dials + v.r + 9], middle = (v, i) => v.left + (i + 0.5) * v.pitch;
  const inBox = (v, i, word, look, more = "", [top, tall, wide, turn] = v.box, x = middle(v, i)) => // a word in its box, upright on a phone
    rect(x - wide / 2, top, wide, tall, `rx="3" ${look}`) + text(0, 4, word, `${MIDDLE} font-size="${v.word}" transform="translate(${to([x, top + tall / 2])}) rotate(${turn})" ${more}`);

  // "13 × 30° ≡ 30°", and before it the angle at position 0; a phone has room for the angle alone
  function equation(v, phase, count, low) {
    const first = Math.round(degrees(mod(phase, FULL))) % 360, whole = first + degrees(count * frequencies[pair]), less = mod(whole - low, 360) + low;
    const sum = `${first ? `${first}° + ` : ""}${count} × ${turns[pair]} ${Math.abs(whole - less) < 1 ? "=" : "≡"} `;
    return signed(`${v.phone ? "" : sum}${Math.round(less)}°`);
  }

  function back(v, now, was) {
    const { c, R, x: left, step, unit, zero } = v, rest = words.filter((_, i) => i !== data.m && i !== data.n), [x, down, across] = v.says;
    let out = ring(c, R, "none", INK, 1.5) + words.map((_, i) => (at.includes(i) ? "" : inBox(v, i, rest.shift(), 'fill-opacity="0.08"'))).join("");
    for (let hour = 0; hour < 12; hour++) { // numerals are places where a word is an hour, else degrees
      const turn = (hour * FULL) / 12, [x, y] = tip(c, R + 15, turn), aside = { 3: 8, 9: -8 }[hour];
      out += line(tip(c, R, turn), tip(c, R - 6, turn), INK, 1.5) + text(aside ? c[0] + Math.sign(aside) * R + aside : x, y + 5, pair === 1 ? hour : hour % 3 ? "" : `${30 * hour}°`, aside ? `text-anchor="${aside < 0 ? "end" : "start"}"` : MIDDLE);
    }
    const q = angle(0, pair), k = angle(1, pair), long = R - 15, foot = tip(c, long * now[pair], q), r = f(0.36 * R);
    out += line(c, foot, GREEN, 10) + line(tip(c, long * lengths[1], k), foot, GREEN, 1.5, "2 3") + ring(c, 3, INK, INK, 1);
    out += path(`M${to(tip(c, r, k))}A${r} ${r} 0 0 ${mod(q - k, FULL) < FULL / 2 ? 1 : 0} ${to(tip(c, r, q))}`, PURPLE, 4);
    const said = v.phone ? [] : NAMES.map((name, which) => [name, equation(v, phases[which][pair], at[which], 0), HUES[which]]);
    said.push(["apart", equation(v, phases[0][pair] - phases[1][pair], at[0] - at[1], -180), PURPLE], ["score here", say(now[pair]), GREEN]);
    const row = (i) => [x + across * (i >> 1), v.box[1] + 84 + down * (across ? i % 2 : i)];
    const big = ([at, y], value) => `</tspan><tspan x="${at}" y="${y + 24}" font-size="22" ${BOLD}>${value}</tspan>`;
    out += said.map(([name, value, hue], i) => text(...row(i), `<tspan ${BOLD} ${v.phone ? `font-size="14">${name}${big(row(i), value)}` : `>${name}</tspan> ${value}`}`, `fill="${hue}" ${v.phone ? MIDDLE : ""}`)).join("");
    // the eight pairs: what each turns for a word, a bar, its number; below, at the same scale, their sum
    out += rect(...column(v, pair), 'rx="6" fill-opacity="0.07"') + line([left, zero], [left + 8 * step, zero], INK, 1);
    out += text(left + 4, v.dials - v.r - 10, `eight pairs, fast to slow: ${v.phone ? "their scores" : "turn for each word, score"} (striped: less)`, "");
    now.forEach((score, i) => {
      const x = left + (i + 0.5) * step, w = 0.48 * step, box = (value, more, out = 0) => rect(x - w / 2 - out, zero - unit * Math.max(value, 0), w + 2 * out, unit * Math.abs(value), more);
      out += box(score, `fill="${score < 0 ? "none" : GREEN}" stroke="${GREEN}"`) + (score < 0 ? line([x, zero], [x, zero - unit * score], GREEN, w, "2 3") : "");
      out += (was ? box(was[i], GHOST, 3) : "") + (v.phone ? "" : text(x, v.dials + v.r + 17, turns[i]) + text(x, v.below, (i && score >= 0 ? "+" : "") + say(score)));
    });
    const sum = total(at), lying = (value, more, out = 0) => rect(v.axis + unit * Math.min(value, 0), v.below + 9 - out, unit * Math.abs(value), 16 + 2 * out, more);
    const side = sum < 0 ? 1 : -1, clear = was ? clamp(side * unit * total(start), 0, v.phone ? 100 : 250) : 0; // of the ghost
    return out + lying(sum, "") + (was ? lying(total(start), GHOST, 2) : "") + text(v.axis + side * (8 + clear), v.below + 22, `sum ${say(sum)}`,
      `text-anchor="${sum < 0 ? "start" : "end"}" ${BOLD} font-size="16" stroke="${GROUND}" stroke-width="4" paint-order="stroke"`);
  }

  // [marks, field, what it says of itself] of what can be taken in hand and, after it, of the eight small dials
  function part(v, j) {
    const [kind, which] = KINDS[j] || ["pair"], hue = HUES[which], around = ([x, y], w = 44) => [x - w / 2, y - 22, w, 44], [low, high] = sorted(at);
    if (kind === "pair") {
      const i = j - KINDS.length, c = [v.x + (i + 0.5) * v.step, v.dials], end = (hand) => tip(c, (v.r - 2) * lengths[hand], angle(hand, i));
      return [ring(c, v.r, GROUND, INK, i === pair ? 3 : 1) + line(c, end(0), HUES[0], 2.5) + line(c, end(1), HUES[1], 2.5, "3 2"), column(v, i),
        { class: "clock-pair", role: "radio", "aria-label": `pair ${i + 1}, ${turns[i]} for a word`, "aria-checked": i === pair, tabindex: i === pair ? 0 : -1 }];
    }
    const both = kind === "bracket", now = both ? low : at[which], says = { class: "clock-hold", role: "slider", "aria-label": both ? NAMES.join(" and ") : `${kind} ${NAMES[which]}`,
      "aria-valuemin": 0, "aria-valuemax": LAST, "aria-valuenow": now, "aria-valuetext": `place ${both ? at.join(" and ") : now}, sum ${say(total(at))}` };
    if (kind === "word") return [inBox(v, now, NAMES[which], `fill="${hue}" stroke="${hue}" stroke-width="4"`, `${BOLD} fill="${GROUND}"`), around([middle(v, now), 23]), says];
    if (kind === "hand") {
      const turn = angle(which, pair), r = (v.R - 15) * lengths[which], end = tip(v.c, r, turn), [fill, ink] = which ? [GROUND, hue] : [hue, GROUND];
      return [line(v.c, tip(v.c, r - 13, turn), hue, 5 - which, which ? "7 4" : "") + ring(end, 13, fill, hue, 2.5)
        + text(end[0], end[1] + 4, NAMES[which], `${MIDDLE} ${BOLD} font-size="12" fill="${ink}"`), around(end), says];
    }
    const [a, b] = [middle(v, low), middle(v, high)], x = clamp((a + b) / 2, v.pill / 2, v.W - v.pill / 2), pill = `rx="13" fill="${GROUND}" stroke="${PURPLE}" stroke-width="2"`;
    return [path(`M${f(a)} 46V55H${f(b)}V46`, PURPLE, 4) + rect(x - v.pill / 2, 53, v.pill, 26, pill)
      + text(x, 71, `◂ ${high - low} apart ▸`, `${MIDDLE} ${BOLD} font-size="14" fill="${PURPLE}"`), around([x, 68], Math.max(v.pill, b - a + 30)), says];
  }
  const set = (element, look) => { for (const name in look) if (element.getAttribute(name) !== `${look[name]}`) element.setAttribute(name, look[name]); };
  const G = '<g tabindex="0"><g></g><rect rx="6"/></g>';
  place.innerHTML = `<div class="clock">${VIEWS.map((v) => `<svg class="clock-${v.name}" viewBox="0 0 ${v.W} ${v.H}" font-size="${v.size}" role="group" aria-label="a sentence and its clock"><g aria-hidden="true"></g>${
    G.repeat(KINDS.length)}<g role="radiogroup" aria-label="the pair on the large dial">${G.repeat(turns.length)}</g></svg>`).join("")}<p role="status"></p></div>`;
  VIEWS.forEach((v, i) => { v.svg = place.querySelectorAll("svg")[i], v.parts = [...v.svg.querySelectorAll("[tabindex]")]; });

  function draw(all) {
    const now = scores(at), sum = say(total(at)), apart = at[0] - at[1], by = start ? at[0] - start[0] : 0, old = start ? start[0] - start[1] : apart;
    place.dataset.scores = JSON.stringify(now);
    for (const v of VIEWS.filter(({ svg }) => all || svg.getBoundingClientRect().width)) {
      v.svg.firstChild.innerHTML = back(v, now, start && scores(start));
      v.parts.forEach((g, j) => {
        const [marks, field, says] = part(v, j), [x, y, width, height] = field.map(f);
        g.firstChild.innerHTML = marks;
        set(g.lastChild, { x, y, width, height }), set(g, says);
      });
    }
    const many = (count) => `${Math.abs(count)} word${Math.abs(count) === 1 ? "" : "s"}`, side = (d) => (d > 0 ? "after" : "before");
    const stands = `“${NAMES[0]}” stands ${many(apart)} ${side(apart)} “${NAMES[1]}”`, was = `${Math.abs(old)}${apart * old < 0 ? ` ${side(old)}` : ""}`;
    place.querySelector("p").textContent = apart !== old ? `${stands}, not ${was}: the sum went from ${say(total(start))} to ${sum}.`
      : by ? `${many(by)} ${by > 0 ? "further" : "back"}: every hand moved, the sum did not: ${sum}.`
        : last === "pair" ? `Pair ${pair + 1} turns ${turns[pair]} for each word. Its score is ${say(now[pair])}, the sum ${sum}.` : `${stands}. The eight scores add up to ${sum}.`;
  }

  // Move from these places. One word steps over the other: no two stand at one place.
  function put([kind, which], from, by) {
    const [low, high] = sorted(from), shift = clamp(by, -low, LAST - high), way = Math.sign(by);
    const next = from.map((i, j) => (kind === "bracket" ? i + shift : j === which ? clamp(i + by, 0, LAST) : i));
    if (next[0] === next[1]) next[which] += next[which] + way in words ? way : -way;
    if (next.join() !== at.join()) at = next, draw();
  }
  const choose = (i) => { [pair, start, last] = [mod(i, turns.length), null, "pair"], draw(); };

  for (const { svg, parts, c, pitch, W } of VIEWS) {
    const over = (event) => parts.indexOf(event.target.closest("[tabindex]")), direction = ([x, y]) => Math.atan2(x - c[0], c[1] - y);
    const point = ({ clientX: x, clientY: y }, box = svg.getBoundingClientRect()) => [x - box.left, y - box.top].map((pixels) => (pixels * W) / box.width);
    const away = (p, j) => Math.hypot(...["x", "y"].map((name, i) => p[i] - 22 - parts[j].lastChild.getAttribute(name)));
    svg.addEventListener("pointerdown", (event) => {
      if (event.button || !KINDS[over(event)]) return;
      event.preventDefault();
      const p = point(event), [kind] = KINDS[over(event)]; // fields overlap: of two words, or two hands, the nearer one is meant
      const [mine] = [...KINDS.keys()].filter((j) => KINDS[j][0] === kind).sort((i, j) => away(p, i) - away(p, j));
      svg.setPointerCapture(event.pointerId);
      parts[mine].focus({ preventScroll: true, focusVisible: false });
      [start, last, drag] = [at, mine, { from: at, kind: KINDS[mine], x: p[0], turned: 0, direction: direction(p) }];
    });
    // A shape's touch-action alone does not keep the page from scrolling under the finger.
    svg.addEventListener("touchstart", (event) => { if (KINDS[over(event)]) event.preventDefault(); }, { passive: false });
    svg.addEventListener("pointermove", (event) => {
      if (!svg.hasPointerCapture(event.pointerId)) return;
      const p = point(event), { from, kind } = drag, speed = frequencies[pair], more = mod(direction(p) - drag.direction + FULL / 2, FULL) - FULL / 2;
      if (kind[0] !== "hand") return put(kind, from, Math.round((p[0] - drag.x) / pitch));
      Object.assign(drag, { turned: drag.turned + more, direction: direction(p) });
      const end = from[kind[1]] + drag.turned / speed; // past the sentence's end the hand goes on, a full turn away
      if (FULL / speed < LAST && (end < -0.5 || end > LAST + 0.5)) drag.turned += end < 0 ? FULL : -FULL;
      put(kind, from, Math.round(drag.turned / speed));
    });
    svg.addEventListener("click", (event) => { if (over(event) >= KINDS.length) choose(over(event) - KINDS.length); });
    svg.addEventListener("keydown", (event) => {
      const mine = over(event), dial = mine - KINDS.length, more = dial < 0 ? { PageUp: 5, PageDown: -5, Home: -LAST, End: LAST } : { ArrowUp: -1, ArrowDown: 1, " ": 0 };
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, ...more }[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (dial >= 0) return choose(dial + by), parts[KINDS.length + pair].focus();
      if (last !== mine) [start, last] = [at, mine];
      put(KINDS[mine], at, by);
    });
  }

  // An answer to a question, or an address: from where the words stand at first.
  place.addEventListener("set", ({ detail }) => {
    const goal = ["m", "n"].map((name) => clamp(Math.round(detail[name] ?? data[name]) || 0, 0, LAST));
    if (goal[0] !== goal[1]) [start, at, last] = [[data.m, data.n], goal, null], draw();
  });
  draw(true);
  new ResizeObserver(() => draw(true)).observe(place); // the other layout may be the one seen now
});
