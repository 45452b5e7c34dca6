// The arithmetic of a cell as text to copy, with tabs between columns.

const DIGITS_OF_TEXT = 6; // as many as make each sum come out on a calculator

/** In plain letters, which a spreadsheet reads. */
const calculatorText = (value) =>
  Number.isFinite(value) ? String(Number(value.toPrecision(DIGITS_OF_TEXT))) : "-inf";

/** Words are set apart by marks that nobody sees; they are of no use in a text. */
const withoutMarks = (text) => text.replaceAll(/[\u2068\u2069]/g, "");

const lineText = ({ name, written, sign, result }) =>
  sign === ":" ? `${name}: ${written}, ${result}` : `${name} = ${written} ${sign} ${result}`;

/** Everything that the panel shows: every dimension, every stage, and every key. */
function textOfCell(head, found, vectors, notes) {
  const parts = [productLines(head, found, vectors), stagesAsText(found)];
  if (found.hidden) parts.push(["score: hidden by the mask, -inf", "weight = exp(-inf) = 0"]);
  else parts.push(softmaxLines(head, found, vectors), weightAsText(found, vectors));
  const title = [capital(arithmetic.name.textContent)];
  const all = [title, ...parts, notes].filter(({ length }) => length > 0);
  return withoutMarks(all.map((part) => part.join("\n")).join("\n\n"));
}

function productLines(head, { query, key, vectors: both, terms }, vectors) {
  const [who, whom] = [calledToken(readers(head), query), calledToken(readTokens(head), key)];
  const weighs = isAdditive(vectors);
  const product = weighs ? ADDITIVE : "q × k";
  const rows = terms.map((term, place) => [
    place + 1,
    ...(weighs ? [calculatorText(vectors.scoreVector[place])] : []),
    ...both.map((numbers) => calculatorText(numbers[place])),
    calculatorText(term),
  ]);
  const sum = calculatorText(terms.reduce((added, term) => added + term, 0));
  const names = ["dimension", ...(weighs ? ["w"] : []), `q of ${who}`, `k of ${whom}`, product];
  const total = ["sum", ...Array(names.length - 2).fill(""), sum];
  return [names, ...rows, total].map((cells) => cells.join("\t"));
}

/** From the product of query and key to the score; with the minus of a keyboard. */
function stagesAsText(found) {
  const typesetText = (value) => typeset(calculatorText(value));
  const [product, ...lines] = stageLines(found, typesetText);
  const first = `${product.name} ${signOfSum(found, product.result)} ${product.result}`;
  return [first, ...lines.map(lineText)].map((line) => line.replaceAll(MINUS, "-"));
}

/** Queries and keys may be rounded, and what a score was made of is not. */
const signOfSum = ({ terms }, result) =>
  signOf(terms.reduce((sum, term) => sum + term, 0), result, calculatorText);

function softmaxLines(head, { softmax }, { mistake }) {
  const { shift, sink, rest, total, each } = softmax;
  const [axis, input] = mistake ? [mistake.axis, "input"] : ["row", "score"];
  const power = shift ? `exp(${input} - ${calculatorText(shift)})` : `exp(${input})`;
  const rows = each.map((cell) => [
    namesOfCell(head, cell, axis)[0],
    ...[cell.score, cell.power, cell.power / total].map(calculatorText),
  ]);
  if (sink !== null) rows.push(["sink", ...[sink, rest, rest / total].map(calculatorText)]);
  const names = [readTokens(head).counts, input, power, `${power} / sum`];
  return [names, ...rows, ["sum", "", calculatorText(total), 1]].map((cells) => cells.join("\t"));
}

function weightAsText({ weight, error, known, softmax: { chosen, total } }, vectors) {
  const [power, all] = [chosen.power, total].map(calculatorText);
  const share = calculatorText(chosen.power / total);
  const sign = calculatorText(Number(power) / Number(all)) === share ? "=" : "≈";
  const quotient = `${power} / ${all} ${sign} ${share}`;
  if (isSoftmax(vectors, known)) return [`weight = ${quotient}`];
  const last = error === 0 ? calculatorText(weight) : typesetAscii(knownShare(weight, error));
  return [`softmax = ${quotient}`, `weight: ${saidAfterSoftmax(vectors)}, ${last}`];
}

const typesetAscii = (text) => text.replaceAll(MINUS, "-");

function copyOfCell(head, found, vectors, notes) {
  const text = textOfCell(head, found, vectors, notes);
  return actionButton("Copy as text", "copy: the arithmetic as text", async () => {
    const took = await tookText(text);
    say(took ? "The arithmetic is copied." : "Copying is not allowed here: select the text.");
  });
}
