// The end of the walk: the answer, and the heads that it needs; only where a model gives answers.

const ANSWERS_ON_THE_WAY = 3;

/** The score of an answer: the vector at the end, times the answer's own list of numbers. */
function scoredAnswer({ outflow, logits }, { place, answer, name, who }) {
  const { w_answers: lists, b_answers: bias } = live.moments[momentNow()].tensors;
  const end = outflow[place];
  const list = end.map((_, row) => lists.numbers[row * lists.columns + answer]);
  const terms = end.map((each, row) => each * list[row]);
  const sizes = [...terms].map(Math.abs);
  const dimension = sizes.indexOf(Math.max(...sizes));
  const pair = [end, list].map((numbers) => plainNumber(numbers[dimension]));
  const sum = sumWithTerm(logits[place][answer], {
    written: `${pair[0]}·${inBrackets(pair[1])}`,
    value: pair.map(printedNumber).reduce((one, other) => one * other),
    exact: terms[dimension],
  }, terms.length - 1, "dimension");
  const written = sum.written + (bias ? " and a bias" : "");
  const rows = [
    { name: `last vector of ${who}`, numbers: end }, { name: `list of ${name}`, numbers: list },
    { name: "product", numbers: terms },
  ];
  return [listsOf(rows, dimension), listOfSums([{ name: `score of ${name}`, ...sum, written }])];
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
  const { largest } = mixedValues(state.head, walked.cells, walked.vectors, walked.query);
  const name = `"${vocabulary.answers[best]}"`;
  const won = `${name} wins: ${percentText(row[best])}.`;
  const asking = { place: found.place, answer: best, name, who: calledToken(walked.side, found.place) };
  const score = plainNumber(logits[found.place][best]);
  const elsewhere = found.place === walked.query ? "" : ` after ${calledToken(walked.side, found.place)}`;
  return {
    name: "the answer",
    caption: `${added}Every answer gets a score${elsewhere}. ${won}`,
    number: travels(`${plainNumber(passedOn(walked)[largest])} → ${score}`, percentText(row[best]),
      `for ${name}: the softmax of the scores of ${row.length} answers`),
    scene: [...scoredAnswer(walked.result, asking), element("ol", { class: "answers" },
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
