// A walk through the model in stations, from a word to the answer, on one number.

const SWIPE = 50; // pixels
const LEAST_SHARE = 0.001; // smaller numbers are <.001 in the table of a station
const OWN_ARROWS = "input, select, textarea, .bars, .matrix-frame, .frame";

function startTour(section) {
  const button = element("button", { type: "button", id: "start-tour" }, "Walk me through");
  button.addEventListener("click", () => goToStation(0, true));
  control("live").querySelector(".live-typed").append(button);
  const live = element("div", { class: "tour-live" });
  const paper = element("div", { class: "on-paper tour-paper" });
  const problem = element("p", { id: "tour-problem" }, control("live-problem").textContent);
  section.append(problem, live, paper);
  addEventListener("keydown", pressInTour);
  letSwipe(section);
  shownIn(["walk", "computed", "query", "head"], () => {
    section.hidden = state.walk === null;
    button.setAttribute("aria-expanded", state.walk !== null);
    if (state.walk !== null) showStation(live);
  });
  addEventListener("beforeprint", () => {
    const all = state.walk === null ? [] : stations();
    paper.replaceChildren(...all.map((station, place) =>
      element("section", {}, titleOf(all, place), ...partsOf(station))));
  });
}

/** With `starts`, what is walked through comes into sight, and its title has the focus. As at the
 *  end, heads that a walk has switched are as they were before it. */
function goToStation(place, starts = false) {
  const walk = place === null ? null : Math.min(Math.max(place, 0), stations().length - 1);
  const isSwitched = state.offBefore !== null && (starts || place === null);
  const switches = isSwitched ? { off: state.offBefore, offBefore: null } : {};
  change({ walk, query: followedCell().query, ...switches });
  if (place === null) return control("start-tour").focus();
  if (!starts) return;
  requestAnimationFrame(() => {
    control("tour").scrollIntoView({ block: "start" });
    control("tour").querySelector("h2").focus({ preventScroll: true });
  });
}

/** Wherever the focus is, but where arrows do something else. */
function pressInTour(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (state.walk === null || event.defaultPrevented || isOfBrowser(event)) return;
  if (event.target.matches?.(OWN_ARROWS)) return;
  if (event.key === "Escape") goToStation(null);
  else if (lookUp(steps, event.key)) goToStation(state.walk + steps[event.key]);
  else return;
  event.preventDefault();
}

function letSwipe(section) {
  let from = null;
  section.addEventListener("touchstart", ({ touches: [touch] }) => (from = touch));
  section.addEventListener("touchend", ({ changedTouches: [touch] }) => {
    const [right, down] = [touch.clientX - from.clientX, touch.clientY - from.clientY];
    const isSwipe = Math.abs(right) > Math.max(SWIPE, 2 * Math.abs(down));
    if (isSwipe) goToStation(state.walk - Math.sign(right));
  });
}

const titleOf = (all, place) =>
  element("h2", { tabindex: -1 }, `${place + 1} of ${all.length}: ${all[place].name}`);

/** The buttons stay where they are, and keep the focus; what stands between them changes. */
function showStation(holder) {
  const all = stations();
  const place = Math.min(state.walk, all.length - 1);
  const moves = (text, by, isEnd) => {
    const button = element("button", { type: "button", disabled: isEnd }, text);
    button.addEventListener("click", () => goToStation(state.walk + by));
    return button;
  };
  const hadFocus = holder.contains(document.activeElement) && document.activeElement.textContent;
  const close = actionButton("×", "end the walk", () => goToStation(null));
  const heading = titleOf(all, place);
  const buttons = [moves("‹ Back", -1, place === 0), moves("Next ›", 1, !all[place + 1])];
  holder.replaceChildren(
    element("div", { class: "tour-moves" }, buttons[0], heading, buttons[1], close),
    ...partsOf(all[place]),
  );
  if (hadFocus === false) return;
  const same = buttons.find(({ textContent, disabled }) => textContent === hadFocus && !disabled);
  (same ?? heading).focus({ preventScroll: true });
}

