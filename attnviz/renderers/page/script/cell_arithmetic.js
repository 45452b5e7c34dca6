// The arithmetic of a cell: query and key as bars, their products, score and softmax.

const SQUARES_IN_A_LINE = 32; // of wider heads each bar has several lines,
const MANY_SQUARES_IN_A_LINE = 64; // and from more than this on, longer ones
const MOST_NUMBERED_SQUARES = 8; // of a bar; of more there is no room for numbers
const MOST_WRITTEN_TERMS = 8; // of a longer sum only the largest terms are written
const LARGEST_TERMS = 3;
const MOST_NEIGHBOURS = 6; // keys in the softmax; the others are added up
const LARGEST_EXPONENT = 12; // from which on exp of a score is hard to read, and may overflow
const arithmetic = { drawn: null, byKey: false };

function canShowArithmetic() {
  return [...heads.keys()].some(hasVectors);
}

function startArithmetic(section) {
  const close = actionButton("×", "close the arithmetic", closeArithmetic);
  const name = element("h2", { tabindex: -1 });
  Object.assign(arithmetic, { section, name, body: element("div") });
  section.append(element("div", { class: "matrix-title" }, name, close), arithmetic.body);
  name.addEventListener("keydown", ({ key, ctrlKey }) => {
    if (!key.startsWith("Arrow")) return;
    matrix.frame.focus({ preventScroll: true });
    moveCell(key, ctrlKey);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || takesLetters(event.target)) return;
    if (closeArithmetic()) event.preventDefault();
  });
  whenChanged(Object.keys(state).filter((name) => name !== "hover"), drawArithmetic);
  drawArithmetic();
}

/** Whether there was one to close. What had the focus in it is gone: the matrix has it then. */
function closeArithmetic() {
  const open = state.cell !== null;
  if (open && arithmetic.section.contains(document.activeElement)) matrix.frame.focus();
  change({ cell: null });
  return open;
}

/** Of the cell that the pointer or the arrows are on; else of the largest one of a row. Its title
 *  has the focus then, so that it is read out. */
async function toggleArithmetic() {
  if (closeArithmetic()) return;
  const { head, hover } = state;
  const cells = await cellsOf(head);
  if (cells.tall * cells.wide > 1) return;
  const query = hover?.query ?? state.query ?? 0;
  arithmetic.byKey = true;
  change({ cell: { query, key: hover?.key ?? state.key ?? largestKey(cells.row(query)) } });
}

const largestKey = (weights) =>
  weights.reduce((best, weight, key) => (weight > (weights[best] || 0) ? key : best), 0);

async function drawArithmetic() {
  const { cell, head } = state;
  control("explorer").classList.toggle("with-arithmetic", cell !== null);
  arithmetic.section.hidden = cell === null;
  if (cell === null) return (arithmetic.drawn = null);
  const [cells, vectors] = await Promise.all([cellsOf(head), vectorsOf(head)]);
  if (head !== state.head || !same(cell, state.cell)) return;
  const opened = arithmetic.drawn === null;
  arithmetic.drawn = cell;
  keepingFocus(arithmetic.body, () => showArithmetic(head, cells, vectors));
  if (opened) bringIntoSight(arithmetic.section);
  if (opened && arithmetic.byKey) arithmetic.name.focus({ preventScroll: true });
  arithmetic.byKey = false;
}

/** All is drawn anew: what has the focus has it again, or the row of the softmax that is chosen. */
function keepingFocus(body, draw) {
  const within = [".bars", "th button"].find((name) => document.activeElement.matches(name));
  const focused = body.contains(document.activeElement) && within;
  draw();
  if (focused) body.querySelector(focused === ".bars" ? focused : "[aria-current] button")?.focus();
}

/** Where it stands below the window, as on a phone. */
function bringIntoSight(section) {
  const { top } = section.getBoundingClientRect();
  if (top > 0.7 * innerHeight) section.scrollIntoView({ block: "nearest" });
}

