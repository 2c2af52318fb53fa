// The answers of a `{predict}` box become buttons. A press marks the reader's answer and the right one, and the figure
// that the box names takes the state that shows it. The page stays where it is, and so does the figure: the fold with the
// reason stays closed, and where the figure is not all in view, a button leads to it. Without a figure the fold opens.
// From a figure that waits the answer is missing until then, or until its own button is pressed; its static picture,
// which has it, predict.css hides from the first paint on.
(function () {
  "use strict";
  const make = (tag, name) => Object.assign(document.createElement(tag), { className: name });
  const wait = (time) => new Promise((done) => setTimeout(done, time));

  function words(element) { // a formula carries its source along
    const copy = element.cloneNode(true);
    for (const source of copy.querySelectorAll("annotation")) source.remove();
    return copy.textContent.trim().replace(/[.!]$/, "");
  }

  const waits = "explorable-waits";

  async function answerBelow({ show, state }) {
    const figure = window.posencExplorables && posencExplorables.get(show);
    if (!figure) return null;
    await figure.start();
    figure.figure.classList.remove(waits);
    figure.set(JSON.parse(state));
    return figure.figure;
  }

  for (const figure of document.querySelectorAll(`.${waits}`)) {
    const asks = make("div", "explorable-asks explorable-tools"), button = make("button", "");
    asks.append("The answer is missing here.", button);
    Object.assign(button, { type: "button", textContent: "Show it" });
    const { explorable } = figure.querySelector("[data-explorable]").dataset;
    button.addEventListener("click", async () => {
      await answerBelow(document.querySelector(`[data-show="${explorable}"]`).dataset);
      figure.querySelector(".explorable-controls :is([type=range], :checked, button):enabled").focus({ preventScroll: true });
    });
    figure.querySelector(".explorable-view").prepend(asks);
  }

  for (const box of document.querySelectorAll(".predict")) {
    const fold = box.querySelector(".predict-because"), list = box.querySelector(".predict-answers");
    const right = Number(/predict-right-(\d)/.exec(fold.querySelector(".predict-right").className)[1]);
    const said = make("p", "predict-said");
    said.setAttribute("role", "status");
    list.after(said);
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", "Your answer");

    const buttons = Array.from(list.children, (item, i) => {
      const button = make("button", "predict-press"), text = make("span", "predict-text");
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      text.append(...(item.querySelector("p") || item).childNodes);
      button.append(text);
      item.setAttribute("role", "presentation");
      item.replaceChildren(button);
      button.addEventListener("click", () => press(i));
      return button;
    });

    function mark(button, kind, text) {
      button.classList.add(`predict-${kind}`);
      button.appendChild(make("span", "predict-mark")).textContent = text;
    }

    let pressed = false;
    function press(mine) {
      if (pressed) return;
      pressed = true;
      const answer = words(buttons[right].firstChild);
      for (const button of buttons) button.setAttribute("aria-disabled", "true");
      buttons[mine].setAttribute("aria-pressed", "true");
      mark(buttons[right], "true", mine === right ? "✓ your answer, right" : "✓ right");
      if (mine !== right) mark(buttons[mine], "false", "✗ your answer");
      said.textContent = mine === right ? "Right." : `Not so. The answer is “${answer}”.`;
      if (fold.dataset.show) said.textContent += " The figure below shows it.";
      Promise.race([answerBelow(fold.dataset).catch(() => null), wait(5000)]).then((figure) => {
        const waiting = document.querySelector(`.${waits} [data-explorable="${fold.dataset.show}"]`);
        if (waiting) waiting.closest("figure").classList.remove(waits); // its picture at least
        fold.open = !figure;
        if (!figure || figure.getBoundingClientRect().bottom <= window.innerHeight) return;
        const button = make("button", "predict-press predict-look");
        Object.assign(button, { type: "button", textContent: "See it in the figure ↓" });
        button.addEventListener("click", () => figure.scrollIntoView({ block: "nearest" }));
        said.after(button);
      });
    }
  }
})();
