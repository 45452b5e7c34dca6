// A cell in words: which token reads which, how much of it, by which score.

/** The tokens that a row of cells, or a column of them, stands for. */
function blockOf(side, place) {
  const first = place * side.size;
  return { first, last: Math.min(first + side.size, side.labels.length) - 1 };
}

/** What stands beside a row or column: a token, or nothing where it stands for several. */
function blockName(side, place) {
  const { first, last } = blockOf(side, place);
  return first === last ? side.labels[first] : "";
}

function numberName(side, place) {
  const { first, last } = blockOf(side, place);
  const [start, end] = [side.numbers[first], side.numbers[last]];
  return first === last ? start : `${start}–${end}`;
}

/** Whether a tokenizer added it. */
const isFaint = (side, place) => side.size === 1 && isSpecial(side, place);

/** `"it"`, and `"it" (12)` where the word occurs more than once; special tokens without quotes.
 *  It does not turn round what stands beside it, whatever it is written in. */
function calledPlace(side, place) {
  const [name, number] = [blockName(side, place), numberName(side, place)];
  if (!name) return number.includes("–") ? `tokens ${number}` : `${side.counts} ${number}`;
  const word = isFaint(side, place) ? `\u2068${name}\u2069` : `"\u2068${name}\u2069"`;
  return number && timesOf(side.labels).get(name) > 1 ? `${word} (${number})` : word;
}

const countedLabels = new WeakMap();

/** How often each word occurs. */
function timesOf(labels) {
  if (!countedLabels.has(labels)) {
    const times = new Map();
    for (const label of labels) times.set(label, (times.get(label) ?? 0) + 1);
    countedLabels.set(labels, times);
  }
  return countedLabels.get(labels);
}

/** Who reads whom, and how much: two lines of words. */
function saidOfCell(shown, row, column) {
  const { reads, read, cells } = shown;
  const [query, key] = [calledPlace(reads, row), calledPlace(read, column)];
  if (cells.hides(row, column)) return [`${query} cannot read ${key}`, "hidden by the mask"];
  const verb = blockName(reads, row) || reads.size === 1 ? "reads" : "read";
  return [`${query} ${verb} ${key}`, weightAndScore(shown, row, column)];
}

/** `weight .4183, score 4.57`; of a block of tokens its weight. */
function weightAndScore({ head, cells, reads, read }, row, column) {
  const { share } = heads[head];
  const { label } = scaleOf(head);
  if (reads.size > 1 || read.size > 1) {
    const [weight, error] = [cells.weight(row, column), cells.errorOf(row, column)];
    return `${label} ${knownText(weight, error, { share })}`;
  }
  const found = cells.at(row, column);
  const parts = [`${label} ${knownText(found.weight, found.error, { share })}`];
  if (found.score !== null) parts.push(`score ${knownScore(found)}`);
  return parts.join(", ");
}

/** A score as far as it is known; of a weight that is too small to tell, how high it may be. */
function knownScore({ score, scoreError, scoreIsBelow }, digits = 2) {
  const text = knownText(score, scoreIsBelow ? 0 : scoreError, { share: false, digits });
  return scoreIsBelow ? `below ${text}` : text;
}

/** What there is to say of a token of a long text whose row a page has not got. */
const missingRow = (side, query) =>
  "the page has only blocks of this row; " +
  `a page made with --query ${tokenNumber(side, query)} has all of it`;

/** In so many digits as are asked for; or, with "about", in as many as are known. */
function knownText(number, error, { share, digits = 4 }) {
  if (number === 0 && error > 0) return "about 0";
  if (isKnown(number, error, digits)) return numberText(number, { digits, share });
  const counts = Array.from({ length: digits }, (_, place) => digits - place);
  const known = counts.find((count) => error < lastDigit(number, count)) ?? 1;
  return `about ${numberText(number, { digits: known, share })}`;
}

/** Whether a number is as it is written, to the last of so many digits. */
const isKnown = (number, error, digits) => error === 0 || error < 0.5 * lastDigit(number, digits);

/** Of a whole row or column, where the pointer is on its name. */
const saidOfRow = ({ reads }, row) => `${calledPlace(reads, row)}: click to see what it reads`;
const saidOfColumn = ({ read }, column) =>
  `${calledPlace(read, column)}: click to see which tokens read it`;

const TO_STOP = matchMedia("(pointer: coarse)").matches ? "tap again to stop" : "Esc to stop";

/** Of what is followed, while the pointer is nowhere. */
function saidOfPins({ reads, read, rows, columns }, { row, column }) {
  const followed = [row >= 0 && calledPlace(reads, rows[row])];
  followed.push(column >= 0 && `the tokens that read ${calledPlace(read, columns[column])}`);
  return `Following ${followed.filter(Boolean).join(" and ")}; ${TO_STOP}`;
}

/** What a row reads of tokens that are not shown. */
function saidOfLeftOut({ head, cells, leftOut }, row) {
  if (leftOut.length === 0) return "";
  let sum = 0;
  for (const column of leftOut) sum += cells.weight(row, column) || 0;
  const share = numberText(sum, { share: heads[head].share });
  return `${share} goes to special tokens, which are not shown`;
}
