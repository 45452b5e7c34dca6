// The end of the walk: the answer, and the heads that it needs.

const ANSWERS_ON_THE_WAY = 3;

/** The score of an answer: the vector at the end, times the answer's own list of numbers. */
function scoredAnswer({ outflow, logits }, { place, answer, name, who }) {
  const { w_answers: lists, b_answers: bias } = live.moments[momentNow()].tensors;
  const end = outflow[place];
  const list = end.map((_, row) => lists.numbers[row * lists.columns + answer]);
  const terms = end.map((each, row) => each * list[row]);
  const dimension = largestKey(terms.map(Math.abs));
  const pair = [end, list].map((numbers) => plainNumber(numbers[dimension]));
  const product = productAsTerm(pair, terms[dimension]);
  const sum = sumWithTerm(logits[place][answer], product, terms.length - 1, "dimension");
  const written = sum.written + (bias ? " and a bias" : "");
  const rows = [
    { name: `last vector of ${who}`, numbers: end }, { name: `list of ${name}`, numbers: list },
    { name: "product", numbers: terms },
  ];
  return [listsOf(rows, dimension), listOfSums([{ name: `score of ${name}`, ...sum, written }])];
}

function stationOfAnswer(walked) {
  const place = answeredPlace()?.place ?? null;
  if (place === null) {
    const nothing = "No word of this text asks for an answer.";
    return { name: "the answer", caption: nothing, number: [], scene: [] };
  }
  const { answers } = live.model.vocabulary;
  const { logits, probabilities } = walked.result;
  const row = probabilities[place];
  const best = row.indexOf(Math.max(...row));
  const [name, who] = [`"${answers[best]}"`, calledToken(walked.side, place)];
  const rows = bestAnswers(row).map((answer) => answerRow(answers[answer], row[answer]));
  const rule = "The last vector times an answer's list is its score.";
  return {
    name: "the answer",
    caption: `${saidOfWayOn(walked, place, who)} ${rule} ${name}: ${percentText(row[best])}.`,
    number: travels(plainNumber(logits[place][best]), percentText(row[best]),
      `for ${name}: the softmax of the scores of ${row.length} answers`),
    scene: [
      ...scoredAnswer(walked.result, { place, answer: best, name, who }),
      element("ol", { class: "answers" }, ...rows),
    ],
  };
}

/** What becomes of the mixture before an answer is read. */
function saidOfWayOn({ layer, query }, place, who) {
  const { layers, blocks, tensors } = live.model;
  const later = layers - 1 - layer;
  if (later === 0 && place !== query) return `The answer is read at ${who}.`;
  const next = [
    tensorsOfLayer(tensors, layer)("w_1") && "the feed-forward layer",
    later > 0 && (later === 1 ? `layer ${layer + 1}` : "later layers"),
    later === 0 && tensors.last_gain && "a norm",
  ].filter(Boolean).join(", ");
  return next ? `Next: ${next}.` : `The sum ${blocks ? "joins" : "is"} the vector.`;
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
  const candidates = [alone.filter(changing), together.filter(changing), alone]
    .find(({ length }) => length > 0);
  const left = ({ row }) => row[whole.best];
  return candidates.reduce((most, each) => (left(each) < left(most) ? each : most)).names;
}

function stationOfSwitch() {
  const askedAt = answeredPlace();
  const station = { name: "without a head", caption: "There is no answer to lose.", number: [] };
  if (askedAt === null) return { ...station, scene: [] };
  const { answers } = live.model.vocabulary;
  const [whole, now] = [answersWithout(askedAt.place, []).row, probabilitiesNow()[askedAt.place]];
  const best = whole.indexOf(Math.max(...whole));
  const isOff = state.off.length > 0;
  const names = isOff
    ? state.off.map((each) => each.split("=")[0])
    : neededHeads(askedAt.place, { best });
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
  return `Does the answer need ${namesTogether(names)}? Switch ${them} off and see.`;
}

function saidWithout(names, best, now) {
  const { answers } = live.model.vocabulary;
  const answer = now.indexOf(Math.max(...now));
  const share = percentText(now[answer]);
  const without = `Without ${namesTogether(names)} the model`;
  return answer === best
    ? `${without} still says "${answers[best]}" (${share}).`
    : `${without} says "${answers[answer]}" (${share}), not "${answers[best]}".`;
}

function switchOfHeads(names, isOff) {
  const text = isOff ? "Switch on again" : `Switch ${namesTogether(names)} off`;
  const button = element("button", { type: "button" }, text);
  const offBefore = state.offBefore ?? state.off;
  button.addEventListener("click", () => change({ off: isOff ? [] : names, offBefore }));
  return button;
}
