// The words beside the lines: two columns in which each word can be chosen, and has its numbers.

function wordColumn(end) {
  return element("div", { class: `lines-column ${end}`, role: "group" });
}

/** The words of both columns, anew where they are others. */
function buildWords() {
  const { sides, places, columns } = lineView;
  const { reads, read } = heads[state.head];
  const built = [reads, read, state.special].join();
  if (built === lineView.built) return;
  lineView.built = built;
  lineView.words = {};
  for (const end of ["query", "key"]) {
    const words = places[end].map((place, index) => lineWord(sides[end], place, index));
    lineView.words[end] = words;
    columns[end].replaceChildren(...words.map(({ button }) => button));
  }
  lineView.marked = { query: null, key: null };
  pressWords();
}

function lineWord(side, place, index) {
  const [name, number] = [blockName(side, place), numberName(side, place)];
  const label = element("bdi", {}, name || number);
  const parts = name && number ? [element("span", { class: "place" }, number), label] : [label];
  const amounts = element("span", { class: "amounts" });
  const button = element("div", { class: "line-word", role: "button", "data-index": index });
  button.append(element("span", { class: "name" }, ...parts), amounts);
  button.title = name;
  button.setAttribute("tabindex", index === 0 ? "0" : "-1");
  button.classList.toggle("special", isFaint(side, place));
  button.classList.toggle("bordered", side.border !== null && place * side.size === side.border);
  return { button, amounts, place, texts: [] };
}

/** Each word in its row; of rows that are too close to each other every so many have one. */
function placeWords() {
  const { layout, columns, words } = lineView;
  const { amounts, names, strip } = layout.columns;
  const high = Math.max(layout.pitch, layout.size + 3);
  for (const end of ["query", "key"]) {
    const { style } = columns[end];
    style.width = `${amounts * AMOUNT_WIDTH + names[end]}px`;
    style.fontSize = `${layout.size}px`;
    style.setProperty("--row", `${high}px`);
    style.setProperty("--strip", `${strip}px`);
    for (const [index, word] of words[end].entries()) {
      word.button.style.top = `${heightOf(layout, end, word.place) - high / 2}px`;
      word.button.classList.toggle("left-out", index % layout.nth !== 0);
      makeAmounts(word, amounts);
    }
  }
}

/** Room for the numbers of so many heads. */
function makeAmounts(word, count) {
  if (word.texts.length === count) return;
  const spans = Array.from({ length: count }, () => element("span", {}));
  word.amounts.replaceChildren(...spans);
  word.texts = spans.map((span) => ({ span, text: "" }));
}

/** The tokens that are followed, for those who do not see. */
function pressWords() {
  if (!lineView.words) return;
  for (const end of ["query", "key"]) {
    const { size } = lineView.sides[end];
    for (const { button, place } of lineView.words[end]) {
      const pressed = state[end] !== null && Math.floor(state[end] / size) === place;
      button.setAttribute("aria-pressed", String(pressed));
    }
  }
}

/** Frames round those whose lines are drawn, and numbers beside what these read. */
function markWords(of) {
  for (const end of ["query", "key"]) {
    frameWord(end, of?.[end] ?? null);
    writeAmounts(end, of?.[OTHER_END[end]] ?? null);
  }
}

function frameWord(end, place) {
  const wordAt = (at) => lineView.words[end][lineView.layout.index[end].get(at)];
  if (lineView.marked[end] !== null) wordAt(lineView.marked[end])?.button.classList.remove("followed");
  if (place !== null) wordAt(place).button.classList.add("followed");
  lineView.marked[end] = place;
}

/** What a token at the other end has of each word, in as many heads as there is room for. */
function writeAmounts(end, followed) {
  const { tables, words, layout } = lineView;
  const told = tables.slice(0, layout.columns.amounts);
  const several = tables.length > 1;
  for (const [slot, { head, cells }] of told.entries()) {
    const { share } = heads[head];
    const amounts = followed === null ? null : amountsOf(cells, OTHER_END[end], followed);
    for (const { place, texts } of words[end]) {
      const amount = amounts?.[place];
      const text = amounts === null ? "" : Number.isNaN(amount) ? "·" : numberText(amount, { share });
      if (text === texts[slot].text) continue;
      texts[slot].text = text;
      texts[slot].span.textContent = text;
      texts[slot].span.style.textDecoration = several && text !== "·" ? `underline 2px ${colorOfHead(slot)}` : "";
    }
  }
}

/* Choosing. */

function makeColumnChoosable(end) {
  const column = lineView.columns[end];
  column.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") pointAtWord(end, indexAt(end, event.clientY));
  });
  column.addEventListener("pointerleave", () => change({ hover: null }));
  column.addEventListener("click", ({ clientY, detail, target }) => {
    const index = detail === 0 ? Number(target.dataset.index) : indexAt(end, clientY);
    if (index !== null) followWord(end, index);
  });
  column.addEventListener("focusin", ({ target }) => {
    for (const { button } of lineView.words[end]) if (button.tabIndex === 0) button.tabIndex = -1;
    target.tabIndex = 0;
    if (target.matches(":focus-visible")) pointAtWord(end, Number(target.dataset.index));
  });
  column.addEventListener("focusout", () => change({ hover: null }));
  column.addEventListener("keydown", (event) => wordKey(end, event));
}

/** The row at a height of the window. */
function indexAt(end, height) {
  const { pitch, top } = lineView.layout.ends[end];
  const within = height - lineView.stack.getBoundingClientRect().top - top;
  const index = Math.floor(within / pitch);
  return index >= 0 && index < lineView.words[end].length ? index : null;
}

const tokenOfWord = (end, index) => lineView.words[end][index].place * lineView.sides[end].size;

function pointAtWord(end, index) {
  const at = index === null ? null : { query: null, key: null, [end]: tokenOfWord(end, index) };
  change({ hover: at });
}

/** Follow a token; the one that is followed is let go. */
function followWord(end, index) {
  const token = tokenOfWord(end, index);
  change({ [end]: state[end] === token ? null : token });
}

function wordKey(end, event) {
  const { key, target } = event;
  const index = Number(target.dataset.index);
  if (key === "Enter" || key === " ") followWord(end, index);
  else if (key === "Escape") {
    if (!letGo()) return;
  } else if (!goToWord(end, index, key)) return;
  event.preventDefault();
}

/** Up and down in a column, left and right to the other one. */
function goToWord(end, index, key) {
  const last = lineView.words[end].length - 1;
  const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
  if (key in steps) return focusWord(end, Math.min(Math.max(index + steps[key], 0), last));
  const across = { ArrowLeft: "query", ArrowRight: "key" }[key];
  if (!across || across === end) return false;
  return focusWord(across, Math.min(index, lineView.words[across].length - 1));
}

function focusWord(end, index) {
  lineView.words[end][index].button.focus();
  return true;
}
