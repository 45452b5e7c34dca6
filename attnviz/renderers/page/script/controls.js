// Controls: only those that do something on this page.

const control = (name) => document.getElementById(name);

function startControls() {
  control("controls").hidden = false;
  startHeadChooser();
  startViewChooser();
  startQueryChooser();
  startFilter();
  startScaleChooser();
  startSpecialChooser();
  startThemeChooser();
  startMenus();
  startShortcuts();
  linkHeads();
  control("reset").addEventListener("click", () => {
    change(startingState);
    say("Back to how the page opened.");
  });
}

/** Show what is chosen in a control now, and after each change of some names. */
function shownIn(names, show) {
  whenChanged(names, show);
  show();
}

function titlePage(title) {
  document.querySelector("h1").textContent = title;
  document.title = title;
}

let silence = null;

/** A short message, which is read out, too, and goes after a while. */
function say(text) {
  control("said").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => (control("said").textContent = ""), 8000);
}

/* Which head: by layer and head, or one after another. */

function startHeadChooser() {
  if (choosable.length < 2) {
    control("explorer").classList.add("one-head");
    control("choose-view").after(control("more"));
    document.querySelector("[value=overview]").closest("label").remove();
    return control("choose-head").remove();
  }
  startPlaceChooser("layer", 0);
  startPlaceChooser("head", 1);
  control("previous").addEventListener("click", () => stepHead(-1));
  control("next").addEventListener("click", () => stepHead(1));
}

/** A list of the rows, or columns, that the heads stand in; nothing where there is but one. */
function startPlaceChooser(name, side) {
  const [list, label] = [control(name), document.querySelector(`label[for=${name}]`)];
  if (new Set(choosable.map((head) => heads[head].place[side])).size < 2) {
    return [list, label].forEach((each) => each.remove());
  }
  label.textContent = capital(side === 0 ? attention.rowsAre : attention.columnsAre);
  if (side === 0 && attention.rowsAre === "moment") return startMomentSlider(list);
  list.addEventListener("change", () => choosePlace(side, Number(list.value)));
  shownIn(["head"], () => {
    const options = placesToChoose(side).map(([place, text]) =>
      element("option", { value: place }, text));
    list.replaceChildren(...options);
    list.value = heads[state.head].place[side];
  });
}

