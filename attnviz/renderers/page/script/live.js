// The controls of a page that computes (--live), and what its model answers.

const NEAR_TEMPERATURES = 24; // steps to either side of the page's own, which is in the middle
const STEPS_TO_DOUBLE = 8;

function startLive(section) {
  section.hidden = false;
  const row = (name, ...parts) => element("div", { class: name }, ...parts);
  section.append(
    row("live-typed", ...sentenceField(), originalButton()),
    row("live-notes", problemLine(), ...knownWords()),
    row("live-choices", ...settingSwitches(), headSwitches(), ...temperatureSlider()),
    ...answerBox(),
  );
  keepOriginalApart();
  control("reset").addEventListener("click", showOriginalText);
  addEventListener("hashchange", showUnreadableText);
  showUnreadableText();
}

/* The sentence: computed as it is typed; what the model cannot read changes nothing else. */

function sentenceField() {
  const field = element("input", {
    id: "text", type: "search", autocomplete: "off", spellcheck: "false", autocapitalize: "off",
    "aria-describedby": "live-problem", maxlength: MAX_TEXT_LETTERS,
  });
  field.addEventListener("input", () => typeText(field));
  field.addEventListener("change", () => showProblem(cutLive(field.value).problem ?? ""));
  shownIn(["text"], () => {
    if (live.typed !== state.text) showText(field, state.text);
  });
  return [element("label", { for: "text" }, "Your sentence"), field];
}

function showText(field, text) {
  live.typed = text;
  field.value = text;
  showProblem("");
}

function showOriginalText() {
  live.lostCell = null;
  showText(control("text"), startingState.text);
}

/** A text of the address that the model cannot read, as if somebody had typed it. */
function showUnreadableText() {
  const text = new URLSearchParams(location.hash.slice(1)).get("text");
  const problem = text !== null && cutLive(typeable(text)).problem;
  if (!problem) return;
  showText(control("text"), typeable(text));
  live.typed = state.text; // so that the field keeps it
  showProblem(problem);
}

function typeText(field) {
  const text = field.value;
  const cut = cutLive(text);
  showProblem(isHalfTyped(field, cut) ? "" : (cut.problem ?? ""));
  if (cut.problem) return announceSoon();
  live.typed = text;
  change({ text, hover: null, key: null, query: followedIn(cut), cell: cellIn(cut) });
}

/** Whether the caret stands in the unknown word, and a word that is known begins so. */
function isHalfTyped({ value, selectionEnd }, { unknown }) {
  const [before, after] = [value.slice(0, selectionEnd), value.slice(selectionEnd)];
  const word = /\S*$/.exec(before)[0] + /^\S*/.exec(after)[0];
  return unknown === word && wordsBeginning(word, [...live.model.idOf.keys()]).length > 0;
}

/** The last token that asks for an answer, or else the last of all. */
const lastAsked = ({ ids }) => askedOf(ids).at(-1) ?? ids.length - 1;

/** A token that somebody chose, as long as the text has it; or else the last that asks. */
function followedIn(cut) {
  const { query } = state;
  if (query === null) return null;
  const isOpening = live.cut === live.original.cut && query === startingState.query;
  const isChosen = !isOpening && query !== lastAsked(live.cut);
  return isChosen && cut.ids[query] === live.cut.ids[query] ? query : lastAsked(cut);
}

/** The cell whose arithmetic is shown; where the text has not its tokens, it waits for them. */
function cellIn({ ids }) {
  const wanted = state.cell ?? live.lostCell;
  const isThere = wanted && Math.max(wanted.query, wanted.key) < ids.length;
  live.lostCell = isThere ? null : wanted;
  return isThere ? wanted : null;
}

const askedOf = (ids) =>
  live.model.vocabulary?.answers.length
    ? askedPlaces(live.model.vocabulary, ids, live.model.idOf)
    : [];

const problemLine = () => element("p", { id: "live-problem" });

function showProblem(text) {
  const lines = ["live-problem", "tour-problem"].map(control);
  if (!lines[0]) return;
  const says = text && `${text} Below is still “${shortened(state.text, 60)}”.`;
  for (const line of lines) line?.replaceChildren(says);
  control("text").toggleAttribute("aria-invalid", text !== "");
}

