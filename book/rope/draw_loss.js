// Draw it: three points that the reader moves up and down, then the curve that was measured, that of the same model with
// attention cut, and those of the other methods, one or all. See draw_loss.py.
posencLive("draw_loss", function (place, data) {
  "use strict";
  const LOW = 1, HIGH = 5, STEP = 0.1;
  const [start, ...beyond] = data.measured, last = beyond[beyond.length - 1][0];
  const drawn = beyond.map(() => 4); // off every curve: a level line would be an answer
  const list = beyond.map(([n]) => n).join(", ");
  const KEYS = ' <span class="draw-keys">By keyboard: Tab to a ring, then the arrow keys.</span>';
  const ASK = `A stroke takes the rings along, at ${list} characters.${KEYS}`;
  const BLUE = "var(--x-blue, #0072b2)", ORANGE = "var(--x-orange, #c45500)";
  const PURPLE = "var(--x-purple, #a8468a)", GREEN = "var(--x-green, #00805a)";
  const entry = window.posencExplorables?.get("draw_loss") || {}; // the player reads and writes the address
  let timer, begun = false, shown = false, cut = false, other = -1, all = false, width = 0, height = 0, known = data.known, first = known[0][0];

  const rings = beyond.map(([n]) => `<g class="draw-handle" role="slider" tabindex="0" aria-orientation="vertical" aria-label="Your loss at ${n} characters"
    aria-valuemin="${LOW}" aria-valuemax="${HIGH}"><circle fill="transparent"/><circle r="9" class="draw-ring"/></g>`);
  place.innerHTML = `<style>
    .draw-plot { display: block; width: 100%; overflow: visible; font: 13px system-ui, sans-serif; user-select: none; -webkit-user-select: none; }
    .draw-plot text { fill: var(--x-text); stroke: var(--x-ground); stroke-width: 3px; paint-order: stroke; }
    .draw-plot .draw-off { fill: ${ORANGE}; font-weight: 700; font-size: 15px; stroke-width: 5px; }
    .draw-plot .draw-yours { fill: ${ORANGE}; font-weight: 600; }
    .draw-plot .draw-blue { fill: ${BLUE}; font-weight: 600; }
    .draw-plot .draw-purple { fill: ${PURPLE}; font-weight: 600; }
    .draw-plot .draw-green { fill: ${GREEN}; font-weight: 600; }
    .draw-other { fill: none; stroke: var(--x-text); stroke-opacity: 0.25; }
    .draw-hit { fill: none; stroke: transparent; stroke-width: 14; cursor: pointer; }
    .draw-faint { stroke: var(--x-text); stroke-opacity: 0.18; }
    .draw-border { stroke: var(--x-text); stroke-opacity: 0.5; }
    .draw-handle, .draw-handle circle { cursor: ns-resize; outline: none; touch-action: none; }
    .draw-handle .draw-ring { fill: var(--x-ground); stroke: ${ORANGE}; stroke-width: 2.5; }
    .draw-handle:focus-visible .draw-ring { stroke-width: 5; }
    .draw-handle:hover .draw-ring { fill: color-mix(in srgb, ${ORANGE} 30%, var(--x-ground)); }
    .draw-handle[aria-disabled], .draw-handle[aria-disabled] circle { cursor: default; touch-action: auto; }
    .draw-said { min-height: 4.6em; margin: 0.3rem 0 0; line-height: 1.5; }
    .draw-tools { flex-wrap: wrap; min-height: 2.1rem; }
    .draw-tools select { max-width: 9rem; min-height: 1.9rem; font: inherit; font-size: 0.85rem; }
    @media (max-width: 480px) { .draw-said { min-height: 6em; font-size: 0.9rem; } .draw-tools { gap: 0.4rem; } .draw-tools button { padding-inline: 0.4rem; } .draw-tools select { max-width: 6rem; } }
    @media not all and (hover: hover) { .draw-keys { display: none; } }
  </style><svg class="draw-plot" role="group" aria-label="Loss against characters of context"><g></g>
    <path fill="none" stroke="${ORANGE}" stroke-width="2.5" stroke-dasharray="7 5"/><g pointer-events="none"></g>${rings.join("")}</svg>
  <div class="explorable-tools draw-tools"><button type="button">Show what happened</button>
    <button type="button" aria-pressed="false" hidden>Cut to ${start[0]} keys</button>
    <select aria-label="beside" hidden><option value="-1">beside …</option><option value="-2">all methods</option>${data.others.map(([name], i) => `<option value="${i}">${name}</option>`).join("")}</select>
  </div><p class="draw-said" role="status">${ASK}</p>`;
  const svg = place.querySelector("svg"), [button, cutter] = place.querySelectorAll("button"), chooser = place.querySelector("select"), said = place.querySelector(".draw-said");
  const [frame, results] = svg.querySelectorAll("g:not(.draw-handle)"), line = svg.querySelector("path"), handles = [...svg.querySelectorAll(".draw-handle")];

  // Left of the plot stand the nats, right of it the names of the curves, below it the lengths.
  const LEFT = 26, RIGHT = 84, TOP = 32, BELOW = 58;
  const step = () => (width - LEFT - RIGHT) / Math.log2(last / first);
  const x = (n) => LEFT + Math.log2(n / first) * step();
  const y = (loss) => TOP + ((HIGH - loss) / (HIGH - LOW)) * (height - TOP - BELOW);
  const lossAt = (pixel) => HIGH - ((pixel - TOP) / (height - TOP - BELOW)) * (HIGH - LOW);
  const path = (points) => points.map(([n, loss], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(loss).toFixed(1)}`).join("");
  const text = (at, level, words, anchor = "start", name = "") => `<text x="${at.toFixed(1)}" y="${level.toFixed(1)}" text-anchor="${anchor}" class="${name}">${words}</text>`;
  const ruler = (x1, y1, x2, y2, how) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${how}/>`;

  handles.forEach((handle, i) => handle.addEventListener("keydown", (event) => {
    const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: 5 * STEP, PageDown: -5 * STEP, Home: -HIGH, End: HIGH }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(i, drawn[i] + by);
  }));

  // A stroke, from the end of what is known on, takes along the rings whose columns it crosses; one that begins on a ring
  // moves that ring alone; a tap takes the nearest.
  const spot = ({ clientX, clientY }, box = svg.getBoundingClientRect()) => [clientX - box.left, clientY - box.top];
  const open = ([px, py]) => !shown && Math.abs(px - (x(start[0]) + x(last)) / 2) < (x(last) - x(start[0]) + step()) / 2 && py > TOP - 20 && py < height - BELOW + 10;
  const near = (px, by) => beyond.findIndex(([n]) => Math.abs(px - x(n)) <= by);
  let from = null, held = -1; // where the stroke was; the ring in hand
  function stroke([px, py]) {
    beyond.forEach(([n], i) => {
      const share = (x(n) - from[0]) / (px - from[0]);
      if (share > 0 && share <= 1) move(i, lossAt(from[1] + share * (py - from[1])));
    });
    from = [px, py];
    const i = near(px, Math.min(10, step() / 6));
    if (i >= 0) move(i, lossAt(py));
  }
  svg.addEventListener("pointerdown", (event) => {
    if (event.button || !event.isPrimary || !open(spot(event))) return;
    from = spot(event);
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
    held = handles.indexOf(event.target.closest(".draw-handle"));
    const i = held < 0 ? near(from[0], step() / 2) : held;
    handles[Math.max(i, 0)].focus({ preventScroll: true, focusVisible: false });
    if (held < 0 && i >= 0) move(i, lossAt(from[1]));
  });
  svg.addEventListener("pointermove", (event) => {
    if (!svg.hasPointerCapture(event.pointerId)) return;
    if (held < 0) stroke(spot(event)); else move(held, lossAt(spot(event)[1]));
  });
  // A shape's touch-action alone does not keep the page from scrolling under the finger.
  svg.addEventListener("touchstart", (event) => { if (open(spot(event.touches[0]))) event.preventDefault(); }, { passive: false });

  function move(i, loss) {
    if (shown) return;
    begun = true;
    drawn[i] = Math.round(Math.min(Math.max(loss, LOW), HIGH) / STEP) * STEP;
    own();
    clearTimeout(timer);
    timer = setTimeout(() => entry.writeLink?.(), 200);
  }

  // What the reader draws. It is all that changes under the finger.
  function own() {
    line.setAttribute("d", begun ? path([start, ...beyond.map(([n], i) => [n, drawn[i]])]) : "");
    handles.forEach((handle, i) => {
      handle.style.display = shown && !begun ? "none" : "";
      handle.setAttribute("transform", `translate(${x(beyond[i][0]).toFixed(1)} ${y(drawn[i]).toFixed(1)})`);
      handle.setAttribute("aria-valuenow", drawn[i].toFixed(1));
      handle.setAttribute("aria-valuetext", `${drawn[i].toFixed(1)} nats per character`);
    });
    results.innerHTML = (shown ? measured() : "") + names();
  }

  // At the right ends of the curves, and apart from each other.
  function names() {
    const list = shown && !begun ? [] : [[drawn[drawn.length - 1], begun ? "yours" : "drag", "draw-yours"]], end = (points) => points[points.length - 1][1];
    if (shown) list.push([end(beyond), "measured", "draw-blue"]);
    if (cut) list.push([end(data.cut), "cut", "draw-purple"]);
    list.sort((a, b) => b[0] - a[0]);
    let low = TOP - 12;
    return list.map(([loss, words, name]) => {
      low = Math.max(y(loss) + 4, low + 17);
      return text(x(last) + 20, low, words, "start", name);
    }).join("");
  }

  function axes() {
    const [from, to] = [x(first), x(last)], half = step() / 2, border = x(start[0]) + half, bottom = y(LOW);
    let out = text(0, 12, "nats per character, less is better");
    for (let nats = LOW; nats <= HIGH; nats++) {
      out += ruler(from, y(nats), to, y(nats), 'class="draw-faint"') + text(LEFT - 10, y(nats) + 4, nats, "end");
    }
    for (const [n] of [...known, ...data.measured]) out += text(x(n), bottom + 20, n, "middle");
    out += ruler(border, y(HIGH), border, height, 'class="draw-border" stroke-dasharray="2 4"');
    out += text(border - 8, height - 8, width < 480 ? "context in training" : "characters of context, as in training", "end");
    out += text(border + 8, height - 8, "longer");
    out += ruler(from, y(data.guess), to, y(data.guess), 'class="draw-border" stroke-dasharray="6 3 1 3"');
    out += text(from, y(data.guess) - 6, width < 480 ? "a blind guess" : `a blind guess among ${Math.round(Math.exp(data.guess))} characters`);
    const low = Math.max(...[...known, start].map(([, loss]) => loss)); // the curve's name stands clear of it
    out += text(from, y(low) - 10, width < 480 ? "measured" : `${data.method}, measured`, "start", "draw-blue");
    out += `<path d="${path([...known, start])}" fill="none" stroke="${BLUE}" stroke-width="3"/>`;
    for (const [n, loss] of [...known, start]) out += `<circle cx="${x(n)}" cy="${y(loss)}" r="3.5" fill="${BLUE}"/>`;
    return out + (shown && all ? others() : "");
  }

  const curve = (points, color, dash = "", wide = 3) => `<path d="${path(points)}" fill="none" stroke="${color}" stroke-width="${wide}" stroke-dasharray="${dash}"/>`;
  const marks = (points, color, shape) => points.map(([n, loss]) => shape(x(n), y(loss), color)).join("");
  const square = (px, py, color) => `<rect x="${px - 4.5}" y="${py - 4.5}" width="9" height="9" fill="${color}"/>`;
  const ring = (px, py, color) => `<circle cx="${px}" cy="${py}" r="5.5" fill="none" stroke="${color}" stroke-width="2"/>`;
  const diamond = (px, py, color) => `<path d="M${px - 5} ${py}l5-5 5 5-5 5z" fill="${color}"/>`;

  // What was measured: solid, squares, a bar of one standard deviation each side; cut: dashed, rings; another method: diamonds.
  function measured() {
    let out = curve(data.measured, BLUE);
    for (const [n, mean, spread] of beyond) {
      out += ruler(x(n), y(mean - spread), x(n), y(mean + spread), `stroke="${BLUE}" stroke-width="7" stroke-opacity="0.45"`);
    }
    out += marks(beyond, BLUE, square);
    if (begun) out += gap(...beyond[farthest()], drawn[farthest()]);
    if (cut) out += curve(data.cut, PURPLE, "7 4", 2.5) + marks(data.cut, PURPLE, ring);
    if (other < 0) return out;
    const [name, points] = data.others[other], [n, loss] = points[points.length - 2];
    return out + curve(points, GREEN, "2 3") + marks(points, GREEN, diamond) + text(x(n), y(loss) - 10, name, "middle", "draw-green");
  }

  // The greatest miss, a dotted line of its length, and its words as near as they stand clear of the curves.
  const farthest = () => beyond.reduce((most, [, mean], i) => (Math.abs(drawn[i] - mean) > Math.abs(drawn[most] - beyond[most][1]) ? i : most), 0);
  const miss = (loss, mean) => [Math.abs(loss - mean).toFixed(1), `too ${loss < mean ? "low" : "high"}`];
  function gap(n, mean, spread, loss) {
    if (close(loss - mean, n)) return "";
    const [px, high, low, wide, tall] = [x(n), y(Math.max(loss, mean)), y(Math.min(loss, mean)), 66, 34];
    const border = [LOW, HIGH].map((loss) => [start[0] * Math.SQRT2, loss]);
    const curves = [[start, ...beyond.map(([n], i) => [n, drawn[i]])], data.measured, data.cut, border].map((points) => points.map(([n, loss]) => [x(n), y(loss)]));
    const dots = curves.flatMap((points) => points.slice(1).flatMap(([bx, by], i) => [...Array(33).keys()].map((k) => [0, 1].map((at) => points[i][at] + (([bx, by][at] - points[i][at]) * k) / 32))));
    const cost = ([left, top]) => dots.filter(([dx, dy]) => dx > left - 5 && dx < left + wide + 5 && dy > top - 5 && dy < top + tall + 5).length * 1000
      + Math.hypot(left > px ? left - px : px - left - wide, Math.max(high - top - tall / 2, top + tall / 2 - low, 0)) + Math.abs(top + tall / 2 - (high + low) / 2) / 20;
    let best = [px + 9, high];
    for (let top = y(data.guess) + 6; top + tall < y(LOW); top += 4) {
      for (let off = 9; off < 120; off += 6) {
        for (const left of [px + off, px - off - wide]) {
          if (left > LEFT && left + wide < x(last) + 14 && cost([left, top]) < cost(best)) best = [left, top];
        }
      }
    }
    const [words, at] = [miss(loss, mean), best[0] > px ? best[0] : best[0] + wide], anchor = best[0] > px ? "start" : "end";
    return ruler(px, y(mean), px, y(loss), `stroke="${ORANGE}" stroke-width="2" stroke-dasharray="1 4"`)
      + words.map((said, i) => text(at, best[1] + 14 + 16 * i, said, anchor, "draw-off")).join("");
  }

  // The other methods' curves, to touch.
  const others = () => data.others.map(([, points], i) => `<path d="${path(points)}" class="draw-other"/><path d="${path(points)}" class="draw-hit" data-i="${i}"/>`).join("");

  function draw() {
    width = place.clientWidth;
    height = width < 480 ? 300 : 350;
    // On a phone the part that the reader draws gets more room than the part that is known.
    known = data.known.slice(width < 480 ? -2 : 0);
    first = known[0][0];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    frame.innerHTML = axes();
    for (const handle of handles) handle.firstChild.setAttribute("r", Math.max(0, Math.min(24, step() / 2)));
    own();
  }

  button.addEventListener("click", () => {
    shown = !shown;
    for (const handle of handles) {
      if (shown) handle.setAttribute("aria-disabled", "true"); else handle.removeAttribute("aria-disabled");
    }
    button.textContent = shown ? "Draw again" : "Show what happened";
    cutter.hidden = chooser.hidden = !shown, all = false;
    touch(-1, false);
    draw();
  });
  cutter.addEventListener("click", () => touch(other, !cut));
  chooser.addEventListener("change", () => { all = chooser.value === "-2", draw(), touch(Math.max(Number(chooser.value), -1)); });
  for (const kind of ["pointerover", "click"]) {
    frame.addEventListener(kind, ({ target }) => { if (target.dataset.i) touch(Number(target.dataset.i)); });
  }

  // Another method beside this one, none for -1; with attention cut or not.
  function touch(i, on = cut) {
    [other, cut] = [i, on];
    chooser.value = i < 0 && all ? -2 : i;
    cutter.setAttribute("aria-pressed", cut);
    if (shown) said.textContent = verdict() + beside(); else said.innerHTML = ASK;
    own();
  }

  function beside() {
    const ends = (points) => points[points.length - 1][1].toFixed(2);
    return (cut ? ` Cut, it is ${ends(data.cut)} at ${last}.` : "") + (other < 0 ? (all ? " Gray: other methods, to touch." : "") : ` ${data.others[other][0]}: ${ends(data.others[other][1])} at ${last}.`);
  }

  const close = (off, n) => Math.abs(off) <= Math.max(2 * beyond.find(([length]) => length === n)[2], STEP / 2);
  function verdict() {
    const means = `${data.method}: ${beyond.map(([n, mean, spread]) => `${mean.toFixed(2)} ± ${spread.toFixed(2)} at ${n}`).join("; ")}.`;
    if (!begun) return means;
    const far = farthest(), near = beyond.every(([n, mean], i) => close(drawn[i] - mean, n));
    return `${near ? "You saw it coming." : `At ${beyond[far][0]} you drew ${miss(drawn[far], beyond[far][1]).join(" ")}.`} ${means}`;
  }

  // What the reader drew stands in the address, for someone else to see and to try.
  const drew = () => `draw_loss=${beyond.map(([n], i) => `${n}:${drawn[i].toFixed(1)}`)}`;
  Object.assign(entry, { ready: () => true, changed: () => begun, link: drew });
  place.addEventListener("set", ({ detail }) => beyond.forEach(([n], i) => {
    if (Number.isFinite(Number(detail[n]))) move(i, Number(detail[n]));
  }));

  new ResizeObserver(() => { if (place.clientWidth !== width) draw(); }).observe(place);
  draw();
});
