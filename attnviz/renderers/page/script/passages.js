// The text in its segments, each in the colour of what the followed token reads of it.

const SINK = 0; // its place among the segments
const LINE_SEEN = 24; // pixels: a segment of which less is seen is out of sight
const passages = {
  end: "key", // what a segment is that one chooses
  runs: [], // of text: the place of the segment of each, and its elements
  tokens: new Map(), // of each segment the name that keys reach, where it begins
};

function startPassages(section) {
  const about = { class: "passages", role: "group", dir: "auto" };
  passages.holder = element("div", { ...about, "aria-label": "the text in its segments" });
  for (const [place, lines] of attention.passages) {
    passages.holder.append(...passageParts(place, lines.join("\n")));
  }
  passages.places = [...passages.tokens.keys()];
  section.append(passages.holder);
  passages.holder.addEventListener("click", keepSelection, true);
  makeChoosable(passages);
  whenChanged(["head", "query", "key"], drawPassages);
  whenChanged(["hover", "theme", "log", "least"], colorPassages);
  drawPassages();
}

/** Whoever selects words of a segment does not choose it. */
function keepSelection(event) {
  if (!getSelection().isCollapsed && !event.target.closest("button")) event.stopPropagation();
}

/** A run of text, with a name where its segment begins, which keys reach the first time; the spaces
 *  around it have no colour. */
function passageParts(place, text) {
  const [before, words, after] = /^(\s*)([^]*?)(\s*)$/.exec(text).slice(1);
  const { labels, numbers } = readTokens(state.head);
  const { runs, tokens } = passages;
  const isFirst = !tokens.has(place);
  const last = runs.findLast((run) => run.place !== SINK)?.place; // goes on behind the sink
  const reached = { type: "button", tabindex: tokens.size === 0 ? "0" : "-1", "data-place": place };
  const about = { class: "name", ...(isFirst ? reached : {}) };
  const number = element("span", { class: "number" });
  const name = element(isFirst ? "button" : "span", about, numbers[place] || labels[place], number);
  if (isFirst) tokens.set(place, { button: name });
  const kind = `passage${place === SINK ? " sink" : ""}${words === "" ? " blank" : ""}`;
  const holder = element("span", { class: kind, role: "group", "data-place": place });
  holder.append(isFirst || ![SINK, last].includes(place) ? name : "", words);
  runs.push({ place, holder, number });
  return [before, holder, after];
}

async function drawPassages() {
  const { head } = state;
  const cells = await cellsOf(head);
  if (head !== state.head) return;
  Object.assign(passages, { cells, head });
  colorPassages();
  describePassages();
  scrollToPassage();
}

const passageReading = (query) => readingOf(passages.head, passages.cells, "query", query);

/** How each segment looks by what a token reads of it; plain where none is followed. */
function passageLook(query) {
  if (query === null) return () => PLAIN_LOOK;
  const reading = passageReading(query);
  return tokenLook(reading, stretched(reading));
}

function colorPassages() {
  if (passages.head !== state.head) return;
  const look = passageLook(state.hover?.query ?? state.query);
  for (const { place, holder, number } of passages.runs) {
    const { paper, ink, number: share } = look(place);
    holder.classList.toggle("hides", paper === "hidden");
    holder.classList.toggle("followed", place === (state.hover?.key ?? state.key));
    Object.assign(holder.style, { background: paper === "hidden" ? "" : paper, color: ink });
    if (number.textContent !== share) number.textContent = share; // so that nothing is laid out
  }
}

/** What is read out changes with what is followed alone: a pointer moves all the time. */
function describePassages() {
  const { counts, labels, numbers } = readTokens(state.head);
  const look = passageLook(state.query);
  for (const { place, holder } of passages.runs) {
    const { paper, number } = look(place);
    const name = numbers[place] ? `${counts} ${numbers[place]}` : labels[place];
    const share = paper === "hidden" ? "hidden by the mask" : number;
    holder.setAttribute("aria-label", [name, share].filter(Boolean).join(": "));
    passages.tokens.get(place).button.setAttribute("aria-pressed", state.key === place);
  }
}

/** The segment that is followed is in sight, or the one that is read most beside the sink. */
function scrollToPassage() {
  const { holder, runs } = passages;
  const amounts = state.query === null ? [] : passageReading(state.query).amounts;
  const most = amounts.indexOf(largestOf(amounts.slice(SINK + 1)), SINK + 1);
  const own = runs.filter(({ place }) => place === (state.key ?? most)).map((run) => run.holder);
  const { scrollTop, clientHeight } = holder;
  const [start, end] = [LINE_SEEN, clientHeight - LINE_SEEN].map((at) => at + scrollTop);
  const isSeen = ({ offsetTop: top, offsetHeight: high }) => top < end && top + high > start;
  if (own.length > 0 && !own.some(isSeen)) holder.scrollTop = own[0].offsetTop - clientHeight / 3;
}
