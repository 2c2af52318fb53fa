/* The player of posenc's explorables: one script for the book's pages, the pages to embed, and a notebook's output.
 *
 * A page loads this file as a classic script, since browsers load no module from file://. It lists each
 * figure.explorable it finds (posenc/lab/explore/page.py writes them), but draws nothing until the reader has done
 * anything on the page. From then on a figure that comes near, is touched or is named by the address loads plotly and
 * its states (posenc/lab/explore/states.py documents their form), draws over the static picture, and redraws while a
 * control moves.
 */
(function () {
  "use strict";
  if (window.posencExplorables) return;

  const { src = "" } = document.currentScript || {};
  const home = src.replace(/[^/]*$/, ""); // empty in a notebook
  const list = []; // one entry a figure
  const states = {}; // id -> states, as the data files register them
  const loading = {}; // url -> promise

  // ---- colors: each color of explore.COLORS with its twin on dark ground

  const DARK = {
    "#0072b2": "#5bb3ec", "#c45500": "#f0954a", "#00805a": "#3fc79a", "#a8468a": "#dd8fc4", "#2a8fc9": "#86cdf5",
    "#c0392b": "#f0857a", "#a07800": "#e3bd45", "#6b7280": "#a3abb8", "#1f2933": "#e6e9ee",
    "#2166ac": "#7db8ea", "#7fb0d5": "#3f7299", "#f2f2f2": "#2a2e35", "#e3a36b": "#9a6330", "#b35806": "#f4a860",
  };
  const GROUND = {
    light: { ink: "#1f2933", grid: "#e3e6ea", zero: "#aab2bd", card: "#ffffff" },
    dark: { ink: "#e6e9ee", grid: "#363b44", zero: "#6a7280", card: "#1d2127" },
  };

  const nightfall = window.matchMedia("(prefers-color-scheme: dark)");
  const forced = window.matchMedia("(forced-colors: active)"); // the system's palette stands over any choice made here
  function dark() {
    const html = document.documentElement, body = document.body;
    if (forced.matches || html.dataset.theme === "auto") return nightfall.matches;
    if (html.dataset.theme) return html.dataset.theme === "dark";
    if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false"; // JupyterLab
    if (html.getAttribute("theme")) return html.getAttribute("theme") === "dark"; // Colab
    return /\bvscode-(dark|high-contrast)\b(?!-light)/.test(body.className);
  }

  // A copy of a figure's dicts with the theme's colors. Numbers keep their identity: plotly redraws what is new.
  function paint(tree, night) {
    if (typeof tree === "string") return (night && DARK[tree.toLowerCase()]) || tree;
    if (!tree || typeof tree !== "object" || ArrayBuffer.isView(tree)) return tree;
    if (Array.isArray(tree)) {
      const numbers = (typeof tree[0] === "number" && typeof tree[1] !== "string") || ArrayBuffer.isView(tree[0]);
      return night && !numbers ? tree.map((v) => paint(v, true)) : tree;
    }
    return Object.fromEntries(Object.entries(tree).map(([key, value]) => [key, paint(value, night)]));
  }

  const FACES = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const templates = {};
  function template(night, small) {
    const key = `${night}${small}`, c = GROUND[night ? "dark" : "light"];
    if (templates[key]) return templates[key];
    const axis = {
      gridcolor: c.grid, zerolinecolor: c.zero, linecolor: c.zero, zerolinewidth: 1, fixedrange: true, automargin: true,
      ticklabeloverflow: "allow", title: small ? { standoff: 8, font: { size: 12 } } : { standoff: 8 },
      tickfont: { size: small ? 11 : 12 }, hoverformat: ".4~g",
    };
    const map = { colorbar: { outlinewidth: 0, thickness: 12, tickfont: { size: 11 } }, hoverongaps: false };
    templates[key] = {
      layout: {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: FACES, size: small ? 12 : 13, color: c.ink },
        margin: small ? { l: 44, r: 12, t: 36, b: 40 } : { l: 56, r: 20, t: 40, b: 48 },
        legend: {
          orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false,
        },
        hovermode: "closest", dragmode: false,
        hoverlabel: { bgcolor: c.card, bordercolor: c.zero, font: { color: c.ink } },
        xaxis: axis, yaxis: axis, bargap: 0.15,
        annotationdefaults: { font: { color: c.ink }, arrowcolor: c.ink },
      },
      data: { heatmap: [map] }, // a gap has no number to tell
    };
    return templates[key];
  }

  function merge(tree, more) {
    for (const [key, value] of Object.entries(more)) {
      if (value && value.constructor === Object) merge(tree[key] = { ...tree[key] }, value); else tree[key] = value;
    }
  }

  // ---- states: what arrays.py encoded, read back

  const KINDS = { u1: [Uint8Array, 255], u2: [Uint16Array, 65535], f4: [Float32Array, NaN] };

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out.buffer;
  }

  const size = (shape) => shape.reduce((a, b) => a * b, 1);

  function open(record) {
    if (typeof record.index === "string") record.rowOf = new Uint16Array(bytes(record.index));
    if (record.type !== "json") {
      record.codes = new KINDS[record.type][0](bytes(record.data));
      if (record.shapes) {
        record.starts = [0];
        for (const shape of record.shapes) record.starts.push(record.starts[record.starts.length - 1] + size(shape));
      }
    }
    record.made = new Map();
  }

  // Equal arrays are stored once: states with the same row draw the same.
  function rowOf(record, place) {
    return record.rowOf ? record.rowOf[place] : record.index === undefined ? place : record.index;
  }

  function read(record, place, plain) {
    const row = rowOf(record, place);
    if (record.type === "json") return record.rows[row];
    if (record.made.has(row)) return record.made.get(row);
    const shape = record.shape || record.shapes[row], wide = shape[1];
    const count = size(shape), start = record.starts ? record.starts[row] : row * count;
    const gap = KINDS[record.type][1], { codes, min, step } = record;
    const flat = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const code = codes[start + i];
      flat[i] = record.type === "f4" ? code : code === gap ? NaN : min + step * code;
    }
    const part = (from, to) => (plain ? Array.from(flat.subarray(from, to)) : flat.subarray(from, to));
    const value = shape.length === 0 ? flat[0] : shape.length === 1 ? part(0, count)
      : Array.from({ length: shape[0] }, (_, i) => part(i * wide, (i + 1) * wide));
    if (record.made.size > 64) record.made.clear();
    record.made.set(row, value);
    return value;
  }

  function put(tree, path, value) {
    const keys = path.split("."), end = keys.pop();
    for (const key of keys) tree = tree[key] && typeof tree[key] === "object" ? tree[key] : (tree[key] = {});
    tree[end] = value;
  }

  // The place of the nearest value.
  function closest(values, goal) {
    return values.reduce((best, v, i) => (Math.abs(v - goal) < Math.abs(values[best] - goal) ? i : best), 0);
  }

  // ---- numbers in words: as Python's format writes them, then as print has them (readout.py)

  const raised = (power) => String(Number(power)).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  const printed = (text) => text.replace(/^-(?=[0.]+%?$)/, "")
    .replace(/e([+-]\d+)$/, (_, power) => `×10${raised(power)}`).replace(/^([+-]?)1×/, "$1").replace("-", "−");

  function words(value, spec) {
    if (typeof value === "string") return value;
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    return printed(plain(value, spec));
  }

  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

  function plain(value, spec) {
    const plus = spec.startsWith("+") ? (value < 0 ? "" : "+") : "";
    const kind = /[fegd%s]$/.test(spec) ? spec.slice(-1) : "g";
    const found = /\.(\d+)/.exec(spec);
    const digits = found ? Number(found[1]) : 6;
    if (kind === "f") return plus + value.toFixed(digits);
    if (kind === "%") return plus + (value * 100).toFixed(digits) + "%";
    if (kind === "e") return plus + value.toExponential(digits);
    if (kind === "d") return plus + String(Math.round(value));
    const p = Math.max(digits, 1), exponent = value === 0 ? 0 : Number(value.toExponential(p - 1).split("e")[1]);
    if (exponent < -4 || exponent >= p) {
      const [head, tail] = value.toExponential(p - 1).split("e");
      return `${plus}${trimmed(head)}e${tail}`;
    }
    return plus + trimmed(value.toFixed(Math.max(p - 1 - exponent, 0)));
  }

  // ---- what is under way: timers, frames, loads and draws. `posencExplorables.idle()` resolves when nothing is.

  const timers = new Set();
  let open_ = 0;

  function later(act, ms) {
    const timer = setTimeout(() => { timers.delete(timer); act(); }, ms);
    timers.add(timer);
    return timer;
  }

  function never(timer) {
    timers.delete(timer);
    clearTimeout(timer);
  }

  function until(promise) {
    open_ += 1;
    promise.finally(() => { open_ -= 1; }).catch(() => {});
    return promise;
  }

  const frame = (act) => until(new Promise(requestAnimationFrame)).then(act);

  // Two frames in a row with nothing under way: an observer of sizes speaks between two.
  async function idle() {
    for (let still = 0; still < 2; still = timers.size || open_ ? 0 : still + 1) {
      await new Promise((done) => requestAnimationFrame(done));
    }
  }

  // ---- loading

  function load(url) {
    loading[url] = loading[url] || new Promise((done, fail) => {
      const tag = Object.assign(document.createElement("script"), { src: url, onload: done });
      tag.onerror = () => {
        delete loading[url]; // the next touch tries again
        fail(new Error(`could not load ${url}`));
      };
      document.head.appendChild(tag);
    });
    return loading[url];
  }

  let plotly = null; // a promise of the library, where a notebook's output brought it along
  function library(packed) {
    if (packed) plotly = plotly || unpack(packed);
    return plotly || (window.Plotly ? Promise.resolve(window.Plotly)
      : load(`${home}plotly-cartesian.min.js`).then(() => window.Plotly));
  }

  async function unpack(packed) {
    const stream = new Blob([bytes(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
    const source = await new Response(stream).text();
    const before = window.Plotly, tag = document.createElement("script");
    // `define`, `module` and `exports` are hidden from plotly's loader, whatever the page has put there.
    tag.textContent = `(function (define, module, exports) {${source}\n})();`;
    document.head.appendChild(tag);
    const mine = window.Plotly;
    if (before) window.Plotly = before;
    return mine;
  }

  function make(tag, name, attributes) {
    const made = document.createElement(tag);
    made.className = name;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // ---- one control: a slider, or a row of buttons

  function Control(element) {
    const inputs = [...element.querySelectorAll("input")], range = inputs[0].type === "range" ? inputs[0] : null;
    const value = element.querySelector(".explorable-value"), play = element.querySelector(".explorable-play");
    let greyed = false, most = Infinity;
    // A button is shut above the limit, and all inputs while the control is greyed.
    const shut = () => inputs.forEach((input, i) => { input.disabled = greyed || i > most; });
    return {
      element, play,
      get greyed() { return greyed; },
      get value() { return range ? Number(range.value) : inputs.findIndex((r) => r.checked); },
      set value(n) {
        if (range) range.max = Math.max(range.max, n); // as a place above the limit is refused
        if (range) range.value = n; else inputs[n].checked = true;
      },
      limit(n) {
        if (this.value > n) this.value = n;
        if (range) range.max = n; else most = n;
        shut();
      },
      say(text) {
        if (!range) return;
        range.setAttribute("aria-valuetext", text);
        value.textContent = text;
      },
      grey(on) {
        greyed = on;
        element.classList.toggle("explorable-greyed", on);
        if (!range) element.setAttribute("aria-disabled", on);
        if (play) play.disabled = on;
        shut();
      },
      showPlay(on, calm) {
        if (!play) return;
        const word = calm ? "Step" : on ? "Pause" : "Play";
        play.textContent = calm ? "Step" : on ? "❚❚" : "▶";
        play.setAttribute("aria-label", `${word}: ${play.dataset.label}`);
      },
    };
  }

  // ---- one figure

  function Explorable(figure, packed) {
    const body = figure.querySelector("[data-explorable]");
    const controls = Array.from(body.querySelectorAll(".explorable-control"), (element) => Control(element));
    const self = {
      id: body.dataset.explorable, figure, controls, state, set, readout, start, draw, changed, link,
      ready: () => record !== null, redraw: request,
    };
    const place = body.querySelector(".explorable-plot");
    const line = body.querySelector(".explorable-readout");
    const spoken = make("p", "explorable-spoken", { role: "status" }); // what a screen reader is told, out of sight
    const note = make("p", "explorable-note", {}); // what is wrong, or slow, in sight
    const defaults = controls.map((c) => c.value);
    let record = null, library_ = null, sheet = null, started = null, asked = false;
    let said = "", playing = null; // the readout; the control that plays
    let drawn = new Map(), heard = null; // the words in the drawing, now, and when a screen reader was last told
    let rings = [], dragged = false; // what can be taken in hand, and whether it was
    const free = new Set(); // the handles that are no upright or level lines
    const answer = JSON.parse(body.dataset.waits || "[]"); // traces that are missing as long as a question is open
    const waits = () => figure.classList.contains("explorable-waits"), missing = (trace) => waits() && answer.includes(trace);
    let width = 0, height = 0; // asked for when they change only: asking makes the browser lay out the page
    let late = 0, telling = 0, resting = 0;

    const indices = () => controls.map((c) => c.value);

    function state() {
      return Object.fromEntries(record.sliders.map((s, i) => [s.name, s.values[controls[i].value]]));
    }

    function changed() {
      return indices().some((v, i) => v !== defaults[i]);
    }

    // What the address says of this figure.
    function link() {
      const moved = record.sliders.map((s, i) => [s, controls[i].value]).filter(([, v], i) => v !== defaults[i]);
      return `${self.id}=${moved.map(([s, v]) => `${s.name}:${encodeURIComponent(s.values[v])}`).join(",")}`;
    }

    // The largest place of a control: another one may limit its value.
    function last(i, at) {
      const s = record.sliders[i];
      if (s.atMost === undefined) return s.values.length - 1;
      const limit = record.sliders[s.atMost].values[at[s.atMost]];
      return s.values.findLastIndex((v) => v <= limit);
    }

    // Keep each control within its limit, and say its value in words, in sight and to a screen reader.
    function say() {
      controls.forEach((c, i) => {
        if (record) c.limit(last(i, indices()));
        if (record) c.say(record.sliders[i].words[c.value]);
        else if (c.value !== defaults[i]) c.say("…"); // no words before the states are here
      });
      figure.classList.toggle("explorable-moved", changed());
      never(resting);
      if (record) resting = later(grey, 120);
    }

    // Whether control i draws anything else at another of its values, the other controls standing at `at`.
    function matters(i, at) {
      const tables = record.tables.filter((t) => t.groups.some((g) => g.of.some(([k]) => k === i)));
      return tables.some((table) => {
        const arrays = Object.values(table.arrays), other = at.slice(), places = new Set();
        for (other[i] = 0; other[i] <= last(i, at); other[i]++) places.add(placeOf(table, other));
        const [first, ...more] = places;
        return more.some((n) => arrays.some((a) => rowOf(a, n) !== rowOf(a, first)));
      });
    }

    // What changes nothing in this state is greyed, and cannot be taken in hand.
    function grey() {
      const at = indices();
      controls.forEach((c, i) => c.grey(!matters(i, at)));
      placeRings();
    }

    // Tell a screen reader, once things are at rest: a slider on the move has words of its own.
    function tell(what, rest) {
      spoken.textContent = "";
      never(telling);
      telling = later(() => { spoken.textContent = what(); }, rest);
    }

    function placeOf(table, at) {
      let n = 0;
      for (const group of table.groups) {
        const [first] = group.of[0];
        if (!group.sums) {
          n = n * record.sliders[first].values.length + at[first];
          continue;
        }
        let sum = 0;
        for (const [k, sign] of group.of) sum += sign * record.sliders[k].values[at[k]];
        n = n * group.sums.length + closest(group.sums, sum);
      }
      return n;
    }

    // The readout keeps its tallest height, as long as the width stays: the sliders below must not move under a finger.
    let wide = 0;
    function keep([{ contentRect: now }]) {
      if (now.width === wide) {
        line.style.minHeight = `${now.height}px`; // it never shrinks below the last
      } else {
        wide = now.width;
        frame(() => { line.style.minHeight = ""; });
      }
    }

    function measure() {
      const was = `${width} ${height}`;
      [width, height] = [place.clientWidth, place.clientHeight];
      return was !== `${width} ${height}`;
    }

    // The figure at the sliders' values: {data, layout, readouts}, in the colors of light ground.
    function compute() {
      const data = record.figure.data.map((t) => paint(t, false)), layout = paint(record.figure.layout, false);
      const readouts = {};
      for (const table of record.tables) {
        const n = placeOf(table, indices()), [where, which] = table.target;
        for (const path of Object.keys(table.arrays)) {
          // A map's tooltip finds no number in typed arrays.
          const value = read(table.arrays[path], n, where === "layout" || path === "customdata");
          if (value === null || value === undefined) continue;
          if (where === "readout") readouts[path] = value;
          else put(where === "data" ? data[which] : layout, path, value);
        }
      }
      return { data, layout, readouts };
    }

    // Where a trace's last point lies on the drawing at a state; for an upright or level line, along it everywhere.
    function pointOf(trace, at) {
      const own = { ...record.figure.data[trace] };
      for (const table of record.tables) {
        if (table.target[0] !== "data" || table.target[1] !== trace) continue;
        const n = placeOf(table, at);
        for (const path of ["x", "y", "visible"]) {
          const value = table.arrays[path] && read(table.arrays[path], n, false);
          if (value !== null && value !== undefined) own[path] = value;
        }
      }
      if (own.visible === false || !own.x || !own.y) return null;
      const axes = [own.xaxis || "x", own.yaxis || "y"].map((id) => sheet._fullLayout[`${id[0]}axis${id.slice(1)}`]);
      if (!axes[0] || !axes[1]) return null;
      const pixel = (axis, v) => (v === null || Number.isNaN(v) ? NaN : axis.d2p(v) + axis._offset);
      const xs = Array.from(own.x, (v) => pixel(axes[0], v)), ys = Array.from(own.y, (v) => pixel(axes[1], v));
      const seen = xs.map((_, i) => i).filter((i) => Number.isFinite(xs[i]) && Number.isFinite(ys[i]));
      if (!seen.length) return null;
      const end = seen[seen.length - 1], among = (v) => seen.map((i) => v[i]);
      const span = (v) => [Math.min(...among(v)), Math.max(...among(v))];
      const [left, right] = span(xs), [top, bottom] = span(ys);
      const straight = !free.has(trace) && seen.length > 1;
      const upright = straight && right - left < 0.5 && bottom - top > 1;
      const level = straight && bottom - top < 0.5 && right - left > 1;
      const { size: across, symbol } = own.marker || {}, large = across > 20 && { across, square: symbol === "square" };
      return { x: xs[end], y: ys[end], left, right, top, bottom, upright, level, large };
    }

    const away = (p, x, y) => Math.hypot(p.level ? 0 : p.x - x, p.upright ? 0 : p.y - y);

    // All states that a handle can reach, and where it is then. Of those as near, the one that leaves the
    // other handles of these controls where they are, then the one that is fewest steps away.
    function reach([trace, bound]) {
      const at = indices(), out = [];
      const beside = record.handles.filter(([t, b]) => t !== trace && b.some((k) => bound.includes(k))).map(([t]) => t);
      const places = (now) => beside.map((t) => pointOf(t, now)), still = places(at);
      const stays = (p, q) => p && q && Math.hypot(p.x - q.x, p.y - q.y) <= 1.5;
      const moved = (now) => places(now).filter((p, n) => !stays(p, still[n])).length;
      const walk = (depth, now) => {
        if (depth < bound.length) {
          const k = bound[depth];
          for (let v = 0; v <= last(k, now); v++) walk(depth + 1, now.map((old, n) => (n === k ? v : old)));
          return;
        }
        const point = pointOf(trace, now);
        if (point) out.push({ point, at: now, moved: () => moved(now) });
      };
      walk(0, at);
      return out;
    }

    // A line is one at all that it can reach: an arrow or a curve that happens to stand upright or level is none.
    function findLines() {
      for (const handle of record.handles) {
        const points = reach(handle).map((f) => f.point);
        const whole = points.length && (points.every((p) => p.upright) || points.every((p) => p.level));
        if (!whole) free.add(handle[0]);
      }
    }

    function nearestOf(found, x, y) {
      const now = indices(), steps = (f) => f.at.reduce((sum, v, i) => sum + Math.abs(v - now[i]), 0);
      const least = Math.min(...found.map((f) => away(f.point, x, y)));
      const close = found.filter((f) => away(f.point, x, y) < least + 1.5);
      if (close.length < 2) return close[0] || null;
      const fewest = Math.min(...close.map((f) => f.moved())), kept = close.filter((f) => f.moved() === fewest);
      return kept.reduce((a, b) => (steps(b) < steps(a) ? b : a));
    }

    // A ring shows what can be taken in hand. It stands over the drawing, so that a finger on it does not scroll.
    function makeRing(handle) {
      const ring = place.appendChild(make("div", "explorable-handle", { "aria-hidden": "true" }));
      let held = null; // while it is: all that it can reach, and the drawing's corner
      ring.addEventListener("pointerdown", (event) => {
        if (event.button) return;
        event.preventDefault();
        stop();
        ring.setPointerCapture(event.pointerId);
        ring.classList.add("explorable-held");
        const box = place.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
        const others = record.handles.filter((_, n) => !rings[n].hidden && rings[n].dataset.along === ring.dataset.along);
        const far = ([trace]) => away(pointOf(trace, indices()), x, y); // where rings overlap, the nearest is taken
        held = { found: reach(others.reduce((a, b) => (far(b) < far(a) ? b : a), handle)), box };
      });
      ring.addEventListener("pointermove", (event) => {
        if (!held) return;
        dragged = true;
        take(held.found, event.clientX - held.box.left, event.clientY - held.box.top);
      });
      ring.addEventListener("lostpointercapture", () => {
        held = null;
        ring.classList.remove("explorable-held");
        settled();
      });
      return ring;
    }

    function placeRings() {
      rings.forEach((ring, i) => {
        const [trace, bound] = record.handles[i];
        const p = missing(trace) || bound.every((k) => controls[k].greyed) ? null : pointOf(trace, indices());
        ring.hidden = !p;
        if (!p) return;
        const thumb = matchMedia("(pointer: coarse)").matches ? 22 : p.upright || p.level ? 13 : 16;
        const pad = p.large ? Math.max(p.large.across / 2, thumb) : thumb;
        const [left, right] = p.level ? [p.left, p.right] : [p.x, p.x];
        const [top, bottom] = p.upright ? [p.top, p.bottom] : [p.y, p.y];
        ring.style.cssText = `left: ${left - pad}px; top: ${top - pad}px; `
          + `width: ${right - left + 2 * pad}px; height: ${bottom - top + 2 * pad}px; --x-pad: ${pad}px`;
        if (p.large) ring.style.setProperty("--x-ring", `${p.large.across}px`);
        ring.classList.toggle("explorable-tile", Boolean(p.large && p.large.square));
        ring.dataset.along = p.upright ? "x" : p.level ? "y" : "xy";
      });
    }

    function take(found, x, y) {
      const best = nearestOf(found, x, y), now = indices();
      if (!best || best.at.every((v, i) => v === now[i])) return;
      controls.forEach((c, i) => { c.value = best.at[i]; });
      update();
    }

    // A click, or a tap, on a place that a handle can reach takes it there.
    place.addEventListener("pointerdown", () => { dragged = false; }, { capture: true, passive: true });
    place.addEventListener("click", (event) => {
      if (!sheet || dragged) return; // a drag ends with a click
      const box = place.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      let best = null;
      for (const handle of record.handles) {
        if (missing(handle[0]) || handle[1].every((k) => controls[k].greyed)) continue;
        const found = reach(handle), near_ = nearestOf(found, x, y);
        const far = near_ ? away(near_.point, x, y) : Infinity;
        const rank = near_ && (near_.point.upright || near_.point.level) ? 100 : 0; // points come before lines
        if (far < 24 && (!best || far + rank < best.far)) best = { far: far + rank, found };
      }
      if (!best) return;
      stop();
      take(best.found, x, y);
      settled();
    });

    // ---- play

    const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

    function stop() {
      if (!playing) return;
      never(playing.timer);
      playing = null;
      controls.forEach((c) => c.showPlay(false, calm.matches));
    }

    function play(i) {
      const was = playing && playing.i === i;
      stop();
      if (was) return settled();
      const end = last(i, indices());
      let at = controls[i].value >= end ? -1 : controls[i].value;
      const pause = Math.min(Math.max(6000 / (end + 1), 140), 900);
      const step = () => {
        controls[i].value = at += 1;
        update();
        if (at < end && !calm.matches) playing.timer = later(step, pause);
        else { stop(); settled(); }
      };
      playing = { i, timer: 0 };
      controls[i].showPlay(true, calm.matches);
      step();
    }

    // After a move has ended: the address and a screen reader hear of it.
    function settled() {
      writeLink();
      tell(readout, 200);
    }

    function draw() {
      const now = compute(), night = dark();
      const small = width < 480;
      const layout = paint(now.layout, night);
      if (small && layout.meta && layout.meta.phone) merge(layout, layout.meta.phone);
      Object.assign(layout, { template: template(night, small), width, height, autosize: false });
      const named = now.data.filter((t) => t.type !== "heatmap" && t.showlegend !== false);
      if (layout.showlegend === undefined) layout.showlegend = named.length > 1;
      const traces = now.data.map((t) => paint(t, night));
      // A color bar, and a name in the legend, keep their room.
      answer.filter(missing).map((n) => traces[n]).forEach((trace) => Object.assign(trace,
        trace.type === "heatmap" ? { opacity: 0, hoverinfo: "skip" } : { visible: trace.visible !== false && "legendonly" }));
      drawn = new Map(traces.filter((t) => t.visible === undefined || t.visible === true).flatMap((t) => [t.text ?? []].flat(2).map((word, i) => {
        // A word in a row or a column that has a name is told with it.
        const row = ["y", "x"].map((way) => [layout[(t[`${way}axis`] || way).replace(way, `${way}axis`)], t[way]?.[i]])
          .map(([axis, place]) => axis?.ticktext?.[axis.tickvals.findIndex((tick) => Math.abs(tick - place) < 0.2)] ?? "").find(Boolean);
        return [`${t.name} ${i}`, String(word).trim() && plain(`${row ? `${row}: ` : ""}${word}`)];
      })).concat((layout.annotations || []).map(({ text }, i) => [i, plain(text)])));
      heard ??= changed() ? new Map() : drawn;
      sheet.ariaLabel = waits() ? "The drawing, without what the question above asks for." : body.dataset.alt;
      for (const trace of traces) { // plotly takes a label that was empty once for gone, for good
        if (Array.isArray(trace.text)) trace.text = trace.text.map((word) => word === "" ? " " : word);
        // A thin hatched bar shows a stroke or none: a pale ground keeps it a bar.
        const { pattern, color } = trace.marker || {};
        if (pattern && typeof color === "string") trace.marker.pattern = { bgcolor: `${color}4d`, ...pattern };
      }
      const done = library_.react(sheet, traces, layout, {
        displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false,
      });
      placeRings();
      // Words last: plotly measures text, and each measurement lays out what has changed on the page so far.
      if (line && record.readout) {
        const text = record.readout.replace(/\{\{|\}\}|\{(\w+)(?::([^}]*))?\}/g, (all, name, spec) =>
          all === "{{" ? "{" : all === "}}" ? "}" : words(now.readouts[name], spec || ""));
        if (said !== text) chips(text);
      }
      return done;
    }

    function chips(text) {
      said = text;
      line.replaceChildren();
      text.split(" · ").forEach((part, i) => {
        if (i) line.appendChild(make("span", "explorable-dot", {})).textContent = " · ";
        line.appendChild(make("span", "explorable-chip", {})).textContent = part;
      });
    }

    // Draw in the next frame, once.
    function request() {
      if (!sheet || asked) return;
      asked = true;
      frame(() => {
        asked = false;
        until(draw());
      });
    }

    // What follows when controls have other values.
    function update() {
      say();
      request();
    }

    function start() {
      started = started || until(wake()).catch((error) => {
        started = null;
        never(late);
        show(`The controls do not work here: ${error.message}.`);
        throw error;
      });
      return started;
    }

    async function wake() {
      const coming = library(packed);
      coming.catch(() => {}); // it is awaited below
      record = await findRecord(body);
      for (const { arrays } of record.tables) Object.values(arrays).forEach(open);
      say(); // the states are small and come first
      library_ = await coming;
      sheet = make("div", "explorable-drawing", { role: "img" });
      place.appendChild(sheet);
      measure();
      await draw();
      findLines();
      rings = record.handles.map(makeRing);
      grey();
      figure.classList.add("explorable-live");
      never(late);
      show("");
      if (changed()) tell(readout, 0);
      new ResizeObserver(() => { if (measure()) request(); }).observe(place);
      if (line) new ResizeObserver(keep).observe(line);
      return self;
    }

    function show(text) {
      note.textContent = text;
      if (text) place.appendChild(note); else note.remove();
      if (text) tell(() => text, 0);
    }

    // The reader is at this figure: draw it, and say so where that takes long. Then do what comes next.
    function touched(next) {
      if (!started) late = later(() => show("Loading the drawing …"), 600);
      start().then(next, () => {}); // start has said what is wrong
    }

    // By value; what is not a value of its slider goes to the nearest. Used by links and tests.
    function set(values) {
      record.sliders.forEach((s, i) => {
        if (Object.hasOwn(values, s.name)) controls[i].value = nearest(s, values[s.name], defaults[i]);
      });
      update();
    }

    const plain = (word) => String(word).replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim();

    // Without a readout, the words in the drawing that have changed.
    function readout() {
      if (line) return waits() ? "" : said || line.textContent;
      const fresh = [...drawn].filter(([where, word]) => word && heard?.get(where) !== word).map(([, word]) => word);
      heard = drawn;
      return fresh.slice(0, 16).join("; ");
    }

    controls.forEach((c, i) => {
      c.element.addEventListener("input", () => {
        stop();
        touched();
        update();
        tell(readout, 700);
      });
      c.element.addEventListener("change", () => touched(writeLink));
      if (c.play) c.play.addEventListener("click", () => touched(() => play(i)));
      c.showPlay(false, calm.matches);
    });
    body.querySelector(".explorable-reset").addEventListener("click", () => {
      stop();
      controls.forEach((c, i) => { c.value = defaults[i]; });
      touched(() => {
        update();
        writeLink();
        tell(() => `Reset. ${readout()}`, 200);
      });
    });
    for (const kind of ["pointerdown", "focusin", "touchstart"]) {
      body.addEventListener(kind, () => touched(), { passive: true, once: true });
    }
    body.appendChild(spoken);

    return self;
  }

  // ---- state in the address: #rope.rotation_invariance=m:7,base:100&rope.decay=...

  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$/;

  function nearest(slider, wanted, start) {
    if (typeof slider.values[0] === "string") {
      return slider.values.includes(wanted) ? slider.values.indexOf(wanted) : start;
    }
    if (!NUMBER.test(String(wanted))) return start;
    // Clamped first: far out, all values are equally near.
    const goal = Math.min(Math.max(Number(wanted), Math.min(...slider.values)), Math.max(...slider.values));
    return closest(slider.values, goal);
  }

  function unquote(text) {
    try {
      return decodeURIComponent(text);
    } catch (error) {
      return "";
    }
  }

  function readLink() {
    if (!home) return;
    let first = true;
    for (const entry of location.hash.slice(1).split("&")) {
      const [id, ...rest] = entry.split("="), body = rest.join("=");
      const self = list.find((e) => e.id === unquote(id));
      if (!self) continue;
      self.figure.classList.remove("explorable-waits"); // book/_static/predict.js: what was sent is not a question
      // A frame must not scroll the page around it.
      if (first && window === window.top) {
        document.documentElement.dataset.whole = ""; // book/_static/posenc.css: all sections take their true height
        const tall = self.figure.offsetHeight > 0.8 * window.innerHeight;
        self.figure.scrollIntoView({ block: tall ? "start" : "center", behavior: "instant" });
      }
      first = false;
      const pairs = body.split(",").map((pair) => pair.split(":"));
      const values = Object.fromEntries(pairs.map(([name, ...value]) => [name, unquote(value.join(":"))]));
      until(self.start()).then(() => self.set(values), () => {}); // start has said what is wrong
    }
  }

  function writeLink() {
    if (!home) return; // not in a notebook
    const link = (e) => (e.ready() && e.changed() ? e.link() : ""), said = list.map(link).filter(Boolean).join("&");
    for (const e of list) e.figure.querySelectorAll(".explorable-embed").forEach((alone) => { alone.hash = link(e); });
    try {
      history.replaceState(history.state, "", said ? `#${said}` : location.pathname + location.search);
    } catch (error) {
      // Some browsers refuse this for pages opened from disk; the address then stays as it is.
    }
  }

  // ---- the page

  // packed: plotly, gzipped and in base64, where the page has none.
  function enlist(figure, packed) {
    const self = Explorable(figure, packed);
    list.push(self);
    if (stirred || !home) watch(self);
  }

  // A figure's states are in it, or in a script beside the player.
  async function findRecord(body) {
    const inline = body.querySelector("script.explorable-data"), id = body.dataset.explorable;
    if (inline) return JSON.parse(inline.textContent);
    if (!states[id]) await load(home + body.dataset.src);
    return states[id];
  }

  // ---- live figures: drawn by a script of their own (posenc.chapters.load_live), which comes as late as plotly does

  const scripts = {}; // name -> function of the element and its data, as the script registers it

  function Live(figure) {
    const body = figure.querySelector("[data-live]"), name = body.dataset.live;
    const place = body.querySelector(".live-place");
    let started = null, repaint = null; // what the script returns is called when the theme changes
    const self = {
      id: name, figure, ready: () => false, redraw: () => repaint && repaint(),
      set: (state) => place.dispatchEvent(new CustomEvent("set", { detail: state })),
      start, writeLink,
    };
    function start() {
      const again = (error) => { started = null; throw error; }, there = scripts[name] && Promise.resolve();
      return (started = started || until((there || load(`${home}live/${name}.js`)).then(draw)).catch(again));
    }
    function draw() {
      figure.classList.add("live-on");
      repaint = scripts[name](place, JSON.parse(figure.querySelector("script.live-data").textContent), make);
    }
    for (const kind of ["pointerdown", "focusin"]) {
      body.addEventListener(kind, () => wakeUp(self), { passive: true, once: true });
    }
    list.push(self);
    if (stirred) watch(self);
  }

  const wakeUp = (self) => self.start().catch(() => {}); // start has said what is wrong
  const near = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      near.unobserve(target);
      list.filter((e) => e.figure === target).forEach(wakeUp);
    }
  }, { rootMargin: "400px 0px" });
  const watch = (self) => near.observe(self.figure);

  // The first view costs nothing: on the site figures wait until the reader does anything at all.
  let stirred = false;
  const STIRS = ["scroll", "wheel", "pointermove", "pointerdown", "touchstart", "keydown"];
  function stir() {
    stirred = true;
    list.forEach(watch);
  }
  for (const kind of home ? STIRS : []) window.addEventListener(kind, stir, { passive: true, once: true });

  // A notebook's output brings plotly along: frames of Colab's outputs share nothing with the page.
  async function notebook(prefix, packed) {
    const find = () => document.getElementById(prefix);
    for (let tries = 0; tries < 300 && !find(); tries++) {
      await new Promise((again) => setTimeout(again, 50)); // JupyterLab runs scripts before it shows the output
    }
    if (find()) enlist(find(), packed);
  }

  window.posencExplorable = (id, record) => { states[id] = record; };
  window.posencLive = (name, draw) => {
    scripts[name] = draw;
    list.filter((e) => e.id === name).forEach(wakeUp); // a script that the page itself brings waits for nobody
  };
  window.posencExplorables = { list, notebook, idle, get: (id) => list.find((e) => e.id === id) };

  function begin() {
    document.querySelectorAll("figure.explorable:not(.explorable-notebook)").forEach((figure) => enlist(figure));
    if (home) document.querySelectorAll("figure.live").forEach(Live);
    readLink();
    window.addEventListener("hashchange", readLink);
    const watched = { attributes: true, attributeFilter: ["data-theme", "theme", "class", "data-jp-theme-light"] };
    let was = dark();
    const repaint = () => {
      if (dark() === was) return;
      was = !was;
      list.forEach((e) => e.redraw());
    };
    nightfall.addEventListener("change", () => {
      const { dataset } = document.documentElement;
      if (home && dataset.mode === "auto") dataset.theme = nightfall.matches ? "dark" : "light"; // as site.js does
      repaint();
    });
    forced.addEventListener("change", repaint);
    const changed = new MutationObserver(repaint);
    changed.observe(document.documentElement, watched);
    changed.observe(document.body, watched);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin); else begin();
})();
