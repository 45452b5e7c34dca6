// Lines of several heads at once: which ones, each in its colour, and the legend.

const MOST_TOGETHER = 8; // heads, as many as there are colours that can be told apart

/** The chosen head first, then those that were added, as far as they are of the same sentences. */
function headsTogether() {
  const others = state.together.filter((head) => canStandTogether(head));
  return [state.head, ...new Set(others)].slice(0, MOST_TOGETHER);
}

/** The same, of two sentences on the one whose lines are wanted. */
const headsOfLines = () => headsTogether().map((head) => lineHead(head));

function canStandTogether(head) {
  const [one, other] = [heads[state.head], heads[head]];
  if (head === state.head || !other) return false;
  return one.reads === other.reads && one.read === other.read && one.scale === other.scale;
}

/** The colour of the head in this place of those together. */
const colorOfHead = (slot) => themeColors().heads[slot];

/** Add a head, or take it away: then the last one takes its colour, and all others keep theirs. */
function toggleHead(head) {
  const together = headsTogether().slice(1);
  const slot = together.indexOf(head);
  if (slot < 0) return change({ together: [...together, head].slice(0, MOST_TOGETHER - 1) });
  const last = together.pop();
  if (slot < together.length) together[slot] = last;
  return change({ together });
}

/** Those in the row of the chosen head, or else in its column, and all that are drawn already. */
function headsToChoose() {
  const drawn = headsTogether();
  const inLine = (side) => {
    const at = heads[state.head].place[side];
    return choosable.filter(
      (head) => heads[head].place[side] === at && canStandTogether(head));
  };
  const near = inLine(0).length > 0 ? inLine(0) : inLine(1);
  const offered = [...new Set([...drawn, ...near])].sort((one, other) => one - other);
  return offered.length > 1 ? offered : [];
}

/** A switch for each head, with its colour; nothing where there is one alone. */
function showLegend(legend) {
  const drawn = headsTogether();
  const { activeElement } = document;
  const focused = legend.contains(activeElement) ? activeElement.dataset.head : "";
  const offered = headsToChoose();
  legend.hidden = offered.length === 0 && !arePaired;
  if (offered.length === 0) return legend.replaceChildren(...sentenceSwitches());
  legend.replaceChildren(...sentenceSwitches(), ...offered.map((head) => headSwitch(head, drawn)));
  if (offered.length <= MOST_TOGETHER) legend.append(allSwitch(offered, drawn));
  legend.append(aloneSwitch(drawn));
  if (focused) legend.querySelector(`[data-head="${focused}"]`)?.focus();
}

/** Whose lines are drawn, of two sentences: those of one, or what is different. */
function sentenceSwitches() {
  if (!arePaired) return [];
  return [...SENTENCES, "difference"].map((which) => {
    const pressed = String(state.lines === which);
    const look = { type: "button", "aria-pressed": pressed, "data-head": which };
    const made = element("button", look, SENTENCES.includes(which) ? `${which} sentence` : which);
    made.addEventListener("click", () => change({ lines: which }));
    return made;
  });
}

function headSwitch(head, drawn) {
  const slot = drawn.indexOf(head);
  const swatch = element("span", { class: "head-swatch" });
  if (slot >= 0) swatch.style.background = colorOfHead(slot);
  const full = drawn.length === MOST_TOGETHER && slot < 0;
  const made = element(
    "button",
    { type: "button", "aria-pressed": String(slot >= 0), "data-head": head },
    swatch,
    heads[head].name,
  );
  made.disabled = full;
  if (full) made.title = `up to ${MOST_TOGETHER} heads are drawn together`;
  if (head === state.head) made.title = "the head that is chosen";
  made.addEventListener("click", () => head !== state.head && toggleHead(head));
  return made;
}

function allSwitch(offered, drawn) {
  const all = element("button", { type: "button", "data-head": "all" }, "all");
  all.disabled = drawn.length === offered.length;
  const others = offered.filter((head) => !drawn.includes(head));
  all.addEventListener("click", () => change({ together: [...drawn.slice(1), ...others] }));
  return all;
}

function aloneSwitch(drawn) {
  const alone = element("button", { type: "button", "data-head": "alone" }, "one alone");
  alone.disabled = drawn.length === 1;
  alone.addEventListener("click", () => change({ together: [] }));
  return alone;
}
