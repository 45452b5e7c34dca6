// The words beside the lines: two columns to choose from, with numbers.

const ROWS_NEAR = 12; // above and below those in sight

function wordColumn(end) {
  return element("div", { class: `lines-column ${end}`, role: "group" });
}

/** The words of both columns, anew where they are others. */
function buildWords() {
  const { places, columns } = lineView;
  const { reads, read } = heads[lineHead()];
  const built = [reads, read, state.special].join();
  if (built === lineView.built) return;
  lineView.built = built;
  for (const end of ["query", "key"]) {
    columns[end].replaceChildren();
    lineView.words[end] = places[end].map((place, index) => ({ end, place, index, button: null }));
    lineView.shown[end] = [];
    lineView.stops[end] = 0;
  }
}

/** Widths of columns; then each word in its row. */
function placeWords() {
  const { layout, columns, words } = lineView;
  const { amounts, amount, narrow, names } = layout.columns;
  for (const end of ["query", "key"]) {
    const { style } = columns[end];
    style.width = `${amounts * amount + names[end]}px`;
    style.setProperty("--amount", `${amount}px`);
    columns[end].classList.toggle("narrow-words", narrow);
    style.fontSize = `${layout.size}px`;
    style.setProperty("--row", `${layout.high}px`);
    for (const word of words[end]) word.stands = false;
    showWords(end);
  }
}

/** Of very many words only those are in the page that are in sight, or can be reached by a key. */
function showWords(end) {
  const { columns, shown } = lineView;
  const wanted = wordsToShow(end);
  for (const word of shown[end]) if (!wanted.includes(word)) word.button.remove();
  let next = columns[end].firstChild;
  for (const word of wanted) {
    word.button ??= wordButton(word);
    if (!word.stands) placeWord(word);
    if (word.button === next) next = next.nextSibling;
    else columns[end].insertBefore(word.button, next);
  }
  lineView.shown[end] = wanted;
}

function wordsToShow(end) {
  const { words, layout, stops, of } = lineView;
  const marked = of?.[end] ?? null;
  const always = [stops[end], marked === null ? -1 : layout.index[end].get(marked)];
  const near = new Set(wordsInSight(end));
  return words[end].filter((word) =>
    always.includes(word.index) || (near.has(word) && word.index % layout.nth === 0));
}

function wordsInSight(end) {
  const { words, layout, scrolled } = lineView;
  const { pitch, top } = layout.ends[end];
  const { first, end: last } = visiblePlaces(words[end].length, scrolled - top, layout.open, pitch);
  return words[end].slice(Math.max(first - ROWS_NEAR, 0), last + ROWS_NEAR);
}

function wordButton({ end, place, index }) {
  const side = lineView.sides[end];
  const [name, number] = [blockName(side, place), numberName(side, place)];
  const label = element("bdi", {}, name || number);
  const before = name && number ? [element("span", { class: "place" }, number), " "] : [];
  const button = element("div", { class: "line-word", role: "button", "data-index": index });
  button.append(element("span", { class: "name" }, ...before, label));
  button.title = name;
  button.tabIndex = index === lineView.stops[end] ? 0 : -1;
  button.classList.toggle("special", isFaint(side, place));
  button.classList.toggle("bordered", place === lineView.borders[end]);
  button.setAttribute("aria-pressed", String(isPressed(end, place)));
  return button;
}

/** A word in its row, with room for the numbers of some heads. */
function placeWord(word) {
  const { layout } = lineView;
  const { button, end, place } = word;
  button.style.top = `${heightOf(layout, end, place) - layout.high / 2}px`;
  const count = layout.columns.amounts;
  word.stands = true;
  if (word.texts?.length === count) return;
  word.amounts?.remove();
  const spans = Array.from({ length: count }, () => element("span", {}));
  word.amounts = element("span", { class: "amounts" }, ...spans);
  word.texts = spans.map((span) => ({ span, text: "" }));
  button.append(word.amounts);
}

function isPressed(end, place) {
  const token = tokenInHead(lineHead(), end === "query" ? 0 : 1, state[end]);
  return token !== null && Math.floor(token / lineView.sides[end].size) === place;
}

/** The tokens that are followed, for those who do not see. */
function pressWords() {
  for (const end of ["query", "key"]) {
    for (const { button, place } of lineView.words[end]) {
      button?.setAttribute("aria-pressed", String(isPressed(end, place)));
    }
  }
}

/** Frames round those whose lines are drawn, and numbers beside what these read. */
function markWords() {
  for (const end of ["query", "key"]) {
    showWords(end);
    const { of, shown } = lineView;
    const marked = of?.[end] ?? null;
    const followed = of?.[OTHER_END[end]] ?? null;
    const told = followed === null ? [] : lineView.tables.slice(0, lineView.layout.columns.amounts);
    const texts = told.map((table, slot) => amountTexts(table, slot, end, followed));
    for (const word of shown[end]) {
      word.button.classList.toggle("followed", word.place === marked);
      writeTexts(word, texts.map((textOf) => textOf(word.place)));
    }
  }
}

/** What a token at the other end has of each word, in one head: all in as many digits. */
function amountTexts({ head, cells }, slot, end, followed) {
  const color = lineView.tables.length > 1 ? colorOfHead(slot) : "";
  const amounts = amountsOf(cells, OTHER_END[end], followed);
  const write = cellWriter(largestOf(amounts), heads[head].share);
  return (place) => {
    const amount = amounts[place];
    return Number.isNaN(amount) ? { text: "·" } : { text: write(amount), color };
  };
}

function writeTexts({ texts }, told) {
  for (const [slot, each] of texts.entries()) {
    const { text = "", color = "" } = told[slot] ?? {};
    if (text === each.text) continue;
    each.text = text;
    each.span.textContent = text;
    each.span.style.textDecoration = color && `underline 2px ${color}`;
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
    moveStop(end, Number(target.dataset.index));
    if (!target.matches(":focus-visible")) return;
    sayAloud(true);
    pointAtWord(end, Number(target.dataset.index));
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

function tokenOfWord(end, index) {
  const { place } = lineView.words[end][index];
  const [head, query] = [lineHead(), end === "query"];
  const token = query ? lineView.tables[0].cells.token(place) : place * lineView.sides[end].size;
  return tokenOfPage(head, query ? 0 : 1, token);
}

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
  const step = lookUp(steps, key);
  if (step !== undefined) return focusWord(end, Math.min(Math.max(index + step, 0), last));
  const across = lookUp({ ArrowLeft: "query", ArrowRight: "key" }, key);
  if (!across || across === end) return false;
  return focusWord(across, Math.min(index, lineView.words[across].length - 1));
}

function focusWord(end, index) {
  moveStop(end, index);
  lineView.words[end][index].button.focus();
  return true;
}

/** The word of a column to which Tab leads. */
function moveStop(end, index) {
  lineView.words[end][lineView.stops[end]].button.tabIndex = -1;
  lineView.stops[end] = index;
  showWords(end);
  lineView.words[end][index].button.tabIndex = 0;
}