function showArithmetic(head, cells, vectors) {
  const { query, key } = state.cell;
  const [who, whom] = [calledToken(readers(head), query), calledToken(readTokens(head), key)];
  const { weight, error, hidden } = cells.at(query, key);
  const number = hidden ? "" : `: ${scaleOf(head).label} ${knownShare(weight, error)}`;
  const verb = hidden ? "cannot read" : "reads";
  arithmetic.name.textContent = `${calledHead(head)}: ${who} ${verb} ${whom}${number}`;
  if (!vectors) return arithmetic.body.replaceChildren(element("p", {}, saidWithoutVectors(head)));
  const found = computedCell(head, cells, vectors, state.cell);
  const shown = [
    ...barsOfCell(found, vectors, [who, whom]), listOfSums(sumsOfCell(found, vectors)),
  ];
  if (!found.hidden) {
    const table = tableOfSoftmax(head, found, [who, whom], vectors.mistake);
    const mixture = mixtureOfRow(head, cells, vectors, query);
    shown.push(element("div", { class: "frame" }, table), ...mixture, ...answerOfPage());
  }
  const notes = notesOfCell(head, cells, vectors, found);
  shown.push(...notes.map((note) => element("p", { class: "caption" }, note)));
  arithmetic.body.replaceChildren(...shown, copyOfCell(head, found, vectors, notes));
  letFramesScroll(arithmetic.body);
}

/** That a map has none, why, and where they are. */
function saidWithoutVectors(head) {
  const reason = heads[head].without;
  return `This map has no queries and keys of its own${reason ? `: ${reason}` : ""}.`;
}

/* What is computed. */

/** All numbers of a cell, and of all cells of which the softmax is taken: those that the page has,
 *  and those that follow. */
function computedCell(head, cells, vectors, { query, key }) {
  const row = cellsOfSoftmax(head, vectors, { query, key }).map((place) => {
    const known = cells.at(place.query, place.key);
    return { ...known, ...place, ...softmaxInput(vectors, place, known), known };
  });
  const chosen = row.find((each) => each.query === query && each.key === key);
  const { weight, error, hidden, known, score } = chosen;
  const stages = scoreStages(vectors, query, key, exactProduct(vectors, known));
  const seen = row.filter((each) => !each.hidden);
  return {
    query, key, weight, error, hidden, known, stages, score,
    vectors: [rowOfVectors(vectors, "queries", query), rowOfVectors(vectors, "keys", key)],
    terms: termsOf(vectors, query, key),
    softmax: softmaxOfCell(seen, chosen, vectors.sink ?? null),
    masked: row.length - seen.length,
  };
}

/** The row of a cell; after a mistake its column, or the whole matrix. */
function cellsOfSoftmax(head, { mistake }, { query, key }) {
  const [queries, keys] = [readers(head), readTokens(head)].map(({ labels }) => [...labels.keys()]);
  const axis = mistake?.axis ?? "row";
  const rows = axis === "row" ? [query] : queries;
  const columns = axis === "column" ? [key] : keys;
  return rows.flatMap((row) => columns.map((column) => ({ query: row, key: column })));
}

/** What the softmax is taken of: the score, and whether it is hidden. */
function softmaxInput(vectors, { query, key }, known) {
  if (vectors.mistake) {
    const score = vectors.mistake.at(query, key);
    return { score, hidden: score === -Infinity, weight: known.hidden ? 0 : known.weight };
  }
  if (isExactScore(known)) return { score: known.score };
  return { score: scoreStages(vectors, query, key).at(-1).value };
}

const rowOfVectors = (vectors, name, row) =>
  vectors[name].subarray(row * vectors.width, (row + 1) * vectors.width);

const ADDITIVE = "w · tanh(q + k)";
const isAdditive = ({ scoreVector = [] }) => scoreVector.length > 0;