function originalButton() {
  const button = element("button", { type: "button", id: "original" }, "Back to the original");
  button.addEventListener("click", () => {
    const names = [...LIVE_NAMES, "offBefore", "query", "key"];
    change(Object.fromEntries(names.map((name) => [name, startingState[name]])));
    showOriginalText();
  });
  shownIn(["computed"], () => button.classList.toggle("idle", live.isOriginal));
  return button;
}

/** What a model's words are: letters, signs, numbers, or words. */
function nounOfWords(words) {
  const kinds = { letters: /^\p{L}$/u, signs: /^[^\p{L}\p{N}]+$/u };
  const kind = Object.keys(kinds).find((name) => words.every((each) => kinds[name].test(each)));
  return kind ?? "words";
}

function knownWords() {
  const { vocabulary } = live.model;
  if (data.live.pieces) {
    const pieces = `GPT-2's ${grouped(data.live.pieces.count)} most frequent pieces`;
    const note = `This page knows ${pieces}: rare words, emoji and other scripts may be refused.`;
    return [element("p", { class: "caption" }, note)];
  }
  if (!vocabulary) return [];
  const words = [...live.model.idOf.keys()];
  const summary = element("summary", {}, `The ${words.length} ${nounOfWords(words)} it knows`);
  return [element("details", { class: "known-words" }, summary, words.join(" "))];
}

/* Settings: only those that do something to this model. */

function settingSwitches() {
  const { compared, positions, tensors } = live.model;
  const hasPositions = positions !== "none" || tensors.positions !== undefined;
  return [
    ...(compared ? [settingSwitch("scaled", "Scaled by 1/√d")] : []),
    settingSwitch("causal", "Causal mask"),
    ...(hasPositions ? [settingSwitch("placed", "Positions")] : []),
  ];
}

function settingSwitch(name, text) {
  const box = element("input", { type: "checkbox", id: `live-${name}` });
  box.addEventListener("change", () => change({ [name]: box.checked }));
  shownIn(["computed"], () => (box.checked = state[name]));
  return element("label", { class: "field" }, box, ` ${text}`);
}

/** A switch for each head, which says whether it is on. */
function headSwitches() {
  const { layers, heads: count } = live.model;
  const places = data.live.places.slice(-layers * count);
  const switches = places.map(([, layer, number]) =>
    headOnSwitch(nameOfPlace(layer, number), layers === 1 ? `H${number}` : undefined));
  const legend = element("legend", {}, layers * count === 1 ? "Head on" : "Heads on");
  return element("fieldset", { class: "live-heads" }, legend, ...switches);
}

function headOnSwitch(name, shown = name) {
  const box = element("input", { type: "checkbox", value: name });
  const isOff = (each) => each.split("=")[0] === name;
  box.addEventListener("change", () => {
    const others = state.off.filter((each) => !isOff(each));
    const own = startingState.off.find(isOff) ?? name;
    change({ off: box.checked ? others : [...others, own].sort() });
  });
  shownIn(["computed"], () => (box.checked = !state.off.some(isOff)));
  return element("label", {}, box, element("span", {}, shown));
}

/** Not where there are no scores to divide. */
function temperatureSlider() {
  if (!live.model.compared) return [];
  const slider = element("input", {
    type: "range", id: "temperature", min: -NEAR_TEMPERATURES, max: NEAR_TEMPERATURES,
  });
  const says = element("output", { for: "temperature", "aria-live": "off" });
  const usual = startingState.temperature;
  slider.addEventListener("input", () => {
    const steps = Number(slider.value) / STEPS_TO_DOUBLE;
    change({ temperature: Number((usual * 2 ** steps).toPrecision(3)) });
  });
  shownIn(["computed"], () => {
    slider.value = Math.round(Math.log2(state.temperature / usual) * STEPS_TO_DOUBLE);
    says.textContent = String(state.temperature);
    slider.setAttribute("aria-valuetext", says.textContent);
  });
  const label = element("label", { for: "temperature" }, "Temperature");
  return [element("div", { class: "field" }, label, slider, says)];
}

/* Answers: of the token that asks; of several, of the one that is followed, or else of the last. */

const MOST_ANSWERS = 5;

function answerBox() {
  const status = element("p", { class: "unseen", role: "status", id: "live-status" });
  if (!live.model.vocabulary?.answers.length) return [status];
  const box = element("div", { class: "live-answers" });
  shownIn(["computed", "query", "head"], () => box.replaceChildren(...answerParts()));
  return [box, status];
}