const partsOf = ({ caption, number, scene, note = "" }) => [
  element("p", { class: "tour-caption", role: "status" }, caption),
  element("p", { class: "tour-number" }, ...number),
  element("div", { class: "tour-scene" }, ...scene),
  element("p", { class: "caption" }, note),
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
    ...(live.model.vocabulary?.answers.length
      ? [stationOfAnswer(walked), stationOfSwitch(walked)] : []),
  ];
}

/** All numbers on the way: those that the page has computed, none is computed here again. */
function walkedNumbers() {
  const [moment, layer, number] = data.live.places[state.head];
  const result = live.results[moment];
  const head = followedHead();
  const { query, key } = followedCell();
  const cells = computedCells.get(state.head) ?? cellsOfComputed(head);
  const vectors = vectorsOfComputed(head);
  const cell = computedCell(state.head, cells, vectors, { query, key });
  const side = readers(state.head);
  return {
    result, layer, number, head, query, key, vectors, cell, side,
    dimension: largestKey(cell.terms.map(Math.abs)),
    mixture: mixedValues(state.head, cells, vectors, query),
    name: nameOfPlace(layer, number),
    who: calledToken(side, query),
    whom: calledToken(side, key),
    share: head.weights[query][key],
  };
}

/* The tokens, each with a number below it, and lists of numbers as bars. */

function rowOfTokens({ side, query, key }, write) {
  const marks = (place) => `${place === query ? "reader" : ""} ${place === key ? "read" : ""}`;
  const items = side.labels.map((_, place) =>
    element("li", { class: marks(place) }, element("span", {}, tokenName(side, place)),
      element("small", {}, write(place))));
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
    caption: `${called} A model sees only numbers: each token (piece of text) has one.`,
    number: travels(null, String(id), `is the number of ${who}`),
    scene: [rowOfTokens({ side, query }, (place) => String(live.cut.ids[place]))],
  };
}

function stationOfVector({ result, layer, query, who, dimension, side }) {
  const [embedded, inflow] = [result.embedded[query], result.inflows[layer][query]];
  const [at, isSame] = [dimension % embedded.length, same([...embedded], [...inflow])];
  const isMoved = layer === 0 && !isSame;
  const more = isMoved ? " A vector for its position is added." : saidOfLayersBelow(result, layer);
  const rows = [{ name: `vector of ${who}`, numbers: embedded }];
  const name = isMoved ? "with its position" : `into layer ${layer}`;
  if (!isSame) rows.push({ name, numbers: inflow });
  const way = [String(live.cut.ids[query]), ...(isSame ? [] : [plainNumber(embedded[at])])];
  return {
    name: "its vector",
    caption: `The number picks its vector: ${embedded.length} numbers.${isSame ? "" : more}`,
    number: travels(way.join(" → "), plainNumber(inflow[at]), inDimension(at)),
    scene: [rowOfTokens({ side, query }, () => ""), listsOf(rows, at)],
    note: "Red or orange: above 0. Blue: below 0.",
  };
}

/** What they did to a vector; of those whose heads are all off not that they mixed. */
function saidOfLayersBelow(result, layer) {
  if (layer === 0) return "";
  const { off } = choicesNow();
  const mixes = result.heads.slice(0, layer).some((each, below) =>
    each.some((_, head) => off.get(nameOfPlace(below, head)) !== "zero"));
  const [who, where] = layer === 1
    ? ["Layer 0 has", "the second layer"] : ["The layers before have", `layer ${layer}`];
  return ` ${who} ${mixes ? "mixed in other tokens" : "changed it"}: this is ${where}.`;
}

