/* The player of posenc's explorables: one script for the book's pages, the pages to embed, and a notebook's output.
 *
 * It finds every figure.explorable and leaves it alone until the reader has done anything on the page. From then on a
 * figure that comes near, is touched or is named by the address loads plotly and its states (classic scripts, so that
 * file:// works), draws over the static picture, and redraws while a slider moves.
 * posenc/lab/explore/page.py writes the markup and states.py the states, and documents their form.
 */
(function () {
  "use strict";
  if (window.posencExplorables) return;

  const script = document.currentScript;
  const home = script && script.src ? script.src.replace(/[^/]*$/, "") : "";
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
    if (body && body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false"; // JupyterLab
    if (html.getAttribute("theme")) return html.getAttribute("theme") === "dark"; // Colab
    return Boolean(body && /\bvscode-(dark|high-contrast)\b(?!-light)/.test(body.className));
  }

  const painted = new WeakMap();
  // A copy of a figure's dicts with the theme's colors. Arrays keep their identity while they stay the same: plotly
  // redraws what is new.
  function paint(tree, night) {
    if (typeof tree === "string") return (night && DARK[tree.toLowerCase()]) || tree;
    if (!tree || typeof tree !== "object" || ArrayBuffer.isView(tree)) return tree;
    if (Array.isArray(tree)) {
      if (!night || (typeof tree[0] === "number" && typeof tree[1] !== "string") || ArrayBuffer.isView(tree[0])) return tree;
      if (!painted.has(tree)) painted.set(tree, tree.map((v) => paint(v, true)));
      return painted.get(tree);
    }
    const copy = {};
    for (const key of Object.keys(tree)) copy[key] = paint(tree[key], night);
    return copy;
  }

  const templates = {};
  function template(night, small) {
    const key = `${night}${small}`;
    if (!templates[key]) {
      const c = GROUND[night ? "dark" : "light"];
      const axis = {
        gridcolor: c.grid, zerolinecolor: c.zero, linecolor: c.zero, zerolinewidth: 1, fixedrange: true, automargin: true,
        ticklabeloverflow: "allow", title: small ? { standoff: 8, font: { size: 12 } } : { standoff: 8 },
        tickfont: { size: small ? 11 : 12 }, hoverformat: ".4~g",
      };
      const map = { colorbar: { outlinewidth: 0, thickness: 12, tickfont: { size: 11 } } };
      templates[key] = {
        layout: {
          paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
          font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: small ? 12 : 13, color: c.ink },
          margin: small ? { l: 44, r: 12, t: 36, b: 40 } : { l: 56, r: 20, t: 40, b: 48 },
          legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false },
          hovermode: "closest", dragmode: false,
          hoverlabel: { bgcolor: c.card, bordercolor: c.zero, font: { color: c.ink } },
          xaxis: axis, yaxis: axis, bargap: 0.15,
          annotationdefaults: { font: { color: c.ink }, arrowcolor: c.ink },
        },
        data: { heatmap: [map], contour: [map] },
      };
    }
    return templates[key];
  }

  // On a narrow screen words that would be cut, or meet their neighbors, take more lines or stand upright.
  function inLines(text, most) {
    if (typeof text !== "string" || text.includes("<")) return text;
    return text.replace(new RegExp(`(.{1,${Math.max(Math.round(most), 20)}})(?:\\s+|$)`, "g"), "$1<br>").replace(/<br>$/, "");
  }

  function narrow(data, layout, width) {
    for (const key of Object.keys(layout).filter((k) => /^xaxis\d*$/.test(k))) {
      const axis = layout[key], [from, to] = axis.domain || [0, 1], wide = width * (to - from);
      if (axis.title) axis.title.text = inLines(axis.title.text, wide / 8);
      if (axis.title && axis.title.font) axis.title.font.size = 12;
      if (axis.ticktext && axis.ticktext.length * 30 > wide) {
        const longest = Math.max(...axis.ticktext.map((t) => String(t).length));
        if (longest > 3) Object.assign(axis, { ticktext: axis.ticktext.map((t) => String(t).replace("<br>", " ")), tickangle: -90 });
      }
    }
    for (const trace of data) trace.name = inLines(trace.name, (width - 60) / 6.5);
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
    record.opened = true;
  }

  function read(record, place, plain) {
    if (!record.opened) open(record);
    const row = record.rowOf ? record.rowOf[place] : record.index === undefined ? place : record.index;
    if (record.type === "json") return record.rows[row];
    if (record.made.has(row)) return record.made.get(row);
    const shape = record.shape || record.shapes[row];
    const count = size(shape), start = record.starts ? record.starts[row] : row * count;
    const gap = KINDS[record.type][1], { codes, min, step } = record;
    const flat = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const code = codes[start + i];
      flat[i] = record.type === "f4" ? code : code === gap ? NaN : min + step * code;
    }
    let value = flat;
    if (shape.length === 0) value = flat[0];
    else if (shape.length === 2) {
      value = [];
      for (let i = 0; i < shape[0]; i++) value.push(flat.subarray(i * shape[1], (i + 1) * shape[1]));
    } else if (plain) value = Array.from(flat);
    if (record.made.size > 64) record.made.clear();
    record.made.set(row, value);
    return value;
  }

  function put(tree, path, value) {
    const keys = path.split(".");
    let at = tree;
    for (const key of keys.slice(0, -1)) at = at[key] && typeof at[key] === "object" ? at[key] : (at[key] = {});
    at[keys[keys.length - 1]] = value;
  }

  // ---- numbers in words, as Python's format writes them

  function words(value, spec) {
    if (typeof value === "string") return value;
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const plus = spec.startsWith("+") ? (value < 0 ? "" : "+") : "";
    const kind = /[fegd%s]$/.test(spec) ? spec.slice(-1) : "g";
    const found = /\.(\d+)/.exec(spec);
    const digits = found ? Number(found[1]) : 6;
    const power = (text) => text.replace(/e([+-])(\d)$/, "e$10$2");
    if (kind === "f") return plus + value.toFixed(digits);
    if (kind === "%") return plus + (value * 100).toFixed(digits) + "%";
    if (kind === "e") return plus + power(value.toExponential(digits));
    if (kind === "d") return plus + String(Math.round(value));
    const p = Math.max(digits, 1), exponent = value === 0 ? 0 : Number(value.toExponential(p - 1).split("e")[1]);
    if (exponent < -4 || exponent >= p) {
      const [head, tail] = value.toExponential(p - 1).split("e");
      return plus + power(`${head.includes(".") ? head.replace(/\.?0+$/, "") : head}e${tail}`);
    }
    const text = value.toFixed(Math.max(p - 1 - exponent, 0));
    return plus + (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  }

  // ---- loading

  function load(url) {
    loading[url] = loading[url] || new Promise((done, fail) => {
      const tag = document.createElement("script");
      tag.src = url;
      tag.onload = done;
      tag.onerror = () => {
        delete loading[url]; // the next touch tries again
        tag.remove();
        fail(new Error(`could not load ${url}`));
      };
      document.head.appendChild(tag);
    });
    return loading[url];
  }

  let plotly = null; // a promise of the library, where a notebook's output brought it along
  const library = () => plotly || (window.Plotly ? Promise.resolve(window.Plotly)
    : load(`${home}plotly-cartesian.min.js`).then(() => window.Plotly));

  function make(tag, name, attributes) {
    const made = document.createElement(tag);
    made.className = name;
    for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
    return made;
  }

  // ---- one figure

  function Explorable(figure) {
    const body = figure.querySelector("[data-explorable]");
    const self = {
      id: body.dataset.explorable, figure, times: [], drawn: 0, state, set, data, readout, start, draw, share,
      redraw: () => request(null),
    };
    const place = body.querySelector(".explorable-plot");
    const inputs = Array.from(body.querySelectorAll("input[type=range]"));
    const line = body.querySelector(".explorable-readout");
    const spoken = make("p", "explorable-spoken", { role: "status" }); // what a screen reader is told, out of sight
    const note = make("p", "explorable-note", {}); // what is wrong, or slow, in sight
    const fold = figure.querySelector(".explorable-embed");
    const defaults = inputs.map((input) => Number(input.getAttribute("value")));
    let record = null, library_ = null, sheet = null, started = null, busy = false, waiting = false, oldest = null;
    let width = 0, height = 0; // asked for when they change only: asking makes the browser lay out the page
    let late = 0, telling = 0, zoomed = 1;

    const indices = () => inputs.map((input) => Number(input.value));

    function state() {
      const out = {};
      record.sliders.forEach((s, i) => { out[s.name] = s.values[Number(inputs[i].value)]; });
      return out;
    }

    // Say each slider's value in words, in sight and to a screen reader.
    function say() {
      inputs.forEach((input, i) => {
        if (!record && Number(input.value) === defaults[i]) return;
        const text = record ? record.sliders[i].words[Number(input.value)] : "…"; // no words before the states are here
        input.setAttribute("aria-valuetext", text);
        input.parentElement.querySelector(".explorable-value").textContent = text;
      });
      figure.classList.toggle("explorable-moved", self.changed());
    }

    // Tell a screen reader, once things are at rest: a slider on the move has words of its own.
    function tell(what, rest) {
      spoken.textContent = "";
      clearTimeout(telling);
      telling = setTimeout(() => { spoken.textContent = what(); }, rest);
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
        let low = 0, high = group.sums.length - 1; // the nearest of the sorted sums
        while (low < high) {
          const middle = (low + high) >> 1;
          if (group.sums[middle] < sum) low = middle + 1; else high = middle;
        }
        if (low > 0 && sum - group.sums[low - 1] < group.sums[low] - sum) low -= 1;
        n = n * group.sums.length + low;
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
        requestAnimationFrame(() => { line.style.minHeight = ""; });
      }
    }

    function measure() {
      const was = `${width} ${height}`;
      [width, height] = [place.clientWidth, place.clientHeight];
      return was !== `${width} ${height}`;
    }

    // The figure at the sliders' values: {data, layout, readouts}, in the colors of light ground.
    function compute() {
      const at = indices(), figure_ = { data: record.figure.data, layout: record.figure.layout }, readouts = {};
      const out = { data: figure_.data.map((t) => paint(t, false)), layout: paint(figure_.layout, false), readouts };
      for (const table of record.tables) {
        const n = placeOf(table, at), [where, which] = table.target;
        const tree = where === "data" ? out.data[which] : where === "layout" ? out.layout : readouts;
        for (const path of Object.keys(table.arrays)) {
          const value = read(table.arrays[path], n, where === "layout");
          if (value === null || value === undefined) continue;
          if (where === "readout") readouts[path] = value; else put(tree, path, value);
        }
      }
      return out;
    }

    function draw() {
      const now = compute(), night = dark();
      const small = width < 480;
      const layout = paint(now.layout, night);
      layout.template = template(night, small);
      // For a lecture everything grows, the type with the lines, so that the last row can read it.
      const zoom = document.fullscreenElement === figure ? Math.min(Math.max(Math.min(width / 680, height / 400), 1), 2.5) : 1;
      if (zoom !== zoomed) {
        zoomed = zoom;
        Object.assign(sheet.style, { width: `${100 / zoom}%`, height: `${100 / zoom}%`, transform: zoom > 1 ? `scale(${zoom})` : "" });
      }
      layout.width = width / zoom;
      layout.height = height / zoom;
      layout.autosize = false;
      if (layout.showlegend === undefined) layout.showlegend = now.data.filter((t) => t.type !== "heatmap" && t.showlegend !== false).length > 1;
      const traces = now.data.map((t) => paint(t, night));
      if (small) narrow(traces, layout, width);
      const done = library_.react(sheet, traces, layout, {
        displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false,
      });
      self.drawn += 1;
      // Words last: plotly measures text, and each measurement lays out what has changed on the page so far.
      if (line && record.readout) {
        const text = record.readout.replace(/\{\{|\}\}|\{(\w+)(?::([^}]*))?\}/g, (all, name, spec) =>
          all === "{{" ? "{" : all === "}}" ? "}" : words(now.readouts[name], spec || ""));
        if (line.textContent !== text) line.textContent = text;
      }
      return done;
    }

    // Draw at once, and at most once a frame.
    function request(since) {
      if (!sheet) return;
      if (oldest === null) oldest = since;
      if (busy) {
        waiting = true;
        return;
      }
      const began = oldest;
      oldest = null;
      busy = true;
      draw().then(() => { if (began !== null) self.times.push(performance.now() - began); });
      requestAnimationFrame(() => {
        busy = false;
        if (waiting) {
          waiting = false;
          request(null);
        }
      });
    }

    function start() {
      started = started || wake().catch((error) => {
        started = null;
        const text = `The sliders do not work here: ${error.message}.`;
        show(text);
        tell(() => text, 0);
        throw error;
      });
      return started;
    }

    async function wake() {
      const inline = body.querySelector("script.explorable-data");
      const states_ = inline || states[self.id] ? Promise.resolve() : load(home + body.dataset.src);
      const [P] = await Promise.all([library(), states_.then(() => {
        record = inline ? JSON.parse(inline.textContent) : states[self.id];
        say(); // the states are small and come first
      })]);
      library_ = P;
      sheet = make("div", "explorable-drawing", { role: "img", "aria-label": body.dataset.alt });
      place.appendChild(sheet);
      measure();
      await draw();
      figure.classList.add("explorable-live");
      clearTimeout(late);
      show("");
      if (self.changed()) tell(readout, 0);
      if (window.ResizeObserver) {
        new ResizeObserver(() => { if (measure()) request(null); }).observe(place);
        if (line) new ResizeObserver(keep).observe(line);
      }
      return self;
    }

    function show(text) {
      note.textContent = text;
      if (text) place.appendChild(note); else note.remove();
    }

    // The reader is at this figure: draw it, and say so where that takes long. Then do what comes next.
    function touched(next) {
      if (!started) {
        clearTimeout(late);
        late = setTimeout(() => {
          if (!started || figure.classList.contains("explorable-live")) return;
          show("Loading the drawing …");
          tell(() => "Loading the drawing", 0);
        }, 600);
      }
      start().then(next, () => {}); // start has said what is wrong
    }

    // By value; what is not a value of its slider goes to the nearest. Used by links and tests.
    function set(values) {
      record.sliders.forEach((s, i) => {
        if (Object.prototype.hasOwnProperty.call(values, s.name)) inputs[i].value = nearest(s, values[s.name], defaults[i]);
      });
      say();
      request(null);
    }

    // What plotly holds, in plain JSON.
    function data() {
      const plain = (v) => (ArrayBuffer.isView(v) ? Array.from(v) : Array.isArray(v) ? v.map(plain)
        : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, w]) => [k, plain(w)])) : v);
      const { template: _, ...layout } = sheet.layout;
      return { data: plain(sheet.data), layout: plain(layout) };
    }

    function readout() {
      return line ? line.textContent : "";
    }

    // The address of this figure alone, and what to paste into another site.
    function share() {
      if (!fold || !fold.open) return;
      const link = fold.querySelector("a"), box = fold.querySelector("textarea") || fold.appendChild(make("textarea", "", {
        readonly: "", rows: 3, spellcheck: "false", "aria-label": "HTML that shows this figure on another page",
      }));
      link.hash = record && self.changed() ? `${self.id}=${self.link()}` : "";
      const quoted = (text) => text.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");
      box.value = `<iframe src="${quoted(link.href)}" title="${quoted(fold.dataset.title)}" width="720" `
        + `height="${body.offsetHeight + 220}" style="border: 0; max-width: 100%" loading="lazy" allow="fullscreen"></iframe>`;
      box.onfocus = () => box.select();
    }
    if (fold) fold.addEventListener("toggle", share);

    function offerFullScreen() {
      if (!home || !document.fullscreenEnabled || !figure.requestFullscreen) return;
      const button = make("button", "explorable-full", { type: "button" });
      const on = () => document.fullscreenElement === figure;
      const name = () => { button.textContent = on() ? "Leave full screen" : "Full screen"; };
      button.addEventListener("click", () => {
        if (on()) document.exitFullscreen();
        else figure.requestFullscreen().then(() => touched(), () => { button.hidden = true; }); // the browser may refuse
      });
      // Tab stays in the figure: what is behind it cannot be reached meanwhile.
      function behind() {
        const out = [];
        for (let e = figure; e !== document.body; e = e.parentElement) {
          out.push(...[...e.parentElement.children].filter((other) => other !== e && !other.inert));
        }
        return out;
      }
      // The key that opens the page's search would open it there, out of sight.
      function hush(event) {
        if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return;
        event.stopPropagation();
        event.preventDefault();
      }
      let shut = [];
      figure.addEventListener("fullscreenchange", () => {
        name();
        document[on() ? "addEventListener" : "removeEventListener"]("keydown", hush, true);
        shut.forEach((e) => { e.inert = false; });
        shut = on() ? behind() : [];
        shut.forEach((e) => { e.inert = true; });
      });
      name();
      body.querySelector(".explorable-tools").appendChild(button);
    }
    offerFullScreen();

    for (const input of inputs) {
      input.addEventListener("input", (event) => {
        touched();
        request(event.timeStamp);
        say();
        tell(readout, 700);
      });
      input.addEventListener("change", () => touched(writeLink));
    }
    body.querySelector(".explorable-reset").addEventListener("click", () => {
      inputs.forEach((input, i) => { input.value = defaults[i]; });
      touched(() => {
        say();
        request(null);
        writeLink();
        tell(() => `Reset. ${readout()}`, 200);
      });
    });
    for (const kind of ["pointerdown", "focusin", "touchstart"]) body.addEventListener(kind, () => touched(), { passive: true, once: true });
    body.appendChild(spoken);

    self.ready = () => record !== null;
    self.changed = () => indices().some((v, i) => v !== defaults[i]);
    self.link = () => record.sliders.map((s, i) => [s, Number(inputs[i].value)]).filter(([, v], i) => v !== defaults[i])
      .map(([s, v]) => `${s.name}:${encodeURIComponent(s.values[v])}`).join(",");
    return self;
  }

  // ---- state in the address: #rope.rotation_invariance=m:7,base:100&rope.decay=...

  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$/;

  function nearest(slider, wanted, start) {
    if (typeof slider.values[0] === "string") {
      const plain = unquote(String(wanted)); // a whole address may have been encoded once more
      const found = slider.values.findIndex((v) => v === wanted || v === plain);
      return found < 0 ? start : found;
    }
    if (!NUMBER.test(String(wanted))) return start;
    // Clamped first: far out, all values are equally near.
    const goal = Math.min(Math.max(Number(wanted), Math.min(...slider.values)), Math.max(...slider.values));
    let best = 0;
    slider.values.forEach((v, i) => { if (Math.abs(v - goal) < Math.abs(slider.values[best] - goal)) best = i; });
    return best;
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
    // What mails and chats make of an address: its signs may come encoded. A value may hold such signs as well, so they
    // part it only before what reads as a name.
    for (const entry of location.hash.slice(1).split(/&|%26(?=\w+\.\w+(?:=|%3D))/i)) {
      const [, id, body] = /^(.+?)(?:=|%3D)(.*)$/is.exec(entry) || [];
      const self = id && list.find((e) => e.id === unquote(id));
      if (!self) continue;
      // A frame must not scroll the page around it.
      if (first && window === window.top) {
        document.documentElement.dataset.whole = ""; // book/_static/posenc.css: all sections take their true height
        const tall = self.figure.offsetHeight > 0.8 * window.innerHeight;
        self.figure.scrollIntoView({ block: tall ? "start" : "center", behavior: "instant" });
      }
      first = false;
      const values = Object.create(null);
      for (const pair of body.split(/,|%2C(?=\w+(?::|%3A))/i)) {
        const [, name, value] = /^(.+?)(?::|%3A)(.*)$/is.exec(pair) || [];
        if (name) values[name] = unquote(value);
      }
      self.start().then(() => self.set(values), () => {}); // start has said what is wrong
    }
  }

  function writeLink() {
    if (!home) return; // not in a notebook
    list.forEach((e) => e.share());
    const parts = list.filter((e) => e.ready() && e.changed()).map((e) => `${e.id}=${e.link()}`);
    try {
      history.replaceState(history.state, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
    } catch (error) {
      // Some browsers refuse this for pages opened from disk; the address then stays as it is.
    }
  }

  // ---- the page

  function adopt(figure) {
    if (list.some((e) => e.figure === figure) || !figure.querySelector("[data-explorable]")) return null;
    const self = Explorable(figure);
    list.push(self);
    if (stirred || !home) watch(self);
    return self;
  }

  function watch(self) {
    if (near) near.observe(self.figure); else self.start().catch(() => {});
  }

  const near = window.IntersectionObserver && new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      const self = list.find((e) => e.figure === entry.target);
      if (self) self.start().catch(() => {}); // start has said what is wrong
    }
  }, { rootMargin: "400px 0px" });

  // The first view costs nothing: on the site figures wait until the reader does anything at all.
  let stirred = false;
  const STIRS = ["scroll", "wheel", "pointermove", "pointerdown", "touchstart", "keydown"];
  function stir() {
    stirred = true;
    for (const kind of STIRS) window.removeEventListener(kind, stir);
    list.forEach(watch);
  }
  for (const kind of home ? STIRS : []) window.addEventListener(kind, stir, { passive: true });

  // A notebook's output brings plotly along, compressed: frames of Colab's outputs share nothing with the page.
  async function notebook(prefix, compressed) {
    plotly = plotly || (async () => {
      const stream = new Blob([bytes(compressed)]).stream().pipeThrough(new DecompressionStream("gzip"));
      const source = await new Response(stream).text();
      const before = window.Plotly, tag = document.createElement("script");
      // `define`, `module` and `exports` are hidden from plotly's loader, whatever the page has put there.
      tag.textContent = `(function (define, module, exports) {${source}\n})();`;
      document.head.appendChild(tag);
      const mine = window.Plotly;
      if (before) window.Plotly = before;
      return mine;
    })();
    for (let tries = 0; tries < 300; tries++) {
      const figure = document.getElementById(prefix);
      if (figure) return adopt(figure);
      await new Promise((again) => setTimeout(again, 50)); // JupyterLab runs scripts before it shows the output
    }
    return null;
  }

  window.posencExplorable = (id, record) => { states[id] = record; };
  window.posencExplorables = { list, notebook, get: (id) => list.find((e) => e.id === id) };

  function begin() {
    document.querySelectorAll("figure.explorable:not(.explorable-notebook)").forEach(adopt);
    readLink();
    window.addEventListener("hashchange", readLink);
    const watched = { attributes: true, attributeFilter: ["data-theme", "theme", "class", "data-jp-theme-light"] };
    let was = dark();
    const repaint = () => {
      if (dark() !== was) {
        was = !was;
        list.forEach((e) => e.redraw());
      }
    };
    nightfall.addEventListener("change", () => {
      const { dataset } = document.documentElement;
      if (home && dataset.mode === "auto") dataset.theme = nightfall.matches ? "dark" : "light"; // as site.js does
      repaint();
    });
    forced.addEventListener("change", repaint);
    const changed = new MutationObserver(repaint);
    changed.observe(document.documentElement, watched);
    if (document.body) changed.observe(document.body, watched);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin); else begin();
})();
