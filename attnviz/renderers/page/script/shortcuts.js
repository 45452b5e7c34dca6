// Keyboard shortcuts, menus that close, and links that open a head.

const SHORTCUTS = {
  "[": { does: "previous head", press: () => stepHead(-1), when: () => choosable.length > 1 },
  "]": { does: "next head", press: () => stepHead(1), when: () => choosable.length > 1 },
  v: { does: "the next view: matrix, lines", press: changeView, when: () => true },
  d: { does: "the arithmetic of the cell", press: toggleArithmetic, when: canShowArithmetic },
  "/": { does: "find a token to follow", press: () => control("query").focus(), when: () => true },
  "?": { does: "these keys", press: () => openMenu("help"), when: () => true },
};
const KEYS_OF_VIEWS = [
  ["arrows", "move the cell, in the matrix"],
  ["Enter", "follow its row; with Shift its column"],
  ["+ − 0", "larger, smaller, original size"],
  ["Esc", "close the arithmetic; stop following; close a menu"],
];

function startShortcuts() {
  addEventListener("keydown", (event) => {
    const shortcut = lookUp(SHORTCUTS, event.key);
    if (!state.keys || !shortcut?.when()) return;
    if (isOfBrowser(event) || takesLetters(event.target)) return;
    event.preventDefault();
    shortcut.press();
  });
  listShortcuts();
}

/** With Ctrl a key is the browser's own; with Alt only a letter is: some type a bracket so. */
const isOfBrowser = ({ key, ctrlKey, altKey, metaKey }) =>
  metaKey || (ctrlKey && !altKey) || (altKey && /[a-z]/.test(key));

const takesLetters = (target) => target.matches?.("input[type=search], textarea, select");

function changeView() {
  const views = [...(arePaired ? ["both"] : []), "matrix", "lines"];
  change({ view: views[(views.indexOf(largeView()) + 1) % views.length] });
}

function listShortcuts() {
  const own = Object.entries(SHORTCUTS).filter(([, { when }]) => when());
  const rows = [...own.map(([key, { does }]) => [key, does]), ...KEYS_OF_VIEWS];
  const list = rows.flatMap(([key, does]) => [
    element("dt", {}, element("kbd", {}, key)),
    element("dd", {}, does),
  ]);
  const all = element("div", { class: "panel" }, element("dl", {}, ...list), switchOfKeys());
  control("help").append(all);
}

function switchOfKeys() {
  const box = element("input", { type: "checkbox", id: "keys" });
  const show = () => (box.checked = state.keys);
  box.addEventListener("change", () => change({ keys: box.checked }));
  whenChanged(["keys"], show);
  show();
  return element("label", { class: "switch" }, box, " single-letter shortcuts on");
}

/* Menus: one is open at a time; Escape, or a click elsewhere, closes it. */

const menus = () => [...document.querySelectorAll("details.menu")];

function startMenus() {
  addEventListener("pointerdown", ({ target }) => {
    for (const menu of menus()) if (!menu.contains(target)) menu.open = false;
  });
  for (const menu of menus()) {
    menu.addEventListener("toggle", () => menu.open && closeOthers(menu));
    menu.addEventListener("keydown", (event) => event.key === "Escape" && closeMenu(menu, event));
  }
  const more = control("more");
  more.addEventListener("click", () => {
    const open = control("controls").classList.toggle("all");
    more.setAttribute("aria-expanded", open);
  });
}

function closeOthers(menu) {
  for (const each of menus()) if (each !== menu) each.open = false;
}

function closeMenu(menu, event) {
  if (!menu.open) return;
  event.stopPropagation();
  menu.open = false;
  menu.querySelector("summary").focus();
}

function openMenu(name) {
  control(name).open = true;
  control(name).querySelector("summary").focus();
}

/* Heads that are named in a table open where they can be looked at. */

function linkHeads(within = control("panels")) {
  if (choosable.length < 2) return;
  const names = new Set(choosable.map((head) => heads[head].name));
  for (const cell of within.querySelectorAll("td, th")) linkHead(cell, names);
}

/** `L0H2 1.00`: its first word, where that is the name of a head. */
function linkHead(cell, names) {
  const text = cell.textContent;
  const [name] = text.split(" ");
  if (!names.has(name) || cell.querySelector("a")) return;
  const link = element("a", { href: `#head=${encodeURIComponent(name)}` }, name);
  link.addEventListener("click", (event) => openLinkedHead(event, name));
  cell.replaceChildren(link, text.slice(name.length));
}

function openLinkedHead(event, name) {
  event.preventDefault();
  change({ head: headNamed(name) });
  control("explorer").scrollIntoView();
  say(`Showing ${name}.`);
}

/* What can be scrolled can be scrolled with keys; what need not be is no stop on the way. */

const watchOfFrames = new ResizeObserver((seen) =>
  seen.forEach(({ target }) => letScroll(target)));

function letFramesScroll(within = document) {
  for (const frame of within.querySelectorAll(".frame, pre")) watchOfFrames.observe(frame);
}

function letScroll(frame) {
  const scrolls =
    frame.scrollWidth > frame.clientWidth + 1 || frame.scrollHeight > frame.clientHeight + 1;
  if (scrolls) return Object.assign(frame, { tabIndex: 0, role: "group", ariaLabel: "scrolls" });
  for (const name of ["tabindex", "role", "aria-label"]) frame.removeAttribute(name);
}