/** What each dimension adds to the score: its product, or w · tanh(q + k). */
function termsOf(vectors, query, key) {
  const second = rowOfVectors(vectors, "keys", key);
  return Array.from(rowOfVectors(vectors, "queries", query), (number, place) =>
    termOf(vectors, place, number, second[place]));
}

const termOf = (vectors, place, one, other) =>
  isAdditive(vectors) ? vectors.scoreVector[place] * Math.tanh(one + other) : one * other;

const isExactScore = ({ score, scoreError, scoreIsBelow }) =>
  score !== null && scoreError === 0 && !scoreIsBelow;

/** The product of which an exact score was made, where it is only scaled: queries and keys may be
 *  rounded. None where it is not known. */
function exactProduct({ scale, softCap = null, slope = null, terms = [] }, found) {
  const isOnlyScaled = softCap === null && slope === null && terms.length === 0 && scale !== 0;
  return isOnlyScaled && isExactScore(found) ? found.score / scale : null;
}

/** From the product of query and key to the score: each stage with its value, how it is written,
 *  and what that comes to. */
function scoreStages(vectors, query, key, product = null) {
  const { scale, softCap = null, slope = null, terms = [] } = vectors;
  const added = termsOf(vectors, query, key).reduce((sum, term) => sum + term, 0);
  const stages = [{ name: isAdditive(vectors) ? ADDITIVE : "q · k", value: product ?? added }];
  const stage = (name, compute, write) => {
    const before = stages.at(-1).value;
    stages.push({ name, value: compute(before), before, compute, write });
  };
  if (scale !== 1) stage("scaled", (value) => value * scale, (text) => scaledText(text, vectors));
  if (softCap !== null) {
    const cap = fullNumber(softCap);
    const write = (text) => `${cap} · tanh(${text} / ${cap})`;
    stage("capped", (value) => softCap * Math.tanh(value / softCap), write);
  }
  if (slope !== null) {
    const far = Math.abs(query - key);
    const write = (text) => `${text} − ${fullNumber(slope)} · ${far}`;
    stage("with ALiBi", (value) => value - slope * far, write);
  }
  for (const { name, at } of terms) {
    const number = at(query, key);
    const write = (text, numberIn) => sumText([text, numberIn(number)]);
    stage(`with ${name}`, (value) => value + number, write);
  }
  return stages;
}

/** Of the keys that a query sees: exp of each score, and its share of all of them. */
function softmaxOfCell(row, { query, key }, sink) {
  const isChosen = (cell) => cell.query === query && cell.key === key;
  const scores = [...row.map(({ score }) => score), ...(sink === null ? [] : [sink])];
  const shift = Math.max(...scores.map(Math.abs)) > LARGEST_EXPONENT ? Math.max(...scores) : 0;
  const each = row.map((cell) => ({ ...cell, power: Math.exp(cell.score - shift) }));
  const rest = sink === null ? 0 : Math.exp(sink - shift);
  const total = each.reduce((sum, { power }) => sum + power, rest);
  const ordered = each.toSorted((one, other) => other.power - one.power);
  const shown = ordered.slice(0, MOST_NEIGHBOURS);
  if (!shown.some(isChosen)) shown.splice(-1, 1, ...ordered.filter(isChosen));
  const others = ordered.filter((cell) => !shown.includes(cell));
  return { shift, sink, rest, total, each, shown, others, chosen: each.find(isChosen) };
}

/* How it is written. */

const plainNumber = (value) =>
  Number.isInteger(value) && Math.abs(value) < LARGE_NUMBER
    ? typeset(String(value))
    : decimalText(value, false);

/** Two decimals, or two digits of what is smaller: .14, .00030, 3.0e−07; no number is smaller than
 *  32 bits have. */
function decimalText(value, share) {
  const size = Math.abs(value);
  if (value !== 0 && size < LEAST_FLOAT) return LESS_THAN_FLOATS;
  if (!isTiny(value, 2) || size < LEAST_DECIMAL) return numberText(value, { share });
  const text = typeset(value.toFixed(1 - exponentOf(Number(value.toPrecision(2)))));
  return share ? text.replace("0.", ".") : text;
}

