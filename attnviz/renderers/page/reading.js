// What a cell says, in words: who reads whom, how much of him, and by which score.

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

/** `it (12)`, which does not turn round what stands beside it, whatever it is written in. */
function calledPlace(side, place) {
  const [name, number] = [blockName(side, place), numberName(side, place)];
  if (!name) return number.includes("–") ? `tokens ${number}` : `${side.counts} ${number}`;
  return number ? `\u2068${name}\u2069 (${number})` : `\u2068${name}\u2069`;
}

/** Who reads whom, and how much: two lines of words. */
function saidOfCell({ head, cells, reads, read }, row, column) {
  const [query, key] = [calledPlace(reads, row), calledPlace(read, column)];
  const verb = reads.size > 1 && blockName(reads, row) === "" ? "read" : "reads";
  const weight = cells.weight(row, column);
  if (Number.isNaN(weight)) return [`${query} cannot read ${key}`, "hidden by the mask"];
  const parts = [`${scaleOf(head).label} ${exactly(weight, cells.error, heads[head].share)}`];
  const score = cells.score(row, column);
  if (!Number.isNaN(score)) parts.push(`score ${numberText(score, { share: false })}`);
  return [`${query} ${verb} ${key}`, parts.join(", ")];
}

/** In four digits, or in as many as are known. */
function exactly(number, error, share) {
  const digits = error < 5e-5 ? 4 : 3;
  return `${error < 5e-5 ? "" : "about "}${numberText(number, { digits, share })}`;
}

/** A whole row or column, where the pointer is on its name. */
const saidOfRow = ({ reads }, row) => `${calledPlace(reads, row)}: the row of what it reads`;
const saidOfColumn = ({ read }, column) =>
  `${calledPlace(read, column)}: the column of who reads it`;

/** What a row reads of tokens that are not shown. */
function saidOfLeftOut({ head, cells, columns, left }, row) {
  if (left.columns.length === 0) return "";
  let sum = 0;
  for (const column of left.columns) sum += cells.weight(row, column) || 0;
  const amount = numberText(sum, { share: heads[head].share });
  return `of special tokens, which are left out, ${amount}`;
}
