// Running text of tokens that can be chosen by pointer, finger or arrow keys.

const ALL_COLORED = 300; // tokens: of more only those in sight, with every move of a pointer
const LINES_AROUND = 90; // pixels

/** A sentence, token by token, with the spaces that it has. */
function textOf(side, end) {
  const holder = element("div", { class: "text", role: "group", dir: "auto" });
  const label = { query: "queries (read)", key: "keys (are read)" }[end] ?? "the sentence";
  holder.setAttribute("aria-label", label);
  const places = shownPlaces(side, side.labels.length);
  const numbered = places.length <= MOST_NUMBERED;
  const text = { holder, side, end, places, numbered, tokens: new Map(), framed: -1 };
  text.border = firstBehind({ ...side, size: 1 }, places);
  holder.classList.toggle("numbered", numbered);
  for (const word of wordsOf(side, places)) holder.append(...wordParts(text, word));
  makeChoosable(text);
  return text;
}

const LONGEST_WORD = 6; // tokens: more can be parted where a line ends

/** Tokens that stand together without a space; where all do, each by itself. */
function wordsOf(side, places) {
  if (!places.slice(1).some((place) => isSpaced(side, place))) return places.map((each) => [each]);
  const words = [];
  for (const place of places) {
    const goesOn = words.length > 0 && !isSpaced(side, place) && !isSpecial(side, place);
    if (goesOn && !isSpecial(side, words.at(-1)[0])) words.at(-1).push(place);
    else words.push([place]);
  }
  const parted = (word) => word.map((each) => [each]);
  return words.flatMap((word) => (word.length > LONGEST_WORD ? parted(word) : [word]));
}

/** The tokens of a word in one piece, its numbers below; and what stands before it. */
function wordParts(text, word) {
  const parts = word.map((place) => tokenParts(text, place));
  if (word.length === 1) return parts[0];
  const [[space, ...first], ...others] = parts;
  const letters = element("span", { class: "letters" }, ...first, ...others.flat());
  const numbers = word.map((place) => text.tokens.get(place).number).filter(Boolean);
  const below = element("span", { class: "numbers", "aria-hidden": "true" }, ...numbers);
  return [space, element("span", { class: "word" }, letters, ...(numbers.length ? [below] : []))];
}

/** A token, and what stands between it and the one before it. */
function tokenParts(text, place) {
  const { side, places, numbered } = text;
  const button = element("span", { class: "token", role: "button" }, side.labels[place]);
  const about = { class: "number", dir: "ltr", "aria-hidden": "true", "data-place": place };
  const number = numbered ? element("span", about) : null;
  if (numbered) button.append(number);
  button.setAttribute("tabindex", place === places[0] ? "0" : "-1");
  button.classList.toggle("special", isSpecial(side, place));
  button.setAttribute("aria-label", calledPlace({ ...side, size: 1 }, place));
  button.dataset.place = place;
  text.tokens.set(place, { button, number, look: PLAIN_LOOK });
  const ends = side.labels[place].endsWith("↵") ? [document.createElement("br")] : [];
  const begins = text.border === place ? [element("span", { class: "border" })] : [];
  return [isSpaced(side, place) ? " " : "", ...begins, button, ...ends];
}

function makeChoosable(text) {
  const { holder } = text;
  const placeAt = (event) => event.target.closest?.("[data-place]")?.dataset.place;
  holder.addEventListener("pointerover", (event) => {
    sayAloud(false);
    if (event.pointerType !== "touch" && placeAt(event)) pointAt(text, Number(placeAt(event)));
  });
  holder.addEventListener("pointerleave", () => change({ hover: null }));
  holder.addEventListener("focusin", (event) => {
    moveTabStop(text, Number(placeAt(event)));
    sayAloud(event.target.matches(":focus-visible"));
    if (event.target.matches(":focus-visible")) pointAt(text, Number(placeAt(event)));
  });
  holder.addEventListener("focusout", () => change({ hover: null }));
  holder.addEventListener("click", (event) => {
    if (placeAt(event)) follow(text, Number(placeAt(event)));
  });
  holder.addEventListener("keydown", (event) => moveByKey(text, event));
}

/** Where a text reads and is read, a choice is of the end that is asked about. */
const endOf = (text) => text.end ?? sentenceView.asks;

function pointAt(text, place) {
  change({ hover: { query: null, key: null, [endOf(text)]: place } });
}

/** Follow a token; the one that is followed is let go. */
function follow(text, place) {
  const end = endOf(text);
  if (text.end !== null) sentenceView.asks = end;
  change({ [end]: state[end] === place ? null : place });
}

function moveByKey(text, event) {
  const place = Number(event.target.dataset.place);
  const next = neighbour(text, place, event.key);
  if (event.key === "Enter" || event.key === " ") follow(text, place);
  else if (event.key === "Escape") {
    if (!letGo()) return;
  } else if (next === null) return;
  else text.tokens.get(next).button.focus();
  event.preventDefault();
}