const LEAST_DECIMAL = 5e-5; // what is smaller is written with powers of ten
const LEAST_FLOAT = 1e-38;
const LESS_THAN_FLOATS = "<1e−38";
const fullNumber = (value) => typeset(String(Number(value.toPrecision(6))));
const printedNumber = (text) => Number(text.replaceAll(MINUS, "-").replace("∞", "Infinity"));
const inBrackets = (text) => (text.startsWith(MINUS) ? `(${text})` : text);

/** Terms with + or − between them. */
const sumText = (texts) =>
  texts.reduce((sum, text) =>
    text.startsWith(MINUS) ? `${sum} ${MINUS} ${text.slice(1)}` : `${sum} + ${text}`);

const scaledText = (text, { divisors = [], scale }) =>
  divisors.length ? [text, ...divisors].join(" / ") : `${text} · ${fullNumber(scale)}`;

/** Every stage as a line: its name, how it is computed, and what comes out. The last stage before
 *  the softmax is the score. */
function sumsOfCell(found, vectors) {
  const lines = stageLines(found, plainNumber);
  Object.assign(lines[0], productText(found, vectors));
  if (found.hidden) {
    lines.push({ name: "score", written: "hidden by the mask", sign: ":", result: `${MINUS}∞` });
    return [...lines, { name: "weight", written: `exp(${MINUS}∞)`, sign: "=", result: "0" }];
  }
  return [...lines, ...mistakeLines(found, vectors), ...weightLines(found, vectors)];
}

function stageLines({ stages, hidden, known }, write) {
  const last = stages.length - 1;
  return stages.map((stage, place) => {
    const isScore = place === last && !hidden;
    const result = write(isScore && isExactScore(known) ? known.score : stage.value);
    if (place === 0) return { name: stage.name, result };
    const text = write(stage.before);
    const sign = signOf(stage.compute(printedNumber(text)), result, write);
    const name = isScore ? "score" : stage.name;
    return { name, written: stage.write(text, write), sign, result };
  });
}

/** Of a mistake that changes what the softmax is taken of: to what. */
function mistakeLines({ stages, score }, { mistake }) {
  const isSame = plainNumber(stages.at(-1).value) === plainNumber(score);
  if (!mistake || isSame) return [];
  return [{ name: "then", written: mistake.cause, sign: ":", result: plainNumber(score) }];
}

/** Whether what is printed comes to the result that is printed. */
const signOf = (value, result, write = decimalText) =>
  printedNumber(write(value, false)) === printedNumber(result) ? "=" : "≈";

/** The sum of the products, or its largest terms. */
function productText({ terms, vectors: both, stages }, vectors) {
  if (terms.length > MOST_WRITTEN_TERMS) {
    const largest = largestTerms(terms).map((place) => plainNumber(terms[place]));
    const rest = `${terms.length - largest.length} more`;
    return { written: sumText([...largest, rest]), sign: "≈" };
  }
  const pairs = terms.map((_, place) => both.map((numbers) => plainNumber(numbers[place])));
  const printed = pairs.map((pair, place) => termOf(vectors, place, ...pair.map(printedNumber)));
  const value = printed.reduce((sum, term) => sum + term, 0);
  return {
    written: sumText(pairs.map((pair, place) => termText(vectors, place, pair, plainNumber))),
    sign: signOf(value, plainNumber(stages[0].value)),
  };
}

/** A product, as it is written; or w · tanh(q + k). */
const termText = (vectors, place, [one, other], write) =>
  isAdditive(vectors)
    ? `${write(vectors.scoreVector[place])}·tanh(${sumText([one, other])})`
    : `${one}·${inBrackets(other)}`;

const largestTerms = (terms) =>
  [...terms.keys()]
    .filter((place) => terms[place] !== 0)
    .toSorted((one, other) => Math.abs(terms[other]) - Math.abs(terms[one]))
    .slice(0, LARGEST_TERMS);

