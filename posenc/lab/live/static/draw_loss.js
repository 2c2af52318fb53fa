// Draw it: three points that the reader moves up and down, then the curve that was measured. See ../draw_loss.py.
posencLive("draw_loss", function (place, data) {
  "use strict";
  const LOW = 1, HIGH = 5, STEP = 0.1;
  const [start, ...beyond] = data.measured, first = data.known[0][0], last = beyond[beyond.length - 1][0];
  const drawn = beyond.map(() => 4); // off every curve: a level line would be an answer
  const ASK = `Move the three rings to where you expect the loss at ${beyond.map(([n]) => n).join(", ")} characters.`;
  let begun = false, shown = false, width = 0, height = 0;

  place.innerHTML = `<style>
    .draw-plot { display: block; width: 100%; overflow: visible; font: 13px system-ui, sans-serif; }
    .draw-plot text { fill: var(--x-text); }
    .draw-handle, .draw-handle circle { cursor: ns-resize; outline: none; touch-action: none; }
    .draw-handle .draw-ring { fill: var(--x-ground); stroke: var(--x-orange, #c45500); stroke-width: 2.5; }
    .draw-handle:focus-visible .draw-ring { stroke-width: 5; }
    .draw-handle:hover .draw-ring { fill: color-mix(in srgb, var(--x-orange, #c45500) 30%, var(--x-ground)); }
    .draw-handle[aria-disabled], .draw-handle[aria-disabled] circle { cursor: default; touch-action: auto; }
    .draw-said { min-height: 3.2em; margin: 0.3rem 0 0; line-height: 1.5; }
    @media (max-width: 480px) { .draw-said { min-height: 6.2em; } }
  </style><svg class="draw-plot" role="group" aria-label="Loss against characters of context"></svg>
  <div class="explorable-tools"><button type="button">Show what happened</button></div><p class="draw-said" role="status">${ASK}</p>`;
  const svg = place.querySelector("svg"), button = place.querySelector("button"), said = place.querySelector(".draw-said");

  function make(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  const x = (n) => 40 + (Math.log2(n / first) / Math.log2(last / first)) * (width - 74);
  const y = (loss) => 18 + ((HIGH - loss) / (HIGH - LOW)) * (height - 66);
  const lossAt = (pixel) => HIGH - ((pixel - 18) / (height - 66)) * (HIGH - LOW);
  const path = (points) => points.map(([n, loss], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(loss).toFixed(1)}`).join("");

  const line = make("path", { fill: "none", stroke: "var(--x-orange, #c45500)", "stroke-width": 2.5, "stroke-dasharray": "7 5" });
  const mine = make("text", { "text-anchor": "middle" });
  const handles = beyond.map(([n], i) => {
    const handle = make("g", {
      class: "draw-handle", role: "slider", tabindex: 0, "aria-orientation": "vertical",
      "aria-label": `Your loss at ${n} characters`, "aria-valuemin": LOW, "aria-valuemax": HIGH,
    });
    handle.append(make("circle", { r: 24, fill: "transparent" }), make("circle", { r: 9, class: "draw-ring" }));
    handle.addEventListener("pointerdown", (event) => {
      if (event.button || shown) return;
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true, focusVisible: false });
      event.preventDefault();
    });
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) move(i, lossAt(event.clientY - svg.getBoundingClientRect().top));
    });
    handle.addEventListener("keydown", (event) => {
      const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: 5 * STEP, PageDown: -5 * STEP, Home: -HIGH, End: HIGH }[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(i, drawn[i] + by);
    });
    return handle;
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
    const below = shown && beyond[0][1] > drawn[0] && drawn[0] > LOW + 0.3; // out of the way of the other curve
    mine.textContent = begun ? "yours" : "move me";
    mine.setAttribute("x", x(beyond[0][0]));
    mine.setAttribute("y", y(drawn[0]) + (below ? 26 : -16));
  }

  function frame() {
    const ink = "var(--x-text)", faint = { stroke: ink, "stroke-opacity": 0.18 }, all = [...data.known, ...data.measured];
    const parts = [];
    for (let nats = LOW; nats <= HIGH; nats++) {
      parts.push(make("line", { x1: x(first), x2: x(last), y1: y(nats), y2: y(nats), ...faint }));
      parts.push(make("text", { x: x(first) - 10, y: y(nats) + 4, "text-anchor": "end" }, nats));
    }
    parts.push(make("text", { x: 0, y: 8 }, "nats per character"));
    for (const [n] of all) parts.push(make("text", { x: x(n), y: height - 28, "text-anchor": "middle" }, n));
    parts.push(make("text", { x: (x(first) + x(last)) / 2, y: height - 6, "text-anchor": "middle" }, "characters of context"));
    parts.push(make("line", { x1: x(start[0]), x2: x(start[0]), y1: y(HIGH), y2: y(LOW), stroke: ink, "stroke-opacity": 0.5, "stroke-dasharray": "2 4" }));
    parts.push(make("text", { x: x(start[0]) - 6, y: y(HIGH - 0.75), "text-anchor": "end" }, width < 480 ? "trained" : `trained on ${start[0]}`));
    parts.push(make("line", { x1: x(first), x2: x(last), y1: y(data.guess), y2: y(data.guess), stroke: ink, "stroke-opacity": 0.5, "stroke-dasharray": "6 3 1 3" }));
    parts.push(make("text", { x: x(last), y: y(data.guess) - 4, "text-anchor": "end" }, "a blind guess"));
    parts.push(make("path", { d: path([...data.known, start]), fill: "none", stroke: ink, "stroke-width": 2.5 }));
    for (const [n, loss] of [...data.known, start]) parts.push(make("circle", { cx: x(n), cy: y(loss), r: 3.5, fill: ink }));
    return parts;
  }

  // The measured curve: solid, squares, a bar of one standard deviation each side.
  function measured() {
    const blue = "var(--x-blue, #0072b2)", parts = [make("path", { d: path(data.measured), fill: "none", stroke: blue, "stroke-width": 3 })];
    for (const [n, mean, spread] of beyond) {
      parts.push(make("line", { x1: x(n), x2: x(n), y1: y(mean - spread), y2: y(mean + spread), stroke: blue, "stroke-width": 7, "stroke-opacity": 0.45 }));
      parts.push(make("rect", { x: x(n) - 4.5, y: y(mean) - 4.5, width: 9, height: 9, fill: blue }));
    }
    const [n, mean] = beyond[beyond.length - 1], under = mean > drawn[drawn.length - 1] ? -16 : 24;
    parts.push(make("text", { x: x(n) + 20, y: y(mean) + under, "text-anchor": "end", "font-weight": 600 }, `${data.method}, measured`));
    return parts;
  }

  function draw() {
    const held = handles.indexOf(document.activeElement);
    width = place.clientWidth;
    height = width < 480 ? 290 : 340;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    svg.replaceChildren(...frame(), line, ...(shown ? measured() : []), mine, ...handles);
    own();
    if (held >= 0) handles[held].focus({ preventScroll: true });
  }

  button.addEventListener("click", () => {
    shown = !shown;
    for (const handle of handles) {
      if (shown) handle.setAttribute("aria-disabled", "true"); else handle.removeAttribute("aria-disabled");
    }
    button.textContent = shown ? "Draw again" : "Show what happened";
    said.textContent = shown ? verdict() : ASK;
    draw();
  });

  function verdict() {
    const off = beyond.map(([, mean], i) => drawn[i] - mean), close = (i) => Math.abs(off[i]) <= Math.max(2 * beyond[i][2], STEP / 2);
    const each = beyond.map(([n, mean, spread], i) => `at ${n} it is ${mean.toFixed(2)} ± ${spread.toFixed(2)}, ${
      close(i) ? "as you drew" : `you drew ${drawn[i].toFixed(1)}, ${Math.abs(off[i]).toFixed(1)} too ${off[i] < 0 ? "low" : "high"}`}`);
    return `${off.every((_, i) => close(i)) ? "You saw it coming. " : ""}${data.method}: ${each.join("; ")}.`;
  }

  new ResizeObserver(() => { if (place.clientWidth !== width) draw(); }).observe(place);
  draw();
});
