// Controls: what can be chosen, and nothing that does nothing on this page.

const control = (name) => document.getElementById(name);

function startControls(section) {
  startHeadChooser();
  startViewChooser();
  startFilter();
  startScaleChooser();
  startThemeChooser();
  startTokenChoosers();
  section.addEventListener("submit", (event) => event.preventDefault());
  control("reset").addEventListener("click", () => change(startingState));
}

/** Show what is chosen in a control now, and after each change of some names. */
function shownIn(names, show) {
  whenChanged(names, show);
  show();
}

/* Which head: by layer and head, or one after another. */

function startHeadChooser() {
  const [rows, columns] = [0, 1].map((side) => new Set(heads.map(({ place }) => place[side])));
  if (heads.length < 2) return control("choose-head").remove();
  startPlaceChooser("layer", 0, rows.size);
  startPlaceChooser("head", 1, columns.size);
  control("previous").addEventListener("click", () => stepHead(-1));
  control("next").addEventListener("click", () => stepHead(1));
}

/** A list of the rows, or columns, that the heads stand in; nothing where there is but one. */
function startPlaceChooser(name, side, count) {
  const [list, label] = [control(name), document.querySelector(`label[for=${name}]`)];
  if (count < 2) return [list, label].forEach((each) => each.remove());
  label.textContent = capital(side === 0 ? attention.rowsAre : attention.columnsAre);
  list.addEventListener("change", () => choosePlace(side, Number(list.value)));
  shownIn(["head"], () => {
    list.replaceChildren(...placesToChoose(side).map(([place, text]) =>
      element("option", { value: place }, text)));
    list.value = heads[state.head].place[side];
  });
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Every row; or, of columns, those in which there is a head of the chosen row. */
function placesToChoose(side) {
  const row = heads[state.head].place[0];
  const there = heads.filter(({ place }) => side === 0 || place[0] === row);
  const names = side === 0 ? attention.rows : attention.columns;
  return [...new Map(there.map((head) => [head.place[side], names[head.place[side]] || head.name]))];
}

/** The head in a row, or a column: the one nearest to where one was. */
function choosePlace(side, wanted) {
  const from = heads[state.head].place;
  const apart = ({ place }) => Math.abs(place[1 - side] - from[1 - side]);
  const there = [...heads.keys()].filter((head) => heads[head].place[side] === wanted);
  there.sort((one, other) => apart(heads[one]) - apart(heads[other]));
  change({ head: there[0] });
}

function stepHead(by) {
  change({ head: (state.head + by + heads.length) % heads.length });
}

/* Which view is large. */

function startViewChooser() {
  const explorer = control("explorer");
  onRadios("view", (value) => change({ view: value }));
  shownIn(["view"], () => {
    explorer.dataset.view = state.view;
    checkRadio("view", state.view);
  });
}

function onRadios(name, choose) {
  for (const each of document.querySelectorAll(`input[name=${name}]`)) {
    each.addEventListener("change", () => choose(each.value));
  }
}

function checkRadio(name, value) {
  for (const each of document.querySelectorAll(`input[name=${name}]`)) {
    each.checked = each.value === value;
  }
}

/* Which weights are drawn, and in which colours. */

const DECADES = 3;
const STEPS_OF_A_DECADE = 10;

/** Nothing, and then in even steps of logarithms up to the largest weight, in two digits. */
function filterSteps() {
  const high = attention.scale?.high ?? 1;
  const steps = [...Array(DECADES * STEPS_OF_A_DECADE).keys()].map((step) =>
    Number((high * 10 ** (step / STEPS_OF_A_DECADE - DECADES)).toPrecision(2)));
  return [0, ...steps];
}

function startFilter() {
  const [slider, says, steps] = [control("least"), control("least-says"), filterSteps()];
  slider.max = steps.length - 1;
  slider.addEventListener("input", () => change({ least: steps[Number(slider.value)] }));
  shownIn(["least"], () => {
    slider.value = steps.findLastIndex((step) => step <= state.least);
    says.textContent = state.least ? String(state.least) : "0";
    slider.setAttribute("aria-valuetext", says.textContent);
  });
}

function startScaleChooser() {
  onRadios("log", (value) => change({ log: value === "true" }));
  shownIn(["log"], () => checkRadio("log", String(state.log)));
}

function startThemeChooser() {
  const list = control("theme");
  list.addEventListener("change", () => change({ theme: list.value }));
  shownIn(["theme"], () => {
    list.value = state.theme;
    const { classList } = document.documentElement;
    classList.toggle("dark", state.theme === "dark");
    classList.toggle("light", state.theme === "light");
  });
}

/* Which tokens. */

function startTokenChoosers() {
  const special = control("special");
  if (!attention.sides.some((side) => side.special.some(Boolean))) {
    control("choose-special").remove();
  }
  special.addEventListener("change", () => change({ special: special.checked }));
  shownIn(["special"], () => (special.checked = state.special));
}