const SUMMED = { row: "all exp", column: "exp in the column", matrix: "exp in the matrix" };

/** The softmax, and what else makes the weight of it. */
function weightLines({ weight, error, softmax, known }, vectors) {
  const { chosen, total, shift } = softmax;
  const [power, all] = [chosen.power, total].map((number) => decimalText(number, false));
  const result = decimalText(chosen.power / total, true);
  const printed = printedNumber(power) / printedNumber(all);
  const isSame = decimalText(printed, true) === result && (result !== "1.0" || printed === 1);
  const [score, shifted] = [plainNumber(chosen.score), plainNumber(-shift)];
  const exponent = shift ? sumText([score, shifted]) : score;
  const first = Math.exp(printedNumber(score) + (shift && printedNumber(shifted)));
  const written =
    `exp(${exponent}) / sum of ${SUMMED[vectors.mistake?.axis ?? "row"]} ${signOf(first, power)} ` +
    `${power} / ${all}`;
  const shown = { name: "weight", result: knownShare(weight, error).replace("about ", "") };
  const sign = isSame ? "=" : "≈";
  if (isSoftmax(vectors, known)) return [{ ...shown, written, sign }];
  const after = { ...shown, written: saidAfterSoftmax(vectors), sign: ":" };
  return [{ name: "softmax", written, sign, result }, after];
}

/** Whether the weight is what the softmax gives: not after dropout, nor where a mistake has
 *  written 0. */
const isSoftmax = ({ mixedBy = "softmax", mistake }, { hidden }) =>
  mistake ? !hidden : mixedBy === "softmax";

const saidAfterSoftmax = ({ mixedBy, mistake }) =>
  mistake ? mistake.cause : (SAID_OF_MIXING[mixedBy] ?? mixedBy);

/** A weight as far as it is known. */
const knownShare = (weight, error) =>
  weight !== 0 && isKnown(weight, error, 2)
    ? decimalText(weight, true)
    : knownText(weight, error, { share: true, digits: 2 });
const SAID_OF_MIXING = { dropout: "after dropout", hand: "written by hand" };

/* How it is shown. */

/** Query, key and products: bars of coloured squares, one for each dimension. */
function barsOfCell(found, vectors, [who, whom]) {
  const product = isAdditive(vectors) ? ADDITIVE : "q × k";
  const bars = [
    { name: `q of ${who}`, numbers: found.vectors[0] },
    { name: `k of ${whom}`, numbers: found.vectors[1] },
    { name: product, numbers: found.terms },
  ];
  const reach = Math.max(largestOf(found.vectors[0]), largestOf(found.vectors[1]));
  const reaches = [reach, reach, largestOf(found.terms)];
  const scales = reaches.map((high) => ({ kind: "diverging", bend: "straight", low: -high, high }));
  const says = element("p", { class: "bar-says", "aria-live": "off" });
  const holder = element("div", {
    class: "bars", tabindex: 0, role: "group", "aria-label": "dimensions: use the arrow keys",
  });
  const isVeryWide = vectors.width > MANY_SQUARES_IN_A_LINE;
  const most = isVeryWide ? MANY_SQUARES_IN_A_LINE : SQUARES_IN_A_LINE;
  const lines = Math.ceil(vectors.width / most);
  const across = Math.ceil(vectors.width / lines);
  for (let first = 0; first < vectors.width; first += across) {
    const end = Math.min(first + across, vectors.width);
    holder.append(blockOfBars(bars, scales, { first, end, across }));
  }
  const show = (dimension) => showDimension(holder, says, { found, vectors, dimension });
  letChooseDimension(holder, says, vectors.width, show);
  show(null);
  return [holder, says, barsOfColors(scales, product)];
}

