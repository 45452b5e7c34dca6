// The running text, coloured by what the chosen token reads, or by who reads it.

const MOST_NUMBERED = 80; // tokens: of more there is no room for a number below each
const sentenceView = {
  asks: "query", // which end of the lines a token is that is chosen
  texts: [],
  built: "", // of which sentences they are
  head: -1,
  cells: null,
  scale: "",
  scrollTop: 0,
};

function startSentence(section) {
  if (state.query === null && state.key !== null) sentenceView.asks = "key";
  const says = element("p", { class: "says" });
  const texts = element("div", { class: "texts" });
  const all = element("button", { type: "button", class: "all-tokens" });
  Object.assign(sentenceView, { says, holder: texts, all, whole: false, bar: newColorBar() });
  all.addEventListener("click", () => {
    sentenceView.whole = !sentenceView.whole;
    forgetTops();
    scrollToToken();
  });
  sentenceView.buttons = askingButtons();
  const asking = { class: "asking", role: "group", "aria-label": "meaning of the colours" };
  const { buttons, bar } = sentenceView;
  const words = element("span", {}, "What a word");
  const askingLine = element("div", asking, words, buttons.query, buttons.key, bar);
  section.append(generatedLine(), askingLine, says, texts, all);
  texts.addEventListener("scroll", () => {
    sentenceView.scrollTop = texts.scrollTop;
    colorTexts();
  });
  new ResizeObserver(forgetTops).observe(texts);
  whenChanged(["head", "special", "theme", "log", "least", "query", "key"], drawSentence);
  whenChanged(["hover"], colorSentence);
  for (const name of ["beforeprint", "afterprint"]) addEventListener(name, colorSentence);
  drawSentence();
}

/** What the colours say of a chosen token: what it reads, or who reads it. */
function askingButtons() {
  const button = (end, text) => {
    const made = element("button", { type: "button" }, text);
    made.addEventListener("click", () => askFor(end));
    return made;
  };
  return { query: button("query", "reads (attends to)"), key: button("key", "is read by") };
}

/** The token that is followed stays the same where a sentence reads itself. */
function askFor(end) {
  if (end === sentenceView.asks) return;
  sentenceView.asks = end;
  const followed = state[OTHER_END[end]];
  const moves = followed !== null && readsItself(state.head);
  change(moves ? { [OTHER_END[end]]: null, [end]: followed } : {});
  drawSentence();
}

const readsItself = (head) => heads[head].reads === heads[head].read;

async function drawSentence() {
  const { head } = state;
  const cells = await cellsOf(head);
  if (head !== state.head) return;
  Object.assign(sentenceView, { cells, head, sides: sidesOf(head, cells) });
  const other = OTHER_END[sentenceView.asks];
  if (state[sentenceView.asks] === null && state[other] !== null) sentenceView.asks = other;
  const built = [heads[head].reads, heads[head].read, state.special, state.text].join();
  if (built !== sentenceView.built) buildTexts(head);
  sentenceView.built = built;
  for (const [end, button] of Object.entries(sentenceView.buttons)) {
    button.setAttribute("aria-pressed", end === sentenceView.asks);
  }
  pressTokens();
  colorSentence();
  scrollToToken();
}

/** A token that is followed is in sight, wherever it was chosen. */
function scrollToToken() {
  const { followed, texts, holder } = sentenceView;
  const text = followed && texts.find(({ end }) => (end ?? followed.end) === followed.end);
  const button = text?.tokens.get(followed.place)?.button;
  if (!button || state[followed.end] !== followed.place) return;
  const { offsetTop: top, offsetHeight: high } = button;
  const { scrollTop, clientHeight } = holder;
  if (top < scrollTop || top + high > scrollTop + clientHeight) {
    holder.scrollTop = top - holder.firstChild.querySelector(".token").offsetTop - high;
  }
}

/** One text where a sentence reads itself; otherwise who reads, and below what is read, unless
 *  passages.js shows that. */
function buildTexts(head) {
  const ends = readsItself(head) ? [null] : ["query", "key"].slice(0, attention.passages ? 1 : 2);
  sentenceView.texts = ends.map((end) => textOf(sentenceView.sides[end ?? "query"], end));
  sentenceView.holder.replaceChildren(...sentenceView.texts.map(({ holder }) => holder));
  collapseTexts();
}

/** The token that is followed: which end of the lines it is, and its place. */
function followedEnd() {
  const { asks, sides } = sentenceView;
  const among = (of, end) => (of?.[end] ?? -1) >= 0 && of[end] < sides[end].labels.length;
  for (const of of [state.hover, state]) {
    for (const end of [asks, OTHER_END[asks]]) if (among(of, end)) return { end, place: of[end] };
  }
  return null;
}

/** Whether what is said is read out: by keys one asks for it, a pointer moves all the time. */
function sayAloud(isAsked) {
  sentenceView.says.setAttribute("aria-live", isAsked ? "polite" : "off");
}

/** Only what changes is touched: this runs with every move of a pointer. */
function colorSentence() {
  const { cells, head } = sentenceView;
  if (cells === null || head !== state.head) return;
  const followed = followedEnd();
  const reading = followed && readingOf(head, cells, followed.end, followed.place);
  const scale = reading && stretched(reading);
  Object.assign(sentenceView, { followed, look: reading && tokenLook(reading, scale) });
  colorTexts();
  showScale(scale);
  const next = reading ? saidOfNext(head, followed.end, followed.place) : "";
  sentenceView.says.textContent = reading ? saidOfMost(reading) + next : HINTS[sentenceView.asks];
}

/** The colours of the matrix, which reach further where this token has more than they show. */
function stretched({ scale, amounts }) {
  const largest = amounts.reduce((most, each) => (each > most ? each : most), scale.high);
  return scale.beyond ? { ...scale, high: largest, beyond: false } : scale;
}

/** What the colours stand for; nothing while there are none. */
function showScale(scale) {
  const shown = JSON.stringify([scale, isDark()]);
  if (shown === sentenceView.scale) return;
  sentenceView.scale = shown;
  if (scale) showColorBar(sentenceView.bar, scale);
  else sentenceView.bar.replaceChildren();
}

/** Those tokens that are in sight. */
function colorTexts() {
  const { followed, look, texts } = sentenceView;
  for (const text of texts) {
    const colored = followed && (text.end === null || text.end !== followed.end);
    const framed = followed && (text.end ?? followed.end) === followed.end ? followed.place : -1;
    colorText(text, colored && look ? look : () => PLAIN_LOOK, framed);
  }
}

const HINTS = {
  query: "Click a word to see what it attends to.",
  key: "Click a word to see what attends to it.",
};

const PLAIN_LOOK = { paper: "", ink: "", number: "" };

/** How each token looks: in the colour of what is read of it, or of the block that it is in. */
function tokenLook({ head, amounts, others }, scale) {
  const color = colorsOn(scale);
  const write = cellWriter(largestOf(amounts), heads[head].share); // as narrow as in a matrix
  return (token) => {
    const amount = amounts[Math.floor(token / others.size)];
    if (Number.isNaN(amount)) return { paper: "hidden", ink: "", number: "·" };
    const number = write(amount);
    if (Math.abs(amount) < state.least) return { paper: "", ink: "", number };
    const paper = color(amount);
    return { paper: cssColor(paper), ink: inkOn(paper), number };
  };
}