function stationOfLists(walked) {
  const { head, result, layer, number, query, key, who, whom, dimension, name } = walked;
  const inflow = result.inflows[layer][query];
  const rows = [
    { name: `query of ${who}`, numbers: head.queries[query] },
    { name: `key of ${whom}`, numbers: head.keys[key] },
    { name: `value of ${whom}`, numbers: head.values[key] },
  ];
  const makes = live.model.projected ? "turns each vector into" : "takes each vector as";
  const origin = live.model.projected ? `, made of all ${inflow.length} numbers` : "";
  const isEven = rows.every(({ numbers }) => numbers.length === rows[0].numbers.length);
  return {
    name: "query, key, value",
    caption: `Head ${name} ${makes} a query (what it seeks), key (what it offers), `
      + "value (what it hands on).",
    number: travels(plainNumber(inflow[dimension % inflow.length]),
      plainNumber(head.queries[query][dimension]),
      `of the query ${inDimension(dimension)}${origin}`),
    scene: [
      rowOfTokens(walked, () => ""),
      ...(isEven ? [listsOf(rows, dimension)] : rows.map((row) => listsOf([row], dimension))),
    ],
    note: `${name} is layer ${layer}, head ${number}: both count from 0.`,
  };
}

function stationOfScore(walked) {
  const { cell, vectors, who, whom, dimension, query } = walked;
  const [product, each] = isAdditive(vectors)
    ? [ADDITIVE, "Query and key make a number for each dimension"]
    : ["query × key", "Query times key, number by number"];
  const pair = cell.vectors.map((numbers) => plainNumber(numbers[dimension]));
  const largest = termOfPair(pair, cell.terms[dimension], vectors, dimension);
  const score = sumWithTerm(cell.stages[0].value, largest, cell.terms.length - 1, "dimension");
  return {
    name: "the score",
    caption: `${each}, summed: how well ${whom} suits ${who}.`,
    number: travels(pair[0], score.result, `${score.sign} ${score.written}`),
    scene: [
      rowOfTokens(walked, (place) =>
        fixedText(scoreStages(vectors, query, place)[0].value, 1)),
      listsOf([{ name: product, numbers: cell.terms }], dimension),
    ],
    note: `We follow dimension ${dimension + 1}: it changes this score most.`,
  };
}

/** Of a key that wins in every row that sees it, a high score says little of the query. */
function saidOfAllRows({ head: { scores, weights }, key, whom }) {
  const rows = weights.filter((_, row) => !Number.isNaN(scores[row][key]));
  const isOfAll = rows.length > 2 && rows.every((row) => largestKey(row) === key);
  return isOfAll ? ` ${rows.length} of ${weights.length} tokens read ${whom} most here.` : "";
}

/** A sum, written as the term of the number that arrives, and what the others come to. */
function sumWithTerm(value, { written, value: term, exact }, others, counts) {
  const [rest, result] = [value - exact, value].map(plainNumber);
  const isAlone = others === 0 && rest === "0";
  const sum = isAlone ? term : term + printedNumber(rest);
  const from = `from ${counted(others, `other ${counts}`, `other ${counts}s`)}`;
  return {
    written: isAlone ? written : `${sumText([written, rest])} ${from}`,
    sign: signOf(sum, result, plainNumber),
    result,
  };
}

function stationOfScale(walked) {
  const { cell, vectors, head, query } = walked;
  const hidden = head.scores[query].filter(Number.isNaN).length;
  const changed = saidOfScale(cell.stages, vectors);
  const rest = state.causal ? "The mask hides later tokens: there are none." : "Nothing is hidden.";
  const masked = hidden > 0 ? `The mask hides ${counted(hidden, "token", "tokens")}.` : rest;
  const lines = sumsOfCell(cell, vectors).slice(1, -1);
  const below = (score) => (Number.isNaN(score) ? "hidden" : fixedText(score, 1));
  return {
    name: vectors.divisors.length > 0 ? "divided, and masked" : "masked",
    caption: `${changed} ${masked}`,
    number: travels(plainNumber(cell.stages[0].value), plainNumber(cell.score),
      lines.length ? `${lines.at(-1).sign} ${lines.at(-1).written}` : ""),
    scene: [
      rowOfTokens(walked, (place) => below(head.scores[query][place])),
      ...(lines.length > 1 ? [listOfSums(lines)] : []),
    ],
    note: state.temperature === 1 ? "" :
      `Temperature is a setting, here ${state.temperature}: the smaller, the sharper the softmax.`,
  };
}