/** The same dimensions of all bars, below each other. */
function blockOfBars(bars, scales, { first, end, across }) {
  const numbered = across <= MOST_NUMBERED_SQUARES;
  const line = (name, squares) =>
    element("div", { class: "bar-line" }, element("span", { class: "bar-name" }, name), ...squares);
  const places = Array.from({ length: end - first }, (_, place) => first + place);
  const heading = numbered
    ? places.map((place) => element("span", { class: "dimension" }, String(place + 1)))
    : [element("span", { class: "dimensions" }, `${first + 1}–${end}`)];
  const lines = bars.map(({ name, numbers }, bar) =>
    line(name, places.map((place) => squareOf(numbers, scales[bar], place, numbered))));
  const block = element("div", { class: "bar-block" }, line("dimension", heading), ...lines);
  block.style.gridTemplateColumns = `fit-content(9rem) repeat(${across}, minmax(0, 1fr))`;
  return block;
}

function squareOf(numbers, scale, place, numbered) {
  const color = colorsOn(scale)(numbers[place]);
  const write = isTiny(numbers[place], 2) ? (number) => fixedText(number, 2) : plainNumber;
  const text = numbered ? write(numbers[place]) : ""; // powers of ten have no room in a square
  const made = element("span", { class: "square", "data-dimension": place }, text);
  made.classList.toggle("numbered", numbered);
  Object.assign(made.style, { background: cssColor(color), color: inkOn(color) });
  return made;
}

/** What colours stand for. */
function barsOfColors([both, , products], label) {
  const bars = [newColorBar(), newColorBar()];
  showColorBar(bars[0], { ...both, label: "q and k" });
  showColorBar(bars[1], { ...products, label });
  return element("div", { class: "bar-scales" }, ...bars);
}

/** By pointer, or by arrows while it has the focus. */
function letChooseDimension(holder, says, width, show) {
  let chosen = null;
  const choose = (dimension) => show((chosen = dimension));
  holder.addEventListener("pointerover", ({ target }) => {
    if (target.dataset.dimension) choose(Number(target.dataset.dimension));
  });
  holder.addEventListener("pointerleave", () => choose(null));
  holder.addEventListener("blur", () => choose(null));
  holder.addEventListener("blur", () => says.setAttribute("aria-live", "off"));
  holder.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -width, End: width };
    const step = lookUp(steps, event.key);
    if (step === undefined || event.altKey || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    says.setAttribute("aria-live", "polite"); // but not where the arrows of the matrix draw it anew
    const from = chosen ?? (step < 0 ? width : -1);
    choose(Math.min(Math.max(from + step, 0), width - 1));
  });
}

/** The numbers of one dimension; of none those that add most to the score. */
function showDimension(holder, says, { found, vectors, dimension }) {
  for (const square of holder.querySelectorAll(".square")) {
    square.classList.toggle("chosen", Number(square.dataset.dimension) === dimension);
  }
  if (dimension === null) return (says.textContent = saidOfLargest(found.terms));
  const write = (number) => inFour(number, false);
  const pair = found.vectors.map((numbers) => write(numbers[dimension]));
  const written = termText(vectors, dimension, pair, write);
  says.textContent = `dimension ${dimension + 1}: ${written} = ${write(found.terms[dimension])}`;
}

function saidOfLargest(terms) {
  const said = largestTerms(terms).map((place) =>
    `${plainNumber(terms[place])} (dimension ${place + 1})`);
  const hasSome = terms.length > LARGEST_TERMS && said.length > 0;
  return hasSome ? `largest in size: ${said.join(", ")}` : "";
}

function listOfSums(sums) {
  const rows = sums.map(({ name, written, sign, result }) => [
    element("dt", {}, name),
    element("dd", {}, `${written}${sign === ":" ? "" : " "}${sign} `, element("b", {}, result)),
  ]);
  return element("dl", { class: "sums" }, ...rows.flat());
}

/** Of what is smaller than `least` only that. */
const textFrom = (least, size, text) => (size && size < least ? `<${shareText(least, 3)}` : text);
const shareFrom = (least, weight, error = 0) => textFrom(least, weight, knownShare(weight, error));

