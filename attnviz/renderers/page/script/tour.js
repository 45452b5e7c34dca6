// A walk through the model in stations, from a word to the answer, on one number.

const SWIPE = 50; // pixels
const ANSWERS_ON_THE_WAY = 3;

function startTour(section) {
  const button = element("button", { type: "button", id: "start-tour" }, "Walk me through");
  button.addEventListener("click", () => goTo(0, true));
  control("live").querySelector(".live-typed").append(button);
  const [live, paper] = ["tour-live", "tour-paper"].map((name) => element("div", { class: name }));
  section.append(live, paper);
  section.addEventListener("keydown", pressInTour);
  letSwipe(section);
  shownIn(["walk", "computed", "query", "head"], () => {
    section.hidden = state.walk === null;
    button.setAttribute("aria-expanded", state.walk !== null);
    if (state.walk !== null) showStation(live);
  });
  addEventListener("beforeprint", () => {
    const all = state.walk === null ? [] : stations();
    paper.replaceChildren(...all.map((station, place) =>
      element("section", {}, titleOf(place), ...partsOf(station))));
  });
}

/** With `starts`, what is walked through comes into sight, and its title has the focus. */
function goTo(place, starts = false) {
  const last = stations().length - 1;
  const { query } = followedCell();
  change({ walk: place === null ? null : Math.min(Math.max(place, 0), last), query });
  if (place === null) return control("start-tour").focus();
  if (!starts) return;
  requestAnimationFrame(() => {
    control("tour").scrollIntoView({ block: "start" });
    control("tour").querySelector("h2").focus({ preventScroll: true });
  });
}

