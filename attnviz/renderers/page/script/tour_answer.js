// The end of the walk: the answer, and the heads that it needs.

const ANSWERS_ON_THE_WAY = 3;
const LITTLE = 0.05; // by which an answer may lose that does not need a head

/** The score of an answer: the vector at the end, times the answer's own list of numbers. */
function scoredAnswer({ outflow, logits }, { place, answer, name, who }) {
  const { w_answers: lists, b_answers: bias } = live.moments[momentNow()].tensors;
  const end = outflow[place];
  const list = end.map((_, row) => lists.numbers[row * lists.columns + answer]);
  const terms = end.map((each, row) => each * list[row]);
  const dimension = largestKey(terms.map(Math.abs));
  const pair = [end, list].map((numbers) => plainNumber(numbers[dimension]));
  const product = termOfPair(pair, terms[dimension]);
  const sum = sumWithTerm(logits[place][answer], product, terms.length - 1, "dimension");
  const written = sum.written + (bias ? " and a bias" : "");
  const rows = [
    { name: `last vector of ${who}`, numbers: end }, { name: `list of ${name}`, numbers: list },
    { name: "product", numbers: terms },
  ];
  return [listsOf(rows, dimension), listOfSums([{ name: `score of ${name}`, ...sum, written }])];
}

const withoutAnswer = (name) =>
  ({ name, caption: "No word of this text asks for an answer.", number: [], scene: [] });

function stationOfAnswer(walked) {
  const place = answeredPlace()?.place ?? null;
  if (place === null) return withoutAnswer("the answer");
  const { answers } = live.model.vocabulary;
  const { logits, probabilities } = walked.result;
  const row = probabilities[place];
  const best = row.indexOf(Math.max(...row));
  const [name, who] = [`"${answers[best]}"`, calledToken(walked.side, place)];
  const rows = bestAnswers(row).map((answer) => answerRow(answers[answer], row[answer]));
  const rule = "The last vector times an answer's list is its score.";
  const score = plainNumber(logits[place][best]);
  const input = plainNumber(passedOn(walked)[walked.mixture.largest]);
  const isInput = place === walked.query || walked.layer < live.model.layers - 1;
  return {
    name: "the answer",
    caption: `${saidOfWayOn(walked, place, who)} ${rule}`,
    number: travels(score, percentText(row[best]),
      `for ${name}: the softmax of the scores of ${row.length} answers`),
    scene: [
      ...scoredAnswer(walked.result, { place, answer: best, name, who }),
      element("ol", { class: "answers" }, ...rows),
    ],
    note: isInput ? `${input} is one of the numbers that go into ${score}.` : "",
  };
}

/** What becomes of the mixture before an answer is read. */
function saidOfWayOn({ layer, query }, place, who) {
  const { layers, blocks, tensors } = live.model;
  const later = layers - 1 - layer;
  if (later === 0 && place !== query) return `The answer is read at ${who}.`;
  const next = [
    tensorsOfLayer(tensors, layer)("w_1") && "small network (feed-forward)",
    later > 0 && (later === 1 ? `layer ${layer + 1}` : "later layers"),
    tensors.last_gain && "rescaling (norm)",
  ].filter(Boolean);
  const count = ["", "One more step", "Two more steps", "Three more steps"][next.length];
  return count ? `${count}: ${next.join(", ")}.` : `The sum ${blocks ? "joins" : "is"} the vector.`;
}

const bestAnswers = (row) =>
  [...row.keys()].sort((one, other) => row[other] - row[one]).slice(0, ANSWERS_ON_THE_WAY);

/** The model with some heads switched off: its answers at a place, the best, and its heads. */
function modelWithout(place, names) {
  const choices = { ...choicesNow(), off: new Map(names.map((name) => [name, "zero"])) };
  const result = computeModel(live.moments[momentNow()], live.cut.ids, choices);
  const row = result.probabilities[place];
  return { row, best: row.indexOf(Math.max(...row)), heads: result.heads };
}

/** The head of the walk; or, where the answer needs only all of them, those of its layer that read
 *  the same token most. */
function headsToSwitch({ layer, query, key, name }, place, { best, heads }) {
  const isAlike = ({ weights }) => largestKey(weights[query]) === key;
  const alike = heads[layer]
    .flatMap((head, number) => (isAlike(head) ? [nameOfPlace(layer, number)] : []));
  const isNeeded = (names) => modelWithout(place, names).best !== best;
  return !isNeeded([name]) && isNeeded(alike) ? alike : [name];
}

function stationOfSwitch(walked) {
  const place = answeredPlace()?.place ?? null;
  const name = "without a head";
  if (place === null) return withoutAnswer(name);
  const { answers } = live.model.vocabulary;
  const [whole, now] = [modelWithout(place, []), probabilitiesNow()[place]];
  const isOff = state.off.length > 0;
  const names = isOff
    ? state.off.map((each) => each.split("=")[0])
    : headsToSwitch(walked, place, whole);
  const rows = bestAnswers(isOff ? now : whole.row).map((answer) =>
    answerRow(answers[answer], now[answer], isOff ? whole.row[answer] : undefined));
  const before = isOff ? percentText(whole.row[whole.best]) : null;
  return {
    name,
    caption: isOff ? saidWithout(names, whole, now, place) : askedAboutHeads(names),
    number: travels(before, percentText(now[whole.best]), `for "${answers[whole.best]}"`),
    scene: [switchOfHeads(names, isOff), element("ol", { class: "answers" }, ...rows)],
  };
}

const namesTogether = (names) =>
  (names.length > 2 ? `${names[0]} to ${names.at(-1)}` : names.join(" and "));

function askedAboutHeads(names) {
  const them = names.length > 1 ? "them" : "it";
  return `Does the answer need ${namesTogether(names)}? Switch ${them} off and see.`;
}

/** What the answer needs is what these heads read only in the last layer: in others each token
 *  reads, and may be read. */
function saidWithout(names, { row, best, heads }, now, place) {
  const { answers } = live.model.vocabulary;
  const answer = now.indexOf(Math.max(...now));
  const without = `Without ${namesTogether(names)} the model`;
  const says = `says "${answers[answer]}" (${shortPercent(now[answer])})`;
  const places = names.map((name) => name.match(/\d+/g));
  const rows = places.map(([layer, head]) => heads[layer][head].weights[place]);
  const key = largestKey(rows[0]);
  const isMost = rows.every((each) => each[key] > 0.5);
  const end = isMost && row[best] - now[best] < LITTLE ? ": a large weight need not matter." : ".";
  if (answer === best) return `${without} still ${says}${end}`;
  const isLast = places.every(([layer]) => Number(layer) === live.model.layers - 1);
  const reader = names.length > 1 ? "they read" : `${names[0]} reads`;
  const read = `${reader}, mostly ${calledToken(readTokens(state.head), key)}`;
  const needs = isLast && isMost ? ` So "${answers[best]}" needs what ${read}.` : "";
  return `${without} ${says}, not "${answers[best]}".${needs}`;
}

function switchOfHeads(names, isOff) {
  const text = isOff ? "Switch on again" : `Switch ${namesTogether(names)} off`;
  const button = element("button", { type: "button" }, text);
  const offBefore = state.offBefore ?? state.off;
  button.addEventListener("click", () => change({ off: isOff ? [] : names, offBefore }));
  return button;
}