function tableOfSoftmax(head, { query, key, softmax, masked }, [who, whom], mistake, least = 0) {
  const [axis, input] = mistake ? [mistake.axis, "input"] : ["row", "score"];
  const { shift, sink, rest, total, shown, others } = softmax;
  const counts = readTokens(head).counts;
  const write = (number) => textFrom(least, number, decimalText(number, false));
  const power = shift ? `exp(${input} ${MINUS} ${plainNumber(shift)})` : `exp(${input})`;
  const row = (name, cells, attributes = {}) =>
    element("tr", attributes, element("th", { scope: "row" }, name),
      ...cells.map((cell) => element("td", {}, cell)));
  const rows = shown.map((cell) => row(
    actionButton(...namesOfCell(head, cell, axis),
      () => change({ cell: { query: cell.query, key: cell.key } })),
    [plainNumber(cell.score), write(cell.power), weightBar(cell, least)],
    { "aria-current": cell.query === query && cell.key === key && "true" },
  ));
  if (others.length > 0) {
    const added = (name) => others.reduce((sum, cell) => sum + cell[name], 0);
    const name = `${others.length.toLocaleString("en")} more`;
    rows.push(row(name, ["", write(added("power")), shareFrom(least, added("weight"))]));
  }
  if (sink !== null) rows.push(row("sink", [plainNumber(sink), write(rest), "no value"]));
  rows.push(row("sum", ["", write(total), ""], { class: "total" }));
  const hidden = masked ? `; ${masked.toLocaleString("en")} more hidden by the mask` : "";
  const whole = {
    row: mistake ? `the row of ${who}` : `all that ${who} can read`,
    column: `the column of ${whom}`,
    matrix: "the whole matrix",
  };
  return tableOf(`softmax: ${whole[axis]}${hidden}`,
    [counts, input, power, scaleOf(head).label], rows);
}

/** The other end of a cell in a row or a column, both ends in a matrix; and what a click does. */
function namesOfCell(head, { query, key }, axis) {
  const [reads, read] = [readers(head), readTokens(head)];
  const ends = {
    row: [[read, key]], column: [[reads, query]], matrix: [[reads, query], [read, key]],
  };
  const called = ends[axis].map((end) => calledToken(...end)).join(" reads ");
  return [ends[axis].map((end) => tokenName(...end)).join(" → "), `the arithmetic of ${called}`];
}

/** A weight, and a bar as long as its share. */
function weightBar({ weight, error }, least) {
  const bar = element("span");
  bar.style.width = `${Math.min(Math.max(weight, 0), 1) * 100}%`;
  const whole = element("span", { class: "weight-bar" }, bar);
  return element("span", { class: "bar-of-weight" }, whole, shareFrom(least, weight, error));
}

/* What a row makes of its weights: the values, each times its share, and their sum. */

const MOST_MIXED = 3; // that are drawn above the sum of all

const valueOf = ({ values, valueWidth }, key) =>
  values.subarray(key * valueWidth, (key + 1) * valueWidth);

/** Nothing where a page has no values. */
function mixtureOfRow(head, cells, vectors, query) {
  if (!vectors.values) return [];
  const { rows, largest } = mixedValues(head, cells, vectors, query);
  const who = calledToken(readers(head), query);
  const title = `values, each times its share: what ${who} takes along`;
  return [element("p", { class: "mixture-title" }, title), listsOf(rows, largest)];
}

/** What the model makes of all mixtures, on a page that computes it. */
const answerOfPage = () =>
  (isLive && live.model.vocabulary?.answers.length ? [element("p", {}, `${liveTitle()}.`)] : []);