function pressInTour(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (isOfBrowser(event) || event.target.matches("input, .bars")) return;
  if (event.key === "Escape") goTo(null);
  else if (lookUp(steps, event.key)) goTo(state.walk + steps[event.key]);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function letSwipe(section) {
  let from = null;
  section.addEventListener("touchstart", ({ touches: [touch] }) => (from = touch));
  section.addEventListener("touchend", ({ changedTouches: [touch] }) => {
    const [right, down] = [touch.clientX - from.clientX, touch.clientY - from.clientY];
    if (Math.abs(right) > Math.max(SWIPE, 2 * Math.abs(down))) goTo(state.walk - Math.sign(right));
  });
}

const titleOf = (place) => {
  const all = stations();
  return element("h2", { tabindex: -1 }, `${place + 1} of ${all.length}: ${all[place].name}`);
};

/** The buttons stay where they are, and keep the focus; what stands between them changes. */
function showStation(holder) {
  const all = stations();
  const place = Math.min(state.walk, all.length - 1);
  const moves = (text, by, isEnd) => {
    const button = element("button", { type: "button", disabled: isEnd }, text);
    button.addEventListener("click", () => goTo(state.walk + by));
    return button;
  };
  const hadFocus = holder.contains(document.activeElement) && document.activeElement.textContent;
  const close = actionButton("×", "end the walk", () => goTo(null));
  const heading = titleOf(place);
  const buttons = [moves("‹ Back", -1, place === 0), moves("Next ›", 1, place === all.length - 1)];
  holder.replaceChildren(
    element("div", { class: "tour-moves" }, buttons[0], heading, buttons[1], close),
    ...partsOf(all[place]),
  );
  if (hadFocus === false) return;
  const same = buttons.find(({ textContent, disabled }) => textContent === hadFocus && !disabled);
  (same ?? heading).focus({ preventScroll: true });
}

const partsOf = ({ caption, number, scene }) => [
  element("p", { class: "tour-caption", role: "status" }, caption),
  element("p", { class: "tour-number" }, ...number),
  element("div", { class: "tour-scene" }, ...scene),
];

/* What is followed: the row that gives the answer, and the token that it reads most. */

function followedCell() {
  const query = state.query ?? lastAsked(live.cut);
  const { weights } = followedHead();
  return { query, key: largestKey(weights[query]) };
}

const followedHead = () => resultAt(data.live.places[state.head]);

/** The stations that this model has. */
function stations() {
  const walked = walkedNumbers();
  const { compared } = live.model;
  return [
    stationOfWord(walked),
    stationOfVector(walked),
    ...(compared ? [stationOfLists(walked), stationOfScore(walked), stationOfScale(walked)] : []),
    stationOfShares(walked),
    stationOfMixture(walked),
    ...(live.model.vocabulary?.answers.length ? [stationOfAnswer(walked), stationOfSwitch()] : []),
  ];
}

/** All numbers on the way: those that the page has computed, none is computed here again. */
function walkedNumbers() {
  const [moment, layer] = data.live.places[state.head];
  const result = live.results[moment];
  const head = followedHead();
  const { query, key } = followedCell();
  const cells = computedCells.get(state.head) ?? wholeOfComputed(head);
  const vectors = vectorsOfComputed(head);
  const found = computedCell(state.head, cells, vectors, { query, key });
  const terms = found.terms.map(Math.abs);
  const dimension = terms.indexOf(Math.max(...terms));
  const side = readers(state.head);
  return {
    result, layer, head, query, key, cells, vectors, found, dimension, side,
    name: nameOfPlace(...data.live.places[state.head].slice(1)),
    who: calledToken(side, query),
    whom: calledToken(side, key),
    share: head.weights[query][key],
  };
}

const wholeOfComputed = ({ scores, weights }) => wholeOf(computedTable(
  weights.map((row, query) => row.map((each, key) => (Number.isNaN(scores[query][key]) ? NaN : each))),
), computedTable(scores));

/* The tokens, each with a number below it, and lists of numbers as bars. */

function rowOfTokens({ side, query, key }, write, marks = ["reader", "read"]) {
  const items = side.labels.map((_, place) => {
    const item = element("li", {}, element("span", {}, tokenName(side, place)),
      element("small", {}, write(place)));
    item.classList.toggle("reader", marks.includes("reader") && place === query);
    item.classList.toggle("read", marks.includes("read") && place === key);
    return item;
  });
  return element("ol", { class: "tour-words" }, ...items);
}

const travels = (before, after, where = "") =>
  [...(before === null ? [] : [`${before} → `]), element("b", {}, after), where && ` ${where}`];

const inDimension = (dimension) => `(dimension ${dimension + 1})`;

/* The stations. A caption has at most 20 words, and says what is true of this model. */

function stationOfWord({ side, query, who }) {
  const id = live.cut.ids[query];
  const { asks } = live.model.vocabulary ?? {};
  const isAsked = asks && id === live.model.idOf.get(asks);
  const called = isAsked ? `${who} stands for the missing ${data.live.missing}.` : `We follow ${who}.`;
  return {
    name: "the word",
    caption: `${called} A model sees only numbers: each token has one.`,
    number: travels(null, String(id), `is the number of ${who}`),
    scene: [rowOfTokens({ side, query }, (place) => String(live.cut.ids[place]), ["reader"])],
  };
}

function stationOfVector({ result, layer, query, who, dimension, side }) {
  const [embedded, inflow] = [result.embedded[query], result.inflows[layer][query]];
  const [at, isSame] = [dimension % embedded.length, same([...embedded], [...inflow])];
  const isMoved = layer === 0 && !isSame;
  const before = layer === 1 ? "Layer 0 has" : "The layers before have";
  const mixedIn = layer > 0 ? ` ${before} mixed in other tokens.` : "";
  const more = isMoved ? " A row for its position is added." : mixedIn;
  const rows = [{ name: `row of ${who}`, numbers: embedded }];
  if (!isSame) rows.push({ name: isMoved ? "with its position" : `into layer ${layer}`, numbers: inflow });
  return {
    name: "its vector",
    caption: `The number picks a row of ${embedded.length} numbers.${more}`,
    number: travels(String(live.cut.ids[query]), plainNumber(inflow[at]), inDimension(at)),
    scene: [rowOfTokens({ side, query }, () => "", ["reader"]), listsOf(rows, at)],
  };
}

function stationOfLists(walked) {
  const { head, result, layer, query, key, who, whom, dimension, name } = walked;
  const inflow = result.inflows[layer][query];
  const rows = [
    { name: `query of ${who}`, numbers: head.queries[query] },
    { name: `key of ${whom}`, numbers: head.keys[key] },
    { name: `value of ${whom}`, numbers: head.values[key] },
  ];
  const caption = live.model.projected
    ? `${name} turns each vector into a query (what it looks for), a key (what it offers), a value.`
    : `In ${name} the vectors themselves are queries (what to look for), keys and values.`;
  const isEven = rows.every(({ numbers }) => numbers.length === rows[0].numbers.length);
  return {
    name: "query, key, value",
    caption,
    number: travels(plainNumber(inflow[dimension % inflow.length]),
      plainNumber(head.queries[query][dimension]), `of the query ${inDimension(dimension)}`),
    scene: [
      rowOfTokens(walked, () => ""),
      ...(isEven ? [listsOf(rows, dimension)] : rows.map((row) => listsOf([row], dimension))),
    ],
  };
}

function stationOfScore(walked) {
  const { found, vectors, who, whom, dimension, query, head } = walked;
  const product = isAdditive(vectors) ? ADDITIVE : "query × key";
  const rows = [{ name: product, numbers: found.terms }];
  const score = plainNumber(found.stages[0].value);
  const caption = isAdditive(vectors)
    ? `Query and key make one number for each dimension. Their sum is how well ${whom} suits ${who}.`
    : `Query times key, number by number. The sum is how well ${whom} suits ${who}.`;
  return {
    name: "the score",
    caption,
    number: travels(plainNumber(head.queries[query][dimension]), score,
      `= ${productText(found, vectors).written}`),
    scene: [
      rowOfTokens(walked, (place) => writtenProduct(vectors, query, place)),
      listsOf(rows, dimension),
    ],
  };
}

const writtenProduct = (vectors, query, key) =>
  fixedText(scoreStages(vectors, query, key)[0].value, 1);

function stationOfScale(walked) {
  const { found, vectors, head, query } = walked;
  const hidden = head.scores[query].filter(Number.isNaN).length;
  const isDivided = vectors.divisors.length > 0;
  const divisors = [state.scaled && `√${vectors.width}`, state.temperature !== 1 &&
    `the temperature ${state.temperature}`].filter(Boolean).join(" and ");
  const divided = `Long lists make large sums: divide by ${divisors}.`;
  const otherwise = found.stages.length > 1 ? "Distance changes the score." : "Nothing is divided here.";
  const changed = isDivided ? divided : otherwise;
  const after = state.causal ? "The mask hides later tokens: there are none." : "No token is hidden.";
  const masked = hidden > 0 ? `The mask hides ${counted(hidden, "token", "tokens")}.` : after;
  const lines = sumsOfCell(found, vectors).slice(1, -1);
  return {
    name: isDivided ? "divided, and masked" : "masked",
    caption: `${changed} ${masked}`,
    number: travels(plainNumber(found.stages[0].value), plainNumber(found.score),
      lines.length ? `= ${lines.at(-1).written}` : ""),
    scene: [
      rowOfTokens(walked, (place) =>
        (Number.isNaN(head.scores[query][place]) ? "hidden" : fixedText(head.scores[query][place], 1))),
      ...(lines.length ? [listOfSums(lines)] : []),
    ],
  };
}

function stationOfShares(walked) {
  const { head, query, whom, who, share, found, vectors } = walked;
  const got = percentText(share);
  const table = live.model.compared
    ? [element("div", { class: "frame" }, tableOfSoftmax(state.head, found, [who, whom], null))]
    : [];
  return {
    name: "softmax",
    caption: `Softmax makes shares that sum to 1, larger ones for larger scores: ${whom} gets ${got}.`,
    number: travels(vectors ? plainNumber(found.score) : null, shareText(share)),
    scene: [rowOfTokens(walked, (place) => shareText(head.weights[query][place])), ...table],
  };
}

function stationOfMixture(walked) {
  const { cells, vectors, query, who, whom, share, name } = walked;
  const { rows, sum, largest } = mixedValues(state.head, cells, vectors, query);
  const added = "Each value counts by its share.";
  return {
    name: "the values, mixed",
    caption: heads[state.head].off
      ? `${name} is switched off: whatever it reads, it passes on nothing.`
      : `${added} The sum is what ${who} takes along, ${percentText(share)} from ${whom}.`,
    number: travels(shareText(share), plainNumber(sum[largest]), `of the sum ${inDimension(largest)}`),
    scene: [
      rowOfTokens(walked, (place) => shareText(walked.head.weights[query][place])),
      listsOf(rows, largest),
    ],
  };
}

function stationOfAnswer(walked) {
  const found = answeredPlace();
  const { heads: count, layers, vocabulary } = live.model;
  if (found === null) {
    const nothing = "No word of this text asks for an answer.";
    return { name: "the answer", caption: nothing, number: [], scene: [] };
  }
  const { logits, probabilities } = walked.result;
  const row = probabilities[found.place];
  const best = row.indexOf(Math.max(...row));
  const others = [count > 1 && "other heads", layers - 1 > walked.layer && "later layers"];
  const joined = others.filter(Boolean).join(" and ");
  const added = joined ? `${capital(joined)} add theirs. ` : "";
  const { sum, largest } = mixedValues(state.head, walked.cells, walked.vectors, walked.query);
  const won = `"${vocabulary.answers[best]}" wins: ${percentText(row[best])}.`;
  const elsewhere = found.place === walked.query ? "" : ` after ${calledToken(walked.side, found.place)}`;
  return {
    name: "the answer",
    caption: `${added}Then every possible answer gets a score${elsewhere}. ${won}`,
    number: travels(plainNumber(sum[largest]), percentText(row[best]),
      `= softmax of a score of ${plainNumber(logits[found.place][best])}`),
    scene: [rowOfTokens(walked, () => ""), element("ol", { class: "answers" },
      ...bestAnswers(row).map((answer) => answerRow(vocabulary.answers[answer], row[answer])))],
  };
}

const bestAnswers = (row) =>
  [...row.keys()].sort((one, other) => row[other] - row[one]).slice(0, ANSWERS_ON_THE_WAY);

/** Heads whose absence changes the answer: the one that changes it most, or all of its layer. */
function neededHeads(place, best) {
  const { layers, heads: count } = live.model;
  const model = live.moments[momentNow()];
  const choices = { ...choicesNow(), off: new Map() };
  const shareWithout = (names) => {
    const off = new Map(names.map((name) => [name, "zero"]));
    return computeModel(model, live.cut.ids, { ...choices, off }).probabilities[place];
  };
  const ofLayer = (layer) => Array.from({ length: count }, (_, head) => nameOfPlace(layer, head));
  const all = Array.from({ length: layers }, (_, layer) => ofLayer(layer));
  const tried = [...all.flat().map((name) => [name]), ...(count > 1 ? all : [])].map((names) => {
    const row = shareWithout(names);
    return { names, left: row[best], isOther: row.indexOf(Math.max(...row)) !== best };
  });
  const alone = tried.filter(({ names, isOther }) => isOther && names.length === 1);
  const [first] = (alone.length ? alone : tried.some(({ isOther }) => isOther)
    ? tried.filter(({ isOther }) => isOther) : tried).sort((one, other) => one.left - other.left);
  return first.names;
}

function stationOfSwitch() {
  const found = answeredPlace();
  const off = { name: "without a head" };
  if (found === null) return { ...off, caption: "There is no answer to lose.", number: [], scene: [] };
  const { answers } = live.model.vocabulary;
  const whole = computeModel(live.moments[momentNow()], live.cut.ids, { ...choicesNow(), off: new Map() });
  const was = whole.probabilities[found.place];
  const best = was.indexOf(Math.max(...was));
  const names = state.off.length ? state.off.map((each) => each.split("=")[0]) : neededHeads(found.place, best);
  const called = names.length > 2 ? `${names[0]}–${names.at(-1)}` : names.join(" and ");
  const now = probabilitiesNow()[found.place];
  const said = now.indexOf(Math.max(...now));
  const isOff = state.off.length > 0;
  const [before, after] = [`"${answers[best]}"`, `"${answers[said]}"`];
  const them = names.length > 1 ? "them" : "it";
  const result = said === best
    ? `Without ${called} the model still says ${before} (${percentText(now[best])}).`
    : `Without ${called} the model says ${after} (${percentText(now[said])}), not ${before}.`;
  const button = element("button", { type: "button" }, isOff ? "Switch on again" : `Switch ${called} off`);
  button.addEventListener("click", () => change({ off: isOff ? [] : names }));
  return {
    ...off,
    caption: isOff ? result : `Does the answer need ${called}? Switch ${them} off, and look at the answer.`,
    number: travels(percentText(was[best]), percentText(now[best]), `for ${before}`),
    scene: [button, element("ol", { class: "answers" },
      ...bestAnswers(isOff ? now : was).map((answer) =>
        answerRow(answers[answer], now[answer], isOff ? was[answer] : undefined)))],
  };
}
