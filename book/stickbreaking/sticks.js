/* Break the stick by hand. The stick's pieces are beta_j times what the words before left, beta_j = sigmoid(logit_j). */
(function () {
  "use strict";

  const STYLE = `
    figure.live .sticks-name { display: flex; justify-content: space-between; align-items: end; max-width: none; min-height: 1.7rem; margin: 0 0.75rem 0.2rem 0; font-size: 0.9rem; font-weight: 600; }
    .sticks-name b { color: var(--x-accent); font-size: 1.125rem; line-height: 1.3; white-space: nowrap; }
    .sticks-was, .sticks-bar { position: relative; height: 5.75rem; margin-right: 0.75rem; }
    .sticks-was { height: 1.15rem; font-size: 0.75rem; line-height: 1rem; text-align: center; }
    .sticks-was span { position: absolute; inset: 0 auto 0 0; box-sizing: border-box; border: 1px dashed var(--x-muted); background: color-mix(in srgb, var(--hue) 16%, var(--x-ground)); }
    .sticks-piece {
      --tint: color-mix(in srgb, var(--hue) 38%, var(--x-ground)); position: absolute; inset: 0 auto 0 0; display: flex; flex-direction: column;
      justify-content: center; box-sizing: border-box; overflow: hidden; border: 1px solid var(--x-ground); background: var(--tint); font-size: 0.9rem; line-height: 1.3; text-align: center;
    }
    .sticks-changed { background: repeating-linear-gradient(135deg, var(--tint) 0 7px, color-mix(in srgb, var(--hue) 14%, var(--x-ground)) 7px 11px); }
    .sticks-upright { writing-mode: vertical-rl; transform: rotate(180deg); font-size: 0.8125rem; line-height: 1.15; }
    .sticks-piece :is(b, i) { font-style: normal; font-variant-numeric: tabular-nums; white-space: nowrap; }
    .sticks-rest { border: 1px dashed var(--x-muted); background: none; }
    .sticks-cut {
      position: absolute; top: 5.75rem; width: 1.75rem; height: 1.75rem; margin-left: -0.875rem; padding: 0; border: 0; color: inherit;
      background: none; cursor: ew-resize; touch-action: none;
    }
    .sticks-cut::before {
      position: absolute; top: -5.75rem; left: calc(50% - 1.5px); width: 3px; height: 6.5rem; background: currentColor;
      pointer-events: none; content: "";
    }
    .sticks-cut::after {
      position: absolute; top: 50%; left: 50%; width: 1.1rem; height: 1.1rem; box-sizing: border-box; border: 2px solid; border-radius: 50%;
      background: var(--x-ground); transform: translate(-50%, -50%); content: "";
    }
    .sticks-cut:nth-of-type(even) { top: 7.4rem; }
    .sticks-cut:nth-of-type(even)::before { top: -7.4rem; height: 8.2rem; }
    .sticks-cut:focus-visible { outline: 2px solid var(--x-accent); }
    .sticks-hung { margin-bottom: 3.6rem; }
    .sticks-words { display: flex; gap: 0.2rem; align-items: center; margin: 0.6rem 0; }
    .sticks-word { flex: auto; padding: 0.2rem 0.4rem; border-radius: 0.4rem; background: color-mix(in srgb, var(--hue) 38%, var(--x-ground)); font-size: 0.9rem; text-align: center; }
    .sticks-swap {
      flex: none; min-width: 1.6rem; min-height: 1.9rem; padding: 0; border: 1px solid var(--x-line); border-radius: 0.4rem; background: none;
      color: inherit; cursor: pointer;
    }
    .sticks-under { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: center; }
    @media (max-width: 30rem) {
      .sticks-words { gap: 2px; margin-bottom: 0.2rem; }
      .sticks-word { padding: 0.2rem 2px; font-size: 0.8125rem; }
      .sticks-swap { min-width: 1.5rem; }
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
    // What a move is measured against: what stood when this cut was taken up (`taken`, its word), or before a swap.
    let was, taken = null, moved = false;

    const bars = {}, cuts = [];
    for (const [key, name] of [["stick", "stick-breaking"], ["softmax", "softmax"]]) {
      const title = put(place, "p", "sticks-name", {}), former = put(place, "div", "sticks-was", { "aria-hidden": "true" });
      title.append(name);
      const bar = put(place, "div", `sticks-bar${key === "stick" ? " sticks-hung" : ""}`, {});
      bars[key] = { bar, pieces: [], former: [], verdict: put(title, "b", "", {}) };
      for (let i = 0; i < count + (key === "stick"); i++) {
        bars[key].former.push(put(former, "span", "", {}));
        bars[key].pieces.push(put(bar, "span", "sticks-piece", {}));
      }
    }
    const stick = bars.stick.bar;
    for (let i = 0; i < count; i++) cuts.push(put(stick, "button", "sticks-cut", { type: "button", role: "slider", "aria-valuemin": 0, "aria-valuemax": 1 }));
    const under = put(place, "div", "sticks-under", {}), row = put(under, "div", "sticks-words", {}), tiles = [], swaps = [];
    for (let i = 0; i < count; i++) {
      tiles.push(put(row, "span", "sticks-word", {}));
      if (i < count - 1) swaps.push(put(row, "button", "sticks-swap", { type: "button" }));
    }
    const tools = put(under, "div", "explorable-tools", {});
    const reset = put(tools, "button", "", { type: "button" });
    reset.textContent = "Reset";
    const spoken = put(place, "p", "explorable-spoken", { role: "status" });

    function draw() {
      const now = weights(order.map((k) => logits[k]));
      for (const key of ["stick", "softmax"]) {
        const { bar, pieces, former, verdict } = bars[key], all = [...order, count];
        const lay = (span, at, share, k) => {
          Object.assign(span.style, { left: `${100 * at}%`, width: `${100 * share}%` });
          span.style.setProperty("--hue", k < count ? data.hues[k] : "var(--x-muted)");
        };
        let at = 0, then = 0, changed = 0;
        const widest = was[key].indexOf(Math.max(...was[key]));
        pieces.forEach((piece, i) => {
          const k = all[i], share = now[key][i], room = share * bar.clientWidth, word = k < count ? data.words[k] : "left over";
          const other = k < count && Math.abs(share - was[key][was.order.indexOf(k)]) > 1e-9, upright = room < Math.max(8.5 * word.length + 6, 42);
          lay(piece, at, share, k);
          lay(former[i], then, was[key][i], [...was.order, count][i]);
          former[i].textContent = i === widest ? "before" : "";
          changed += other;
          piece.className = `sticks-piece${k === count ? " sticks-rest" : ""}${other ? " sticks-changed" : ""}${upright ? " sticks-upright" : ""}`;
          const lines = [...(upright ? [`${word.split(" ")[0]} ${share.toFixed(2)}`] : [word, share.toFixed(2)]), moved && k < count && !other ? "same" : ""];
          piece.replaceChildren(...lines.slice(0, upright ? Math.floor(room / 16) : 3).map((said, line) => Object.assign(make(line === 1 && !upright ? "i" : "b", "", {}), { textContent: said })));
          piece.title = `${word}: ${share.toFixed(3)}`;
          at += share;
          then += was[key][i];
          if (key === "stick" && i < count) cuts[i].style.left = `${100 * at}%`;
        });
        verdict.textContent = moved ? `${changed} of ${count} changed` : key === "stick" ? "drag a cut" : "";
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
      place.dataset.stick = JSON.stringify(now.stick);
      place.dataset.softmax = JSON.stringify(now.softmax);
    }

    function begin(who) {
      was = { ...weights(order.map((k) => logits[k])), order: [...order] };
      [taken, moved] = [who, true];
    }

    function tell() {
      entry.writeLink?.();
      setTimeout(() => { spoken.textContent = moved ? ["stick", "softmax"].map((key) => `${key}: ${bars[key].verdict.textContent}`).join(", ") : ""; }, 300);
    }

    function setShare(i, beta, who = order[i]) {
      const kept = Math.min(Math.max(beta, 0.02), 0.98);
      if (Math.abs(kept - 1 / (1 + Math.exp(-logits[order[i]]))) < 1e-9) return; // at its limit
      if (taken !== who) begin(who);
      logits[order[i]] = Math.log(kept / (1 - kept));
      draw();
    }

    cuts.forEach((cut, i) => {
      let held = null;
      cut.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        cut.setPointerCapture(event.pointerId);
        const start = weights(order.map((k) => logits[k])).stick.slice(0, i).reduce((a, b) => a + b, 0);
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
        setShare(i, 1 / (1 + Math.exp(-logits[order[i]])) + step);
        tell();
      });
    });
    swaps.forEach((button, i) => button.addEventListener("click", () => {
      begin();
      [order[i], order[i + 1]] = [order[i + 1], order[i]];
      draw();
      tell();
    }));
    function restart() {
      order.sort((a, b) => a - b);
      data.logits.forEach((z, i) => { logits[i] = z; });
    }
    reset.addEventListener("click", () => {
      restart();
      begin();
      moved = false;
      draw();
      tell();
    });
    // An answer to the question above, or a link: these words' shares, the others as at first; all words, their order too.
    place.addEventListener("set", ({ detail }) => {
      const shares = Object.entries(detail).map(([word, beta]) => [data.words.indexOf(word), Number(beta)]).filter(([k, beta]) => k >= 0 && beta > 0);
      restart();
      begin("link");
      if (shares.length === count) shares.forEach(([k], i) => { order[i] = k; });
      for (const [k, beta] of shares) setShare(order.indexOf(k), beta, "link");
      draw();
      tell();
    });
    const share = (k) => `${data.words[k]}:${(1 / (1 + Math.exp(-logits[k]))).toFixed(2)}`;
    Object.assign(entry, { ready: () => true, changed: () => moved, link: () => `sticks=${order.map(share)}` });
    begin();
    moved = false;
    draw();
    if (window.ResizeObserver) new ResizeObserver(draw).observe(stick);
  });
})();
