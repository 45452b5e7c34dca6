// A walk through the model in stations, from a word to the answer, on one number.

const SWIPE = 50; // pixels
const ANSWERS_ON_THE_WAY = 3;

function startTour(section) {
  const button = element("button", { type: "button", id: "start-tour" }, "Walk me through");
  button.addEventListener("click", () => walkTo(0, true));
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
function walkTo(place, starts = false) {
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
  if (event.key === "Escape") walkTo(null);
  else if (lookUp(steps, event.key)) walkTo(state.walk + steps[event.key]);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function letSwipe(section) {
  let from = null;
  section.addEventListener("touchstart", ({ touches: [touch] }) => (from = touch));
  section.addEventListener("touchend", ({ changedTouches: [touch] }) => {
    const [right, down] = [touch.clientX - from.clientX, touch.clientY - from.clientY];
    const isSwipe = Math.abs(right) > Math.max(SWIPE, 2 * Math.abs(down));
    if (isSwipe) walkTo(state.walk - Math.sign(right));
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
    button.addEventListener("click", () => walkTo(state.walk + by));
    return button;
  };
  const hadFocus = holder.contains(document.activeElement) && document.activeElement.textContent;
  const close = actionButton("×", "end the walk", () => walkTo(null));
  const heading = titleOf(place);
  const isLast = place === all.length - 1;
  const buttons = [moves("‹ Back", -1, place === 0), moves("Next ›", 1, isLast)];
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
  const cells = computedCells.get(state.head) ?? cellsOfComputed(head);
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
  const missing = `${who} stands for the missing ${data.live.missing}.`;
  const called = isAsked ? missing : `We follow ${who}.`;
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
  const name = isMoved ? "with its position" : `into layer ${layer}`;
  if (!isSame) rows.push({ name, numbers: inflow });
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
  const sum = `The sum is how well ${whom} suits ${who}.`;
  const each = isAdditive(vectors)
    ? "Query and key make one number for each dimension."
    : "Query times key, number by number.";
  return {
    name: "the score",
    caption: `${each} ${sum}`,
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
  const isChanged = found.stages.length > 1;
  const otherwise = isChanged ? "Distance changes the score." : "Nothing is divided here.";
  const changed = isDivided ? divided : otherwise;
  const noLater = "The mask hides later tokens: there are none.";
  const after = state.causal ? noLater : "No token is hidden.";
  const masked = hidden > 0 ? `The mask hides ${counted(hidden, "token", "tokens")}.` : after;
  const lines = sumsOfCell(found, vectors).slice(1, -1);
  return {
    name: isDivided ? "divided, and masked" : "masked",
    caption: `${changed} ${masked}`,
    number: travels(plainNumber(found.stages[0].value), plainNumber(found.score),
      lines.length ? `= ${lines.at(-1).written}` : ""),
    scene: [
      rowOfTokens(walked, (place) => scoreBelow(head.scores[query][place])),
      ...(lines.length ? [listOfSums(lines)] : []),
    ],
  };
}

const scoreBelow = (score) => (Number.isNaN(score) ? "hidden" : fixedText(score, 1));

function stationOfShares(walked) {
  const { head, query, whom, who, share, found, vectors } = walked;
  const got = percentText(share);
  const shares = "Softmax makes shares that sum to 1, larger ones for larger scores:";
  const table = live.model.compared
    ? [tableOfSoftmax(state.head, found, [who, whom], null)]
    : [];
  return {
    name: "softmax",
    caption: `${shares} ${whom} gets ${got}.`,
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
    number: travels(shareText(share), plainNumber(sum[largest]),
      `of the sum ${inDimension(largest)}`),
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
  const isElsewhere = found.place !== walked.query;
  const elsewhere = isElsewhere ? ` after ${calledToken(walked.side, found.place)}` : "";
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

/** The model's answers with some heads switched off. */
function answersWithout(place, names) {
  const off = new Map(names.map((name) => [name, "zero"]));
  const choices = { ...choicesNow(), off };
  const row = computeModel(live.moments[momentNow()], live.cut.ids, choices).probabilities[place];
  return { names, row, best: row.indexOf(Math.max(...row)) };
}

/** Heads whose absence changes the answer: one alone, or all of a layer; else the one without which
 *  it is least sure. */
function neededHeads(place, whole) {
  const { layers, heads: count } = live.model;
  const ofLayer = (layer) => Array.from({ length: count }, (_, head) => nameOfPlace(layer, head));
  const all = Array.from({ length: layers }, (_, layer) => ofLayer(layer));
  const alone = all.flat().map((name) => answersWithout(place, [name]));
  const together = count > 1 ? all.map((names) => answersWithout(place, names)) : [];
  const changing = ({ best }) => best !== whole.best;
  const found = [alone.filter(changing), together.filter(changing), alone]
    .find(({ length }) => length > 0);
  const left = ({ row }) => row[whole.best];
  return found.reduce((most, each) => (left(each) < left(most) ? each : most)).names;
}

function stationOfSwitch() {
  const found = answeredPlace();
  const station = { name: "without a head", caption: "There is no answer to lose.", number: [] };
  if (found === null) return { ...station, scene: [] };
  const { answers } = live.model.vocabulary;
  const [whole, now] = [answersWithout(found.place, []).row, probabilitiesNow()[found.place]];
  const best = whole.indexOf(Math.max(...whole));
  const isOff = state.off.length > 0;
  const names = isOff
    ? state.off.map((each) => each.split("=")[0])
    : neededHeads(found.place, { best });
  const rows = bestAnswers(isOff ? now : whole).map((answer) =>
    answerRow(answers[answer], now[answer], isOff ? whole[answer] : undefined));
  return {
    ...station,
    caption: isOff ? saidWithout(names, best, now) : askedAboutHeads(names),
    number: travels(percentText(whole[best]), percentText(now[best]), `for "${answers[best]}"`),
    scene: [switchOfHeads(names, isOff), element("ol", { class: "answers" }, ...rows)],
  };
}

const namesTogether = (names) =>
  (names.length > 2 ? `${names[0]} to ${names.at(-1)}` : names.join(" and "));

function askedAboutHeads(names) {
  const them = names.length > 1 ? "them" : "it";
  const asked = `Does the answer need ${namesTogether(names)}?`;
  return `${asked} Switch ${them} off, and look at the answer.`;
}

function saidWithout(names, best, now) {
  const { answers } = live.model.vocabulary;
  const said = now.indexOf(Math.max(...now));
  const share = percentText(now[said]);
  const without = `Without ${namesTogether(names)} the model`;
  return said === best
    ? `${without} still says "${answers[best]}" (${share}).`
    : `${without} says "${answers[said]}" (${share}), not "${answers[best]}".`;
}

function switchOfHeads(names, isOff) {
  const text = isOff ? "Switch on again" : `Switch ${namesTogether(names)} off`;
  const button = element("button", { type: "button" }, text);
  button.addEventListener("click", () => change({ off: isOff ? [] : names }));
  return button;
}
