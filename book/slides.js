/* Arrow keys, a step at a time; `s` opens the speaker's script in a second window. */
const slides = [...document.querySelectorAll(".slide")];
let now = 0, speaker = null, since = Date.now();

const stepsOf = (slide) => [...slide.querySelectorAll(".step")];
const told = (slide) => slide.classList.toggle("told", !!slide.querySelector(".step.open"));

function show(number, whole = false) {
  now = Math.min(Math.max(number, 0), slides.length - 1);
  slides.forEach((slide, i) => slide.classList.toggle("now", i === now));
  stepsOf(slides[now]).forEach((step) => step.classList.toggle("open", whole));
  told(slides[now]);
  for (const figure of slides[now].querySelectorAll("figure.explorable")) posencExplorables.notebook(figure.id, PLOTLY);
  try { history.replaceState(null, "", `#${now + 1}`); } catch (error) { /* opened from disk: the address stays */ }
  speak();
}

function on() {
  const next = stepsOf(slides[now]).find((step) => !step.classList.contains("open"));
  if (!next) return now + 1 < slides.length && show(now + 1);
  next.classList.add("open");
  told(slides[now]);
}

function back() {
  const open = stepsOf(slides[now]).filter((step) => step.classList.contains("open"));
  if (!open.length) return now && show(now - 1, true);
  open.pop().classList.remove("open");
  told(slides[now]);
}

function speak() {
  if (!speaker || speaker.closed) return;
  const page = speaker.document, next = slides[now + 1];
  page.title = "Script";
  page.body.style.cssText = "font: 20px/1.45 sans-serif; margin: 1.5em; max-width: 45em";
  page.body.innerHTML = `<p id="clock"></p>${slides[now].querySelector(".script").innerHTML}`
    + `<p style="color: #666">next: ${next ? next.querySelector("h1, h2").innerHTML : "the end"}</p>`;
  tick();
}

function tick() {
  const clock = speaker && !speaker.closed && speaker.document.getElementById("clock");
  if (clock) clock.textContent = `slide ${now + 1} of ${slides.length}, ${Math.floor((Date.now() - since) / 60000)} min gone`;
}

const KEYS = {
  ArrowRight: on, PageDown: on, " ": on, ArrowLeft: back, PageUp: back,
  Home: () => show(0), End: () => show(slides.length - 1, true),
  f: () => document.documentElement.requestFullscreen(),
  s: () => {
    speaker = window.open("", "script", "width=700,height=600");
    if (!speaker) return;
    since = Date.now();
    speaker.addEventListener("keydown", press);
    speak();
  },
};

function press(event) {
  // In a control the arrows move the figure.
  const inControl = event.target.matches?.("input, button, summary") && event.key !== "PageDown" && event.key !== "PageUp";
  if (inControl || event.altKey || event.ctrlKey || event.metaKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
}

function paper() {
  document.documentElement.classList.add("print");
  slides.forEach((slide) => {
    stepsOf(slide).forEach((step) => step.classList.add("open"));
    told(slide);
  });
}

// `?print` shows all slides with the pictures of their figures: nothing is drawn.
if (location.search === "?print") {
  paper();
} else {
  window.addEventListener("beforeprint", paper);
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("print");
    show(now, true);
  });
  window.addEventListener("keydown", press);
  document.querySelector("main").addEventListener("click", (event) => {
    if (!event.target.closest("figure, a")) on();
  });
  window.setInterval(tick, 5000);
  show(Number(location.hash.slice(1) || 1) - 1);
}