function saidOfScale(stages, { divisors, width }) {
  const differences = state.temperature < 1 ? "widens" : "narrows";
  const reasons = [
    state.scaled && `Long lists make large sums: divide by √${width}.`,
    state.temperature !== 1 && `Temperature ${state.temperature} ${differences} differences.`,
  ];
  if (divisors.length > 0) return reasons.filter(Boolean).join(" ");
  if (stages.length === 1) return "Nothing is divided here.";
  const isCapped = stages.some(({ name }) => name === "capped");
  return isCapped ? "Large scores are limited." : "Distance changes the score.";
}

function stationOfShares(walked) {
  const { head, query, whom, who, share, cell, vectors } = walked;
  const shares = "Softmax makes shares that sum to 1, larger ones for larger scores:";
  const { compared } = live.model;
  const table = () => tableOfSoftmax(state.head, cell, [who, whom], null, LEAST_SHARE);
  const sums = compared ? [
    element("div", { class: "frame" }, table()), listOfSums(sumsOfCell(cell, vectors).slice(-1)),
  ] : [];
  const power = compared ? "exp(x) is e (2.718…) to the power of x." : "";
  return {
    name: "softmax",
    caption: `${shares} ${whom} gets ${percentText(share)}.`,
    number: travels(vectors ? plainNumber(cell.score) : null, shareText(share)),
    scene: [rowOfTokens(walked, (place) => shareText(head.weights[query][place])), ...sums],
    note: power + saidOfAllRows(walked),
  };
}

function stationOfMixture(walked) {
  const { mixture: { rows, sum, largest }, query, share, name, head } = walked;
  const instead = choicesNow().off.get(name);
  const inPlace = plainNumber(passedOn(walked)[largest]);
  const leaves = instead === "mean" ? "the mean of all tokens" : "nothing";
  const place = `(dimension ${largest + 1}, where the sum is farthest from 0)`;
  const mixed = mixtureAsSum(walked, sum[largest], largest);
  return {
    name: "the values, mixed",
    caption: instead
      ? `${name} is switched off: whatever it reads, it passes on ${leaves}.`
      : `Each value counts by its share. ${saidOfSum(walked)}`,
    number: instead
      ? travels(shareText(share), inPlace, `is passed on ${inDimension(largest)}`)
      : travels(shareText(share), mixed.result, `${mixed.sign} ${mixed.written} ${place}`),
    scene: [
      rowOfTokens(walked, (token) => shareText(head.weights[query][token])),
      listsOf(rows, largest),
    ],
  };
}

/** What becomes of the sum in its own layer. */
function saidOfSum({ layer, who }) {
  const { blocks, heads: count, tensors } = live.model;
  if (!blocks) return `The sum is what ${who} takes along.`;
  const matrix = tensorsOfLayer(tensors, layer)("w_out") ? ", times the model's table W_O," : "";
  const joins = count > 1 ? `heads' sums${matrix} join` : `sum${matrix} joins`;
  return `The ${joins} the vector of ${who}.`;
}

function mixtureAsSum({ vectors, query, key, share, head }, sum, dimension) {
  const value = valueOf(vectors, key)[dimension];
  const product = termOfPair([shareText(share), plainNumber(value)], share * value);
  const read = head.weights[query].filter((each) => each > 0).length;
  return sumWithTerm(sum, product, read - 1, "token");
}

const termOfPair = (pair, exact, vectors = {}, dimension = null) => ({
  written: termText(vectors, dimension, pair, plainNumber),
  value: termOf(vectors, dimension, ...pair.map(printedNumber)),
  exact,
});

/** What a head adds to its token: the mixture, or what is in its place where it is switched off. */
function passedOn({ head, name, query }) {
  const instead = choicesNow().off.get(name);
  return (instead ? withoutContexts(head.contexts, instead) : head.contexts)[query];
}