/** The largest parts and the sum, by name; and where the sum is largest. */
function mixedValues(head, cells, vectors, query) {
  const weights = [...cells.row(query)].map((each) => each || 0);
  const order = [...weights.keys()].filter((key) => weights[key] > 0)
    .sort((one, other) => weights[other] - weights[one]);
  const parts = order.map((key) => valueOf(vectors, key).map((each) => each * weights[key]));
  const sum = new Float64Array(vectors.valueWidth);
  for (const part of parts) part.forEach((each, place) => (sum[place] += each));
  const shown = order.slice(0, MOST_MIXED).map((key, place) => ({
    name: `${shareText(weights[key])} × ${calledToken(readTokens(head), key)}`,
    numbers: parts[place],
  }));
  const isWhole = order.length <= MOST_MIXED;
  return {
    rows: [...shown, { name: isWhole ? "sum" : `sum of all ${order.length}`, numbers: sum }],
    sum,
    largest: largestKey(sum.map(Math.abs)),
  };
}

/** Lists of numbers below each other, in one scale; a dimension is marked. */
function listsOf(rows, dimension) {
  const [{ numbers }] = rows;
  const high = Math.max(...rows.map((row) => largestOf(row.numbers)));
  const scales = rows.map(() => ({ kind: "diverging", bend: "straight", low: -high, high }));
  const most = narrowPage.matches ? SQUARES_IN_A_LINE / 2 : SQUARES_IN_A_LINE;
  const across = Math.min(numbers.length, most);
  const starts = Array.from({ length: Math.ceil(numbers.length / across) }, (_, at) => at * across);
  const holder = element("div", { class: "lists" }, ...starts.map((first) =>
    blockOfBars(rows, scales, { first, end: Math.min(first + across, numbers.length), across })));
  for (const square of holder.querySelectorAll(`[data-dimension="${dimension}"]`)) {
    square.classList.add("chosen");
  }
  return holder;
}

/** Why a cell is hidden, what is switched off, how exact queries and keys are. */
function notesOfCell(head, cells, vectors, { query, key, hidden }) {
  const { mistake } = vectors;
  return [
    hidden && reasonOfHidden(head, cells, query, key),
    mistake && `The mistake: ${mistake.about}.`,
    heads[head].off && "This head is switched off: its weights are as usual, but have no effect.",
    vectors.exactness && `${capital(vectors.exactness)}.`,
  ].filter(Boolean);
}

/** What the whole mask tells of a hidden cell: whether it is causal, a window, or hides a token. */
function reasonOfHidden(head, cells, query, key) {
  const { rows, hides } = cells;
  const [whom, every] = [calledToken(readTokens(head), key), [...Array(rows).keys()]];
  if (every.every((row) => hides(row, key))) return `The mask hides ${whom} from every token.`;
  const band = readsItself(head) && bandOfMask(cells);
  const isLater = key > query;
  if (isLater && readsItself(head) && hidesAllLater(cells)) {
    return "The mask is causal: no token reads those after it.";
  }
  if (band) {
    const most = isLater ? band.after : band.before;
    const side = isLater ? "after" : "before";
    if (most === 0) return `No token reads those ${side} it.`;
    const tokens = most === 1 ? "1 token" : `${most} tokens`;
    return `Outside of the window: each token reads at most ${tokens} ${side} it.`;
  }
  return "The mask hides this cell; from the page alone it cannot be told by which rule.";
}

/** How far each token reads before and after itself, where that alone decides what is hidden. */
function bandOfMask({ rows, columns, hides }) {
  const seen = { before: 0, after: 0 };
  const each = Array.from({ length: rows * columns }, (_, place) => {
    const [row, column] = [Math.floor(place / columns), place % columns];
    return { far: column - row, hidden: hides(row, column) };
  });
  for (const { far, hidden } of each) {
    if (hidden) continue;
    seen.before = Math.max(seen.before, -far);
    seen.after = Math.max(seen.after, far);
  }
  const isWithin = ({ far }) => -far <= seen.before && far <= seen.after;
  return each.every((cell) => isWithin(cell) !== Boolean(cell.hidden)) ? seen : null;
}

function hidesAllLater({ rows, columns, hides }) {
  for (let row = 0; row < rows; row++) {
    for (let column = row + 1; column < columns; column++) if (!hides(row, column)) return false;
  }
  return true;
}