/** Where the model is asked: the place in the text, and the place of the original that asks the
 *  same; null where that asks something else. */
function answeredPlace() {
  const [asked, before] = [live.cut.ids, live.original.cut.ids].map(askedOf);
  if (asked.length === 0) return null;
  const found = asked.indexOf(state.query);
  const number = found < 0 ? asked.length - 1 : found;
  const isLast = number === asked.length - 1;
  const place = asked[number];
  const old = before.length === asked.length ? before[number] : isLast ? before.at(-1) : undefined;
  const isSame = old !== undefined && live.cut.ids[place] === live.original.cut.ids[old];
  return { place, before: isSame ? old : null };
}

function answerParts() {
  const found = answeredPlace();
  if (found === null) return [element("p", {}, "No word of this text asks for an answer.")];
  const { answers, predicts } = live.model.vocabulary;
  const now = probabilitiesNow()[found.place];
  const original = live.original.results[momentNow()].probabilities;
  const was = live.isOriginal || found.before === null ? undefined : original[found.before];
  const order = [...answers.keys()].sort((one, other) => now[other] - now[one]);
  const token = calledToken(readers(state.head), found.place);
  const title = predicts === "next"
    ? `What follows ${token}`
    : `The model's answer ${whereAnswered(found.place, token)}`;
  const rows = order.slice(0, MOST_ANSWERS).map((answer) =>
    answerRow(answers[answer], now[answer], was?.[answer]));
  const note = isComplete() ? [element("p", { class: "live-note" }, COMPLETE)] : [];
  return [element("p", {}, title), element("ol", { class: "answers" }, ...rows), ...note];
}

const COMPLETE = "The answer is as long as the question: it is complete.";

/** Whether the text has its whole answer already, as `3 1 2 → 1 2 3` has. */
function isComplete() {
  const { asks, predicts } = live.model.vocabulary;
  const { ids } = live.cut;
  return Boolean(asks) && predicts === "next" && ids.length > 2 * askedOf(ids)[0];
}

/** At a token; in place of a typed word, which the model does not see; or of no word. */
function whereAnswered(place, token) {
  const { asks } = live.model.vocabulary;
  if (!asks || live.cut.ids[place] !== live.model.idOf.get(asks)) return `at ${token}`;
  const word = live.cut.words[place];
  if (word !== asks) return `at ${token}, in place of "${word}"`;
  const isTyped = state.text.includes(asks);
  return isTyped ? `at ${token}` : `at ${token}, which stands for the missing ${data.live.missing}`;
}

function answerRow(answer, share, was) {
  const bar = element("span", { class: "answer-bar" });
  for (const [name, each] of Object.entries({ now: share, was })) {
    if (each === undefined) continue;
    const part = element("span", { class: `answer-${name}` });
    part.style.width = `${100 * each}%`;
    bar.append(part);
  }
  const before = was === undefined ? "" : `was ${shortPercent(was)}`;
  return element("li", {}, element("strong", {}, answer), bar,
    element("span", {}, shortPercent(share)), element("span", { class: "before" }, before));
}

const shortPercent = (share) => percentText(share).replace("over ", ">").replace("under ", "<");

/** 100 % and 0 % are written for those alone. */
function percentText(share) {
  for (const digits of [0, 1]) {
    const text = fixedText(100 * share, digits);
    const isEnd = Number(text) === 0 || Number(text) === 100;
    if (!isEnd || share === 0 || Math.abs(share - 1) < 1e-6) return `${text}\u00a0%`;
  }
  return share > 0.5 ? "over 99.9\u00a0%" : "under 0.1\u00a0%";
}

/* What the page found about its own text must not be taken for a finding about another. */

