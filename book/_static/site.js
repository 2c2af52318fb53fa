// What scrolls sideways must be reachable by keyboard: formulas and tables wider than their column become focusable.
(function () {
  "use strict";
  const wide = "div.math, .pst-scrollable-table-container, .table-wrapper, .cell_output > .output";
  function mark() {
    for (const place of document.querySelectorAll(`.bd-article :is(${wide})`)) {
      const scrolls = place.scrollWidth > place.clientWidth + 1;
      if (scrolls && !place.hasAttribute("tabindex")) {
        place.setAttribute("tabindex", "0");
        place.dataset.scrolls = "";
      } else if (!scrolls && "scrolls" in place.dataset) {
        place.removeAttribute("tabindex");
        delete place.dataset.scrolls;
      }
    }
  }
  let waiting = 0;
  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(mark, 150);
  };
  window.addEventListener("resize", later);
  window.addEventListener("load", mark);
  // Paper can't unfold.
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("figure.explorable details")) folded.open = true;
  });
})();
