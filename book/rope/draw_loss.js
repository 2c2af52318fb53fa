// Draw it: three points that the reader moves up and down, then the curve that was measured. See ../draw_loss.py.
posencLive("draw_loss", function (place, data) {
  "use strict";
  const LOW = 1, HIGH = 5, STEP = 0.1;
  const [start, ...beyond] = data.measured, last = beyond[beyond.length - 1][0];
  const drawn = beyond.map(() => 4); // off every curve: a level line would be an answer
  const list = beyond.map(([n]) => n).join(", ");
  const KEYS = ' <span class="draw-keys">By keyboard: Tab to a ring, then the arrow keys.</span>';
  const ASK = `Drag the rings to the loss that you expect at ${list} characters.${KEYS}`;
  const BLUE = "var(--x-blue, #0072b2)", ORANGE = "var(--x-orange, #c45500)";
  let begun = false, shown = false, width = 0, height = 0, known = data.known, first = known[0][0];

  const rings = beyond.map(([n]) => `<g class="draw-handle" role="slider" tabindex="0" aria-orientation="vertical" aria-label="Your loss at ${n} characters"
    aria-valuemin="${LOW}" aria-valuemax="${HIGH}"><circle fill="transparent"/><circle r="9" class="draw-ring"/></g>`);
  place.innerHTML = `<style>
    .draw-plot { display: block; width: 100%; overflow: visible; font: 13px system-ui, sans-serif; }
    .draw-plot text { fill: var(--x-text); stroke: var(--x-ground); stroke-width: 3px; paint-order: stroke; }
    .draw-plot .draw-yours { fill: ${ORANGE}; font-weight: 600; }
    .draw-plot .draw-blue { fill: ${BLUE}; font-weight: 600; }
    .draw-faint { stroke: var(--x-text); stroke-opacity: 0.18; }
    .draw-border { stroke: var(--x-text); stroke-opacity: 0.5; }
    .draw-handle, .draw-handle circle { cursor: ns-resize; outline: none; touch-action: none; }
    .draw-handle .draw-ring { fill: var(--x-ground); stroke: ${ORANGE}; stroke-width: 2.5; }
    .draw-handle:focus-visible .draw-ring { stroke-width: 5; }
    .draw-handle:hover .draw-ring { fill: color-mix(in srgb, ${ORANGE} 30%, var(--x-ground)); }
    .draw-handle[aria-disabled], .draw-handle[aria-disabled] circle { cursor: default; touch-action: auto; }
    .draw-said { min-height: 4.6em; margin: 0.3rem 0 0; line-height: 1.5; }
    @media (max-width: 480px) { .draw-said { min-height: 7.6em; } }
    @media not all and (hover: hover) { .draw-keys { display: none; } }
  </style><svg class="draw-plot" role="group" aria-label="Loss against characters of context"><g></g>
    <path fill="none" stroke="${ORANGE}" stroke-width="2.5" stroke-dasharray="7 5"/><g></g>${rings.join("")}</svg>
  <div class="explorable-tools"><button type="button">Show what happened</button></div><p class="draw-said" role="status">${ASK}</p>`;
  const svg = place.querySelector("svg"), button = place.querySelector("button"), said = place.querySelector(".draw-said");
  const [frame, results] = svg.querySelectorAll("g:not(.draw-handle)"), line = svg.querySelector("path"), handles = [...svg.querySelectorAll(".draw-handle")];

  // Left of the plot stand the nats, right of it the names of the curves, below it the lengths.
  const LEFT = 26, RIGHT = 76, TOP = 32, BELOW = 58;
  const step = () => (width - LEFT - RIGHT) / Math.log2(last / first);
  const x = (n) => LEFT + Math.log2(n / first) * step();
  const y = (loss) => TOP + ((HIGH - loss) / (HIGH - LOW)) * (height - TOP - BELOW);
  const lossAt = (pixel) => HIGH - ((pixel - TOP) / (height - TOP - BELOW)) * (HIGH - LOW);
  const path = (points) => points.map(([n, loss], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(loss).toFixed(1)}`).join("");
  const text = (at, level, words, anchor = "start", name = "") => `<text x="${at.toFixed(1)}" y="${level.toFixed(1)}" text-anchor="${anchor}" class="${name}">${words}</text>`;
  const ruler = (x1, y1, x2, y2, how) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${how}/>`;

  handles.forEach((handle, i) => {
    handle.addEventListener("pointerdown", (event) => {
      if (event.button || shown) return;
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true, focusVisible: false });
      event.preventDefault();
    });
    // A shape's touch-action alone does not keep the page from scrolling under the finger.
    handle.addEventListener("touchstart", (event) => { if (!shown) event.preventDefault(); }, { passive: false });
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) move(i, lossAt(event.clientY - svg.getBoundingClientRect().top));
    });
    handle.addEventListener("keydown", (event) => {
      const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: 5 * STEP, PageDown: -5 * STEP, Home: -HIGH, End: HIGH }[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(i, drawn[i] + by);
    });
  });
  // A tap beyond the training length takes the nearest point there.
  svg.addEventListener("click", (event) => {
    if (event.target.closest(".draw-handle")) return;
    const box = svg.getBoundingClientRect(), px = event.clientX - box.left;
    const i = beyond.findIndex(([n]) => Math.abs(px - x(n)) < (x(last) - x(start[0])) / beyond.length / 2);
    if (i >= 0) move(i, lossAt(event.clientY - box.top));
  });

  function move(i, loss) {
    if (shown) return;
    begun = true;
    drawn[i] = Math.round(Math.min(Math.max(loss, LOW), HIGH) / STEP) * STEP;
    own();
  }

  // What the reader draws. It is all that changes under the finger.
  function own() {
    line.setAttribute("d", begun ? path([start, ...beyond.map(([n], i) => [n, drawn[i]])]) : "");
    handles.forEach((handle, i) => {
      handle.setAttribute("transform", `translate(${x(beyond[i][0]).toFixed(1)} ${y(drawn[i]).toFixed(1)})`);
      handle.setAttribute("aria-valuenow", drawn[i].toFixed(1));
      handle.setAttribute("aria-valuetext", `${drawn[i].toFixed(1)} nats per character`);
    });
    results.innerHTML = (shown ? measured() : "") + names();
  }

  // At the right ends of the curves, and apart from each other.
  function names() {
    const yours = y(drawn[drawn.length - 1]), real = y(beyond[beyond.length - 1][1]);
    const apart = shown ? Math.max(0, 18 - Math.abs(real - yours)) / 2 : 0, up = yours < real ? -1 : 1;
    return text(x(last) + 14, yours + up * apart + 4, "yours", "start", "draw-yours")
      + (shown ? text(x(last) + 14, real - up * apart + 4, "measured", "start", "draw-blue") : "");
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
    out += text(from, y(data.guess) - 6, `a blind guess among ${Math.round(Math.exp(data.guess))} characters`);
    const low = Math.max(...[...known, start].map(([, loss]) => loss)); // the curve's name stands clear of it
    out += text(from, y(low) - 10, `${data.method}, measured`, "start", "draw-blue");
    out += `<path d="${path([...known, start])}" fill="none" stroke="${BLUE}" stroke-width="3"/>`;
    for (const [n, loss] of [...known, start]) out += `<circle cx="${x(n)}" cy="${y(loss)}" r="3.5" fill="${BLUE}"/>`;
    return out;
  }

  // The measured curve: solid, squares, a bar of one standard deviation each side.
  function measured() {
    let out = `<path d="${path(data.measured)}" fill="none" stroke="${BLUE}" stroke-width="3"/>`;
    for (const [n, mean, spread] of beyond) {
      out += ruler(x(n), y(mean - spread), x(n), y(mean + spread), `stroke="${BLUE}" stroke-width="7" stroke-opacity="0.45"`);
      out += `<rect x="${x(n) - 4.5}" y="${y(mean) - 4.5}" width="9" height="9" fill="${BLUE}"/>`;
    }
    return out;
  }

  function draw() {
    width = place.clientWidth;
    height = width < 480 ? 300 : 350;
    // On a phone the part that the reader draws gets as much room as the part that is known.
    known = data.known.slice(width < 480 ? -beyond.length : 0);
    first = known[0][0];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    frame.innerHTML = axes();
    for (const handle of handles) handle.firstChild.setAttribute("r", Math.min(24, step() / 2));
    own();
  }

  button.addEventListener("click", () => {
    shown = !shown;
    for (const handle of handles) {
      if (shown) handle.setAttribute("aria-disabled", "true"); else handle.removeAttribute("aria-disabled");
    }
    button.textContent = shown ? "Draw again" : "Show what happened";
    if (shown) said.textContent = verdict(); else said.innerHTML = ASK;
    draw();
  });

  function verdict() {
    if (!begun) {
      const means = beyond.map(([n, mean, spread]) => `${mean.toFixed(2)} ± ${spread.toFixed(2)} at ${n}`);
      return `${data.method}, which you did not guess: ${means.join("; ")}.`;
    }
    const off = beyond.map(([, mean], i) => drawn[i] - mean), close = (i) => Math.abs(off[i]) <= Math.max(2 * beyond[i][2], STEP / 2);
    const each = beyond.map(([n, mean, spread], i) => `at ${n} it is ${mean.toFixed(2)} ± ${spread.toFixed(2)}, ${
      close(i) ? "as you drew" : `you drew ${drawn[i].toFixed(1)}, ${Math.abs(off[i]).toFixed(1)} too ${off[i] < 0 ? "low" : "high"}`}`);
    return `${off.every((_, i) => close(i)) ? "You saw it coming. " : ""}${data.method}: ${each.join("; ")}.`;
  }

  new ResizeObserver(() => { if (place.clientWidth !== width) draw(); }).observe(place);
  draw();
});