/** The token to which a key leads: left and right as they are seen, up and down by lines. */
function neighbour(text, place, key) {
  const { places, holder } = text;
  const at = places.indexOf(place);
  const forward = getComputedStyle(holder).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
  if (key === "Home" || key === "End") return places.at(key === "Home" ? 0 : -1);
  if (key === forward) return places[Math.min(at + 1, places.length - 1)];
  if (key === backward) return places[Math.max(at - 1, 0)];
  if (key === "ArrowDown" || key === "ArrowUp") return inNextLine(text, place, key === "ArrowDown");
  return null;
}

/** The nearest token of the line below, or above. */
function inNextLine(text, place, down) {
  const boxes = text.places.map((each) => [each, text.tokens.get(each).button]);
  const { offsetTop: top, offsetLeft: left, offsetWidth } = text.tokens.get(place).button;
  const beyond = boxes.filter(([, { offsetTop }]) => (down ? offsetTop > top : offsetTop < top));
  const tops = beyond.map(([, { offsetTop }]) => offsetTop);
  const line = down ? Math.min(...tops) : Math.max(...tops);
  const way = (box) => Math.abs(box.offsetLeft + box.offsetWidth / 2 - left - offsetWidth / 2);
  const candidates = beyond.filter(([, { offsetTop }]) => offsetTop === line);
  candidates.sort(([, one], [, other]) => way(one) - way(other));
  return candidates[0]?.[0] ?? place;
}

function moveTabStop(text, place) {
  for (const { button } of text.tokens.values()) {
    if (button.tabIndex === 0) button.tabIndex = -1;
  }
  text.tokens.get(place).button.tabIndex = 0;
}

/** Which tokens are followed, for those who do not see frames. */
function pressTokens() {
  for (const text of sentenceView.texts) {
    for (const [place, { button }] of text.tokens) {
      button.setAttribute("aria-pressed", state[endOf(text)] === place);
    }
  }
}

/** Of long texts those in the lines that can be seen, and in some around them. */
function tokensInSight(text) {
  const { places } = text;
  if (places.length <= ALL_COLORED || onPaper.printing) return places;
  text.tops ??= places.map((place) => text.tokens.get(place).button.offsetTop);
  const { scrollTop, clientHeight } = sentenceView;
  const first = text.tops.findIndex((top) => top > scrollTop - LINES_AROUND);
  const end = text.tops.findIndex((top) => top > scrollTop + clientHeight + LINES_AROUND);
  return places.slice(Math.max(first, 0), end < 0 ? places.length : end);
}

const LINES_OF_LONG = 3; // that are seen of a long text, unless all of it is wanted

/** Of a long text the first lines, none of them cut; all where somebody wants them. */
function collapseTexts() {
  const { holder, all, whole, texts } = sentenceView;
  const buttons = texts.flatMap(({ tokens }) => [...tokens.values()]);
  const tops = [...new Set(buttons.map(({ button }) => button.offsetTop))];
  const long = tops.length > LINES_OF_LONG + 1 && !narrowPage.matches;
  const high = tops[LINES_OF_LONG] - tops[0];
  holder.style.maxHeight = long && !whole && !onPaper.printing ? `${high}px` : "";
  holder.classList.toggle("whole", long && whole);
  all.hidden = !long;
  all.setAttribute("aria-expanded", String(whole));
  all.textContent = whole ? "show fewer lines" : `show all ${grouped(buttons.length)} tokens`;
}

/** Another width: other words stand in other lines. */
function forgetTops() {
  for (const text of sentenceView.texts) text.tops = null;
  collapseTexts();
  sentenceView.clientHeight = sentenceView.holder.clientHeight;
  colorTexts();
}

/** A number below the letters of a word has the colour of its own token. */
function showBelow(number, { paper, ink }) {
  number.classList.toggle("hides", paper === "hidden");
  number.style.background = paper === "hidden" ? "" : paper;
  number.style.color = ink;
}

/** Each token in its look, and a frame round one; what stays as it was is not touched. */
function colorText(text, lookOf, framed) {
  for (const place of tokensInSight(text)) {
    const token = text.tokens.get(place);
    const look = lookOf(place);
    const { button, number } = token;
    if (look.paper !== token.look.paper) {
      button.classList.toggle("hides", look.paper === "hidden");
      button.style.background = look.paper === "hidden" ? "" : look.paper;
      button.style.color = look.ink;
    }
    if (number && look.number !== token.look.number) number.textContent = look.number;
    if (number && number.parentNode !== button) showBelow(number, look);
    token.look = look;
  }
  if (framed === text.framed) return;
  text.tokens.get(text.framed)?.button.classList.remove("followed");
  text.tokens.get(framed)?.button.classList.add("followed");
  text.framed = framed;
}
