/* Break the stick by hand. The stick's pieces are beta_j times what the words before left, beta_j = sigmoid(logit_j). */
(function () {
  "use strict";

  const STYLE = `
    .sticks-name { margin: 0.5rem 0 0.25rem; font-size: 0.9rem; font-weight: 600; }
    figure.live .sticks-chips { justify-content: start; min-height: 1.9rem; }
    @media (max-width: 30rem) { figure.live .sticks-chips { min-height: 3.4rem; } }
    .sticks-bar { position: relative; height: 3.6rem; margin-right: 0.75rem; }
    .sticks-piece {
      position: absolute; inset: 0 auto 0 0; box-sizing: border-box; overflow: hidden; padding-top: 0.5rem;
      border: 1px solid var(--x-ground); background: color-mix(in srgb, var(--hue) 38%, var(--x-ground)); font-size: 0.9rem;
      line-height: 1.3; text-align: center;
    }
    .sticks-piece b, .sticks-piece i { display: block; font-style: normal; white-space: nowrap; }
    .sticks-piece i { font-size: 0.8125rem; font-variant-numeric: tabular-nums; }
    .sticks-rest { border: 1px dashed var(--x-muted); background: none; }
    .sticks-thin { position: relative; height: 1.4rem; margin: 0.75rem 0.75rem 0 0; font-size: 0.8125rem; line-height: 1.4rem; }
    .sticks-thin span {
      position: absolute; padding: 0 0.2rem; border-radius: 0.3rem; background: color-mix(in srgb, var(--hue) 38%, var(--x-ground));
      white-space: nowrap;
    }
    .sticks-mark { position: absolute; top: 3.6rem; width: 0; height: 0.5rem; border-left: 2px solid var(--x-muted); }
    .sticks-cut {
      position: absolute; top: 1.8rem; width: 1.75rem; height: 2rem; margin-left: -0.875rem; padding: 0; border: 0; color: inherit;
      background: none; cursor: ew-resize; touch-action: none;
    }
    .sticks-cut::before {
      position: absolute; top: -2rem; left: calc(50% - 1.5px); width: 3px; height: 4rem; background: currentColor;
      pointer-events: none; content: "";
    }
    .sticks-cut::after {
      position: absolute; top: 50%; left: 50%; width: 1rem; height: 1rem; border: 2px solid; border-radius: 50%;
      background: var(--x-ground); transform: translate(-50%, -50%); content: "";
    }
    .sticks-cut:nth-of-type(odd) { top: -0.4rem; }
    .sticks-cut:nth-of-type(odd)::before { top: 0; }
    @media (max-width: 30rem) { .sticks-cut:not(:active)::after { width: 0.6rem; height: 0.6rem; } }
    .sticks-cut:focus-visible { outline: 2px solid var(--x-accent); }
    .sticks-words { display: flex; flex-wrap: wrap; gap: 0.25rem; align-items: center; margin-bottom: 0.4rem; }
    .sticks-word { padding: 0.2rem 0.5rem; border-radius: 0.4rem; background: color-mix(in srgb, var(--hue) 38%, var(--x-ground)); }
    .sticks-swap {
      min-width: 1.9rem; min-height: 1.9rem; padding: 0; border: 1px solid var(--x-line); border-radius: 0.4rem; background: none;
      color: inherit; cursor: pointer;
    }
  `;

  function weights(logits) {
    let left = 1;
    const stick = logits.map((z) => {
      const piece = left / (1 + Math.exp(-z));
      left /= 1 + Math.exp(z);
      return piece;
    });
    const top = Math.max(...logits), parts = logits.map((z) => Math.exp(z - top)), sum = parts.reduce((a, b) => a + b, 0);
    return { stick: [...stick, left], softmax: parts.map((p) => p / sum) };
  }

  posencLive("sticks", function (place, data, make) {
    const put = (parent, ...parts) => parent.appendChild(make(...parts));
    put(place, "style", "", {}).textContent = STYLE;
    const count = data.words.length, order = data.words.map((_, i) => i), logits = data.logits.slice();
    const entry = window.posencExplorables?.get("sticks") || {}; // the player reads and writes the address
    let before = weights(logits), moved = false; // what a move is measured against: the state when it began

    const chips = put(place, "p", "explorable-readout sticks-chips", {});
    const bars = {}, cuts = [];
    for (const [key, name] of [["stick", "stick-breaking: each word cuts its share of what is left"], ["softmax", "softmax of the same logits"]]) {
      put(place, "p", "sticks-name", {}).textContent = name;
      const bar = put(place, "div", "sticks-bar", {});
      bars[key] = { bar, pieces: [], marks: [], thin: put(place, "div", "sticks-thin", { "aria-hidden": "true" }) };
      for (let i = 0; i < count + (key === "stick"); i++) {
        const piece = put(bar, "span", "sticks-piece", {});
        put(piece, "b", "", {});
        put(piece, "i", "", {});
        bars[key].pieces.push(piece);
      }
      for (let i = 1; i < count + (key === "stick"); i++) bars[key].marks.push(put(bar, "span", "sticks-mark", { "aria-hidden": "true" }));
    }
    const stick = bars.stick.bar;
    for (let i = 0; i < count; i++) cuts.push(put(stick, "button", "sticks-cut", { type: "button", role: "slider", "aria-valuemin": 0, "aria-valuemax": 1 }));
    put(place, "p", "sticks-name", {}).textContent = "swap two neighbors";
    const row = put(place, "div", "sticks-words", {}), tiles = [], swaps = [];
    for (let i = 0; i < count; i++) {
      tiles.push(put(row, "span", "sticks-word", {}));
      if (i < count - 1) swaps.push(put(row, "button", "sticks-swap", { type: "button" }));
    }
    const tools = put(place, "div", "explorable-tools", {});
    const reset = put(tools, "button", "", { type: "button" });
    reset.textContent = "Reset";
    const spoken = put(place, "p", "explorable-spoken", { role: "status" });

    function draw() {
      const now = weights(order.map((k) => logits[k]));
      const values = { stick: now.stick, softmax: now.softmax };
      for (const key of ["stick", "softmax"]) {
        let at = 0, was = 0, right = 0;
        const { bar, thin } = bars[key], wide = bar.clientWidth, named = [];
        thin.replaceChildren();
        bars[key].pieces.forEach((piece, i) => {
          const share = values[key][i], word = i < count ? data.words[order[i]] : "left over";
          piece.style.left = `${100 * at}%`;
          piece.style.width = `${100 * share}%`;
          piece.style.setProperty("--hue", i < count ? data.hues[order[i]] : "var(--x-muted)");
          piece.classList.toggle("sticks-rest", i === count);
          const room = share * wide; // words that do not fit stand below their piece
          const fits = room > Math.max(9 * word.length + 8, 34);
          piece.firstChild.textContent = fits ? word : "";
          if (i < count && !fits) {
            const tag = put(thin, "span", "", {});
            tag.textContent = `${word} ${share.toFixed(2)}`;
            tag.style.setProperty("--hue", data.hues[order[i]]);
            named.push([tag, (at + share / 2) * wide]);
          }
          piece.lastChild.textContent = (i < count ? fits : room > 34) ? share.toFixed(2) : "";
          piece.title = `${word}: ${share.toFixed(3)}`;
          at += share;
          was += before[key][i];
          const mark = bars[key].marks[i];
          if (mark) mark.style.left = `${100 * was}%`;
          if (key === "stick" && i < count) cuts[i].style.left = `${100 * at}%`;
        });
        let end = wide; // from the right, each as near its piece as the ones beside it let it be
        const sizes = named.map(([tag]) => tag.offsetWidth + 3);
        named.forEach(([, middle], i) => { named[i][2] = right = Math.max(middle - sizes[i] / 2, right); right += sizes[i]; });
        for (let i = named.length - 1; i >= 0; i--) {
          end = Math.min(named[i][2], end - sizes[i]);
          named[i][0].style.left = `${Math.max(end, 0)}px`;
        }
      }
      order.forEach((k, i) => {
        const beta = 1 / (1 + Math.exp(-logits[k]));
        cuts[i].setAttribute("aria-label", `share of what is left that “${data.words[k]}” takes`);
        cuts[i].setAttribute("aria-valuenow", beta.toFixed(2));
        cuts[i].setAttribute("aria-valuetext", `${beta.toFixed(2)}, a piece of ${now.stick[i].toFixed(2)}`);
        tiles[i].textContent = data.words[k];
        tiles[i].style.setProperty("--hue", data.hues[k]);
        if (i < count - 1) swaps[i].setAttribute("aria-label", `swap “${data.words[k]}” and “${data.words[order[i + 1]]}”`);
        if (i < count - 1) swaps[i].textContent = "⇄";
      });
      const changed = (key) => now[key].slice(0, count).filter((v, i) => Math.abs(v - before[key][i]) > 1e-9).length;
      const parts = [`left over ${now.stick[count].toFixed(2)}`];
      if (moved) parts.push(`stick: ${changed("stick")} of ${count} changed`, `softmax: ${changed("softmax")} of ${count}`);
      else parts.push("drag a cut, or swap");
      chips.replaceChildren();
      parts.forEach((part, i) => {
        if (i) put(chips, "span", "explorable-dot", {}).textContent = " · ";
        put(chips, "span", "explorable-chip", {}).textContent = part;
      });
      place.dataset.stick = JSON.stringify(now.stick);
      place.dataset.softmax = JSON.stringify(now.softmax);
    }

    // A move begins: what stands now is what it is measured against.
    function begin() {
      before = weights(order.map((k) => logits[k]));
      moved = true;
    }

    function tell() {
      entry.writeLink?.();
      setTimeout(() => { spoken.textContent = chips.textContent; }, 300);
    }

    function setShare(i, beta) {
      const kept = Math.min(Math.max(beta, 0.02), 0.98);
      logits[order[i]] = Math.log(kept / (1 - kept));
      draw();
    }

    cuts.forEach((cut, i) => {
      let held = null;
      cut.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        cut.setPointerCapture(event.pointerId);
        begin();
        const start = before.stick.slice(0, i).reduce((a, b) => a + b, 0);
        held = { start, left: 1 - start, box: stick.getBoundingClientRect() };
      });
      cut.addEventListener("pointermove", (event) => {
        if (held) setShare(i, ((event.clientX - held.box.left) / held.box.width - held.start) / held.left);
      });
      for (const kind of ["pointerup", "pointercancel"]) cut.addEventListener(kind, () => { if (held) tell(); held = null; });
      cut.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 0.02, ArrowUp: 0.02, ArrowLeft: -0.02, ArrowDown: -0.02, PageUp: 0.1, PageDown: -0.1 }[event.key];
        if (!step) return;
        event.preventDefault();
        if (!event.repeat) begin();
        setShare(i, 1 / (1 + Math.exp(-logits[order[i]])) + step);
        tell();
      });
    });
    swaps.forEach((button, i) => button.addEventListener("click", () => {
      begin();
      [order[i], order[i + 1]] = [order[i + 1], order[i]];
      // Measured by word, not by place: the two pieces change places in both bars.
      for (const key of ["stick", "softmax"]) [before[key][i], before[key][i + 1]] = [before[key][i + 1], before[key][i]];
      draw();
      tell();
    }));
    function restart() {
      order.sort((a, b) => a - b);
      data.logits.forEach((z, i) => { logits[i] = z; });
    }
    reset.addEventListener("click", () => {
      restart();
      moved = false;
      before = weights(logits);
      draw();
      tell();
    });
    // An answer to the question above, or a link: these words' shares, the others as at first; all words, their order too.
    place.addEventListener("set", ({ detail }) => {
      const shares = Object.entries(detail).map(([word, beta]) => [data.words.indexOf(word), Number(beta)]).filter(([k, beta]) => k >= 0 && beta > 0);
      restart();
      begin();
      if (shares.length === count) shares.forEach(([k], i) => { order[i] = k; });
      for (const [k, beta] of shares) setShare(order.indexOf(k), beta);
      tell();
    });
    const share = (k) => `${data.words[k]}:${(1 / (1 + Math.exp(-logits[k]))).toFixed(2)}`;
    Object.assign(entry, { ready: () => true, changed: () => moved, link: () => `sticks=${order.map(share)}` });
    draw();
    if (window.ResizeObserver) new ResizeObserver(draw).observe(stick);
  });
})();
