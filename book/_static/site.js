// What the pages do beside the explorables: color mode, search, side bars, the place in the contents, wide things, what a
// reference leads to.
// It stands in for the theme's own scripts, which lay out the whole page while it loads.
(function () {
  "use strict";
  const root = document.documentElement;
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);

  // ---- color mode: auto follows the system; the first script in the head has set it already

  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  function setMode(mode) {
    root.dataset.mode = mode;
    root.dataset.theme = mode !== "auto" ? mode : systemDark.matches ? "dark" : "light";
    for (const button of all(".theme-switch-button")) button.setAttribute("aria-label", `Color mode: ${mode}`);
  }
  setMode(root.dataset.mode || "auto");
  systemDark.addEventListener("change", () => setMode(root.dataset.mode));
  for (const button of all(".theme-switch-button")) {
    button.addEventListener("click", () => {
      // Whatever the system says, the first press changes something.
      const order = systemDark.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
      setMode(order[(order.indexOf(root.dataset.mode) + 1) % 3]);
      try { localStorage.setItem("mode", root.dataset.mode); } catch (error) { /* the choice holds for this page */ }
    });
  }

  // ---- dialogs: a press outside closes them, and so does Escape

  function closable(dialog) {
    dialog.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      dialog.close();
    });
    dialog.addEventListener("click", (event) => {
      const box = dialog.getBoundingClientRect();
      const across = box.left <= event.clientX && event.clientX <= box.right;
      const inside = across && box.top <= event.clientY && event.clientY <= box.bottom;
      if (event.target === dialog && !inside) dialog.close();
    });
  }

  // ---- search: Ctrl+K or ⌘K

  const mac = /^(Mac|iP)/.test(navigator.platform);
  if (mac) for (const key of all("kbd.kbd-shortcut__modifier")) if (key.textContent === "Ctrl") key.textContent = "⌘";
  const search = byId("pst-search-dialog"), field = document.querySelector(".bd-search-container input");
  function openSearch() {
    if (field) field.focus();
    else if (search.open) search.close();
    else search.showModal();
  }
  if (search) {
    search.setAttribute("aria-label", "Search");
    closable(search);
    for (const button of all(".search-button__button")) button.addEventListener("click", openSearch);
    window.addEventListener("keydown", (event) => {
      if (!/^k$/i.test(event.key) || event.shiftKey || event.altKey || !(mac ? event.metaKey : event.ctrlKey)) return;
      event.preventDefault();
      openSearch();
    });
  }
  if (field) field.focus();

  // ---- side bars: beside the text on a wide screen, in a dialog on a narrow one

  function sidebar(name, button) {
    const bar = byId(`pst-${name}-sidebar`), dialog = byId(`pst-${name}-sidebar-modal`);
    if (!bar || !dialog || !button) return;
    for (const named of [button, dialog]) named.setAttribute("aria-label", name === "primary" ? "Chapters" : "Contents of this page");
    const move = (from, to) => {
      to.append(...from.childNodes);
      to.classList.add(...from.classList);
      from.className = "";
    };
    const beside = matchMedia("(min-width: 992px)");
    const tell = () => {
      const shown = name === "primary" && beside.matches ? !bar.classList.contains("pst-sidebar-hidden") : dialog.open;
      button.setAttribute("aria-expanded", String(shown));
    };
    button.addEventListener("click", () => {
      if (name === "primary" && beside.matches) {
        bar.classList.toggle("pst-sidebar-hidden");
      } else {
        move(bar, dialog);
        dialog.showModal();
      }
      tell();
    });
    closable(dialog);
    dialog.addEventListener("close", () => {
      move(dialog, bar);
      tell();
    });
    beside.addEventListener("change", tell);
    tell();
    dialog.addEventListener("click", (event) => { if (event.target.closest("a")) dialog.close(); });
  }
  sidebar("primary", document.querySelector(".primary-toggle"));
  sidebar("secondary", document.querySelector(".secondary-toggle"));

  // Parts that the reader folds stay folded, but for the one that holds this page.
  const parts = all(".bd-docs-nav details");
  let folds = [];
  try { folds = JSON.parse(localStorage.getItem("folds")) || []; } catch (error) { /* all stand open */ }
  for (const part of parts) {
    const title = part.querySelector("summary").textContent.trim();
    part.open = !folds.includes(title) || Boolean(part.querySelector("a.current"));
    part.querySelector("summary").addEventListener("click", () => {
      folds = part.open ? [...folds, title] : folds.filter((other) => other !== title);
      try { localStorage.setItem("folds", JSON.stringify(folds)); } catch (error) { /* for this page */ }
    });
  }
  const chapters = byId("pst-primary-sidebar"), here = chapters && chapters.querySelector("a.current");
  if (here && chapters.clientHeight && here.offsetTop > chapters.clientHeight / 2) {
    chapters.scrollTop = here.offsetTop - chapters.clientHeight / 4;
  }

  // ---- the contents of the page: which heading stands in the top third

  const entries = new Map(all("#pst-page-toc-nav a").map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
  const headings = new Map();
  for (const [id, link] of entries) {
    const target = byId(id), heading = target && (target.querySelector("h1, h2, h3, h4") || target);
    if (heading) headings.set(heading, link);
  }
  const seen = new IntersectionObserver((found) => {
    const last = found.filter((entry) => entry.isIntersecting).pop();
    if (!last) return;
    const now = headings.get(last.target);
    for (const link of entries.values()) {
      link.classList.toggle("active", link === now);
      if (link === now) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
    for (const entry of all("#pst-page-toc-nav .toc-entry")) entry.classList.toggle("active", entry.contains(now));
  }, { rootMargin: "0px 0px -70% 0px" });
  for (const heading of headings.keys()) seen.observe(heading);

  // ---- what scrolls sideways must be reachable by keyboard: such places become focusable
  // Asking for widths lays out the whole page, so it waits until the reader does something.

  const wide = ["pre", "div.math", ".pst-scrollable-table-container", ".cell_output > .output"];
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 1));
  function mark() {
    const places = all(wide.map((name) => `.bd-article ${name}`).join(", "));
    places.push(...all(".bd-article span.math")); // thousands, and hardly one is wide: last
    (function some() {
      for (const place of places.splice(0, 100)) {
        const scrolls = place.scrollWidth > place.clientWidth;
        if (scrolls && !place.hasAttribute("tabindex")) {
          place.setAttribute("tabindex", "0");
          const more = () => {
            const rest = place.scrollWidth - place.clientWidth - place.scrollLeft;
            place.dataset.scrolls = rest > 2 ? "more" : "";
          };
          place.addEventListener("scroll", more, { passive: true });
          more();
        } else if (!scrolls && "scrolls" in place.dataset) {
          place.removeAttribute("tabindex");
          delete place.dataset.scrolls;
        }
      }
      if (places.length) idle(some, { timeout: 500 }); // a page that draws is never idle
    })();
  }
  let waiting = 0;
  const begin = () => {
    for (const kind of kinds) window.removeEventListener(kind, begin);
    mark();
    window.addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(mark, 150);
    });
  };
  const kinds = ["scroll", "keydown", "pointerdown", "touchstart"];
  for (const kind of kinds) window.addEventListener(kind, begin, { passive: true });

  // ---- what a reference leads to stands beside it while it is pointed at or has the focus: an equation, a theorem

  const add = (tag, look) => document.body.appendChild(Object.assign(document.createElement(tag), look));
  const peek = add("div", { className: "peek", id: "peek", hidden: true });
  peek.setAttribute("role", "tooltip");
  let shownFor = null, later = 0;
  function hide() {
    if (!shownFor) return;
    shownFor.removeAttribute("aria-describedby");
    shownFor = null;
    peek.hidden = true;
  }
  function show(link) {
    if (link === shownFor) return;
    const target = link.hash && link.pathname === location.pathname && byId(decodeURIComponent(link.hash.slice(1)));
    if (!target || !target.matches("div.math, div.proof")) return;
    hide();
    peek.replaceChildren(...Array.from(target.childNodes, (node) => node.cloneNode(true)));
    for (const part of peek.querySelectorAll(".headerlink, .eqno")) part.remove();
    for (const part of peek.querySelectorAll("[id]")) part.removeAttribute("id");
    shownFor = link;
    link.setAttribute("aria-describedby", "peek");
    peek.hidden = false;
    put();
  }
  function put() {
    const line = shownFor.getClientRects()[0], high = peek.offsetHeight, below = line.bottom + 6;
    const top = below + high < innerHeight ? below : line.top - high - 6;
    peek.style.left = `${Math.max(Math.min(line.left, innerWidth - peek.offsetWidth - 8), 8)}px`;
    peek.style.top = `${Math.max(top, 8)}px`;
  }
  const reference = (event) => event.target.closest && event.target.closest(".bd-article a.reference.internal");
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return; // a tap follows the link
    const link = reference(event);
    clearTimeout(later);
    if (link && link !== shownFor) later = setTimeout(show, 120, link);
    else if (!link && !peek.contains(event.target)) later = setTimeout(hide, 200); // time to reach what is shown
  });
  document.addEventListener("focusin", (event) => {
    const link = reference(event);
    if (link && link.matches(":focus-visible")) show(link);
    else hide();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); }, true);
  window.addEventListener("scroll", () => {
    if (!shownFor) return;
    if (shownFor.matches(":focus-visible")) put(); else hide(); // the focus may have come with the scroll
  }, { passive: true });

  // ---- paper can't unfold

  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = all(".bd-article details:not([open])");
    for (const folded of unfolded) folded.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const folded of unfolded.splice(0)) folded.open = false;
  });

  // ---- a screen reader is told that code was copied; the policy stops the javascript: address of Sphinx's link

  const said = add("p", { className: "visually-hidden" });
  said.setAttribute("role", "status");
  document.addEventListener("click", (event) => {
    const copy = event.target.closest(".copybtn");
    if (copy) {
      said.textContent = "";
      setTimeout(() => { said.textContent = copy.dataset.tooltip; }, 200); // by then it says whether it worked
    }
  });
})();