/** A sentence that is true of what is computed now. */
function liveTitle() {
  const answered = live.model.vocabulary?.answers.length ? answeredPlace() : null;
  const side = readers(state.head);
  if (answered) {
    const { answers, predicts } = live.model.vocabulary;
    const row = probabilitiesNow()[answered.place];
    const best = row.indexOf(Math.max(...row));
    const token = calledToken(side, answered.place);
    const where = predicts === "next" ? `after ${token}` : whereAnswered(answered.place, token);
    const said = `the model answers "${answers[best]}" (${percentText(row[best])}) ${where}`;
    return capital(live.moments.length > 1 ? `${attention.rows[momentNow()]}: ${said}` : said);
  }
  const row = state.query === null ? null : computedCells.get(state.head)?.row(state.query);
  const seen = row ? [...row].map((each) => (Number.isNaN(each) ? -1 : each)) : [-1];
  const key = seen.indexOf(Math.max(...seen));
  if (seen[key] < 0) return `Attention in "${state.text}"`;
  const read = key === state.query ? "itself" : calledToken(side, key);
  const share = percentText(seen[key]);
  const reader = calledToken(side, state.query);
  return `In ${heads[state.head].name}, ${reader} gives ${read} ${share} of its attention`;
}

/** What is switched otherwise than in the run that made the page. */
function changedSettings() {
  const switches = { scaled: "scaling", causal: "causal mask", placed: "positions" };
  const [count, before] = [live.cut, live.original.cut].map(({ ids }) => ids.length);
  const parts = count === before ? [] : [counted(count, "token", "tokens")];
  const turned = Object.entries(switches)
    .filter(([name]) => state[name] !== startingState[name])
    .map(([name, text]) => `${text} ${state[name] ? "on" : "off"}`);
  parts.push(...turned);
  if (state.temperature !== startingState.temperature) {
    parts.push(`temperature ${state.temperature}`);
  }
  if (!same(state.off, startingState.off)) {
    parts.push(state.off.length ? `${state.off.join(", ")} off` : "all heads on");
  }
  return parts.length ? ` · then changed on this page: ${parts.join(", ")}` : "";
}

function keepOriginalApart() {
  const heading = document.querySelector("h1");
  const header = document.querySelector("header");
  const [words, title] = [[...heading.childNodes], document.title];
  const openingMoment = momentNow();
  const changes = element("span");
  const caveat = document.getElementById("caveat");
  const ownCaveat = caveat?.textContent;
  document.getElementById("settings")?.append(changes);
  const changesOnPaper = element("span");
  document.querySelector("footer > .on-paper")?.append(changesOnPaper);
  reserveHeader(header, changes, caveat);
  const note = element("p", { id: "of-original" },
    `What follows stays as the page was made, with the original text: “${data.live.text}”.`);
  control("closing").before(note);
  shownIn(["computed", "query", "head"], () => {
    if (!live.isOriginal || momentNow() !== openingMoment) titlePage(liveTitle());
    else {
      heading.replaceChildren(...words);
      document.title = title;
    }
    changes.textContent = changedSettings();
    changesOnPaper.textContent = live.isOriginal ? "" : ", then changed on this page";
    if (caveat) caveat.textContent = live.isOriginal ? ownCaveat : lengthCaveat(ownCaveat);
    note.hidden = live.isOriginal;
    for (const id of ["closing", "panels"]) {
      control(id).classList.toggle("of-original", !live.isOriginal);
    }
    announceSoon();
  });
}

/** Room for the longest lines that typing brings: a shorter title moves nothing, nor do they. */
function reserveHeader(header, changes, caveat) {
  const own = caveat?.textContent;
  changes.textContent = " · then changed on this page: 10 tokens";
  if (caveat && data.live.lengths) caveat.textContent = unseenLength(data.live.mostTokens);
  header.style.minHeight = `${header.offsetHeight}px`;
  changes.textContent = "";
  if (caveat) caveat.textContent = own;
}

const unseenLength = (count) =>
  `${data.live.lengths.note}; this one has ${count}, a length it never saw in training`;

/** What has to be known of a text shorter or longer than all that the model learned from. */
function lengthCaveat(otherwise) {
  const { lengths } = data.live;
  const count = live.cut.ids.length;
  if (lengths === null) return otherwise;
  if (count >= lengths.shortest && count <= lengths.longest) return "";
  return unseenLength(count);
}

const BEFORE_ANNOUNCING = 900; // milliseconds: nobody is told at every key
let announcing = null;

function announceSoon() {
  clearTimeout(announcing);
  announcing = setTimeout(() => {
    const problem = control("live-problem").textContent;
    const parts = [problem, live.isOriginal ? "" : liveTitle()];
    control("live-status").textContent = parts.filter(Boolean).join(" ");
  }, BEFORE_ANNOUNCING);
}