/** A slider in place of the list: moments follow each other. */
function startMomentSlider(list) {
  const moments = placesToChoose(0);
  const { id } = list;
  const slider = element("input", { type: "range", id, min: 0, max: moments.length - 1 });
  const says = element("output", { id: "moment-says", for: id, "aria-live": "off" });
  list.replaceWith(slider, says);
  slider.addEventListener("input", () => choosePlace(0, moments[Number(slider.value)][0]));
  shownIn(["head"], () => {
    const moment = moments.findIndex(([place]) => place === heads[state.head].place[0]);
    slider.value = moment;
    says.textContent = moments[moment][1];
    slider.setAttribute("aria-valuetext", says.textContent);
    const title = attention.titles[moments[moment][0]];
    const isOther = title && title !== document.querySelector("h1").textContent;
    if (isOther && !isLive) titlePage(title);
  });
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Every row; or, of columns, those in which there is a head of the chosen row. */
function placesToChoose(side) {
  const row = heads[state.head].place[0];
  const among = choosable.map((head) => heads[head]);
  const there = among.filter(({ place }) => side === 0 || place[0] === row);
  const names = side === 0 ? attention.rows : attention.columns;
  const named = ({ place, name }) => [place[side], names[place[side]] || name];
  return [...new Map(there.map(named))].sort(([one], [other]) => one - other);
}

/** The head in a row, or a column: in the same row, and the nearest to where one was. */
function choosePlace(side, wanted) {
  const from = heads[state.head].place;
  const apart = ({ place }) => Math.abs(place[1 - side] - from[1 - side]);
  const there = choosable.filter((head) => heads[head].place[side] === wanted);
  there.sort((one, other) => apart(heads[one]) - apart(heads[other]));
  change({ head: there[0] });
}

function stepHead(by) {
  const count = choosable.length;
  change({ head: choosable[(choosable.indexOf(state.head) + by + count) % count] });
}

/* Which view is large. */

const narrowPage = matchMedia("(max-width: 56.24em)");

/** Of a wide page matrix and lines take turns; of a narrow one all views do. */
function startViewChooser() {
  const both = document.querySelector("[value=both]").closest("label");
  if (arePaired) both.nextElementSibling.querySelector("span").textContent = "Difference";
  else both.remove();
  onRadios("view", (value) => change({ view: value }));
  const show = () => {
    control("explorer").dataset.view = state.view;
    checkRadio("view", narrowPage.matches ? state.view : largeView());
  };
  narrowPage.addEventListener("change", show);
  shownIn(["view"], show);
}

/** Where all heads are alone in sight, one that is opened takes their place. */
const viewOfOpened = () =>
  narrowPage.matches && state.view === "overview" ? { view: startingState.view } : {};

const largeView = () =>
  ["matrix", "lines"].includes(state.view) ? state.view : startingState.view;

const radios = (name) => [...document.querySelectorAll(`input[name=${name}]`)];

function onRadios(name, choose) {
  for (const each of radios(name)) each.addEventListener("change", () => choose(each.value));
}

function checkRadio(name, value) {
  for (const each of radios(name)) each.checked = each.value === value;
}

/* Which weights are drawn, and in which colours. */

const DECADES = 3;
const STEPS_OF_A_DECADE = 10;

/** Nothing, and then in even steps of logarithms up to the largest weight, in two digits. */
function filterSteps() {
  const { low, high } = scaleOf(state.head);
  const most = Math.max(Math.abs(low), Math.abs(high));
  const steps = [...Array(DECADES * STEPS_OF_A_DECADE).keys()].map((step) =>
    Number((most * 10 ** (step / STEPS_OF_A_DECADE - DECADES)).toPrecision(2)));
  return [0, ...steps];
}

/** The bound of the filter, in as many digits as it has: numbers beside it are compared with it. */
function leastText() {
  const text = typeset(String(Number(state.least.toPrecision(3))));
  return heads[state.head].share ? text.replace(/^0(?=\.)/, "") : text;
}

function startFilter() {
  const [slider, says] = [control("least"), control("least-says")];
  slider.addEventListener("input", () => change({ least: filterSteps()[Number(slider.value)] }));
  shownIn(["least", "head"], () => {
    const steps = filterSteps();
    slider.max = steps.length - 1;
    slider.value = steps.findLastIndex((step) => step <= state.least);
    says.textContent = leastText();
    slider.setAttribute("aria-valuetext", state.least ? says.textContent : "nothing is hidden");
  });
}

/** Not where numbers go below 0: they have no logarithms. */
function startScaleChooser() {
  onRadios("log", (value) => change({ log: value === "true" }));
  if (attention.scales.every(({ kind }) => kind === "diverging")) control("choose-scale").remove();
  shownIn(["log", "head"], () => {
    checkRadio("log", String(state.log));
    for (const each of radios("log")) each.disabled = scaleOf(state.head).kind === "diverging";
  });
}

function startSpecialChooser() {
  const box = control("special");
  if (!attention.sides.some((side) => side.special.some(Boolean))) {
    return control("choose-special").remove();
  }
  box.addEventListener("change", () => change({ special: box.checked }));
  shownIn(["special"], () => (box.checked = state.special));
}

function startThemeChooser() {
  const list = control("theme");
  list.addEventListener("change", () => change({ theme: list.value }));
  shownIn(["theme"], () => {
    list.value = state.theme;
    document.documentElement.classList.toggle("dark", state.theme === "dark");
    document.documentElement.classList.toggle("light", state.theme === "light");
  });
}
