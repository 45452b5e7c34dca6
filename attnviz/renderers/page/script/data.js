// The numbers of a page: heads, their tokens, and the cells of a head.

const data = JSON.parse(document.getElementById("data").textContent);
const attention = data.attention;
const heads = attention.heads ?? [];

/** Those that can be chosen; others stand beside one of them, as a head on either sentence. */
const choosable = [...heads.keys()].filter((head) => heads[head].place !== null);
const arePaired = choosable.some((head) => heads[head].pair !== null);

/** The tokens on both sides of a head: who reads, and what is read. */
const readers = (head) => attention.sides[heads[head].reads];
const readTokens = (head) => attention.sides[heads[head].read];

/** What colours stand for: one scale for all heads whose numbers have the same name. */
const scaleOf = (head) => attention.scales[heads[head].scale];
const rowScaleOf = (head) => attention.rowScales[heads[head].scale]; // of cells.row(query)
const thumbnailScaleOf = (head) => attention.smallScales[heads[head].scale];

/** How to read a head: what holds for all of them, and what for this one alone. */
const noteOf = (head) => [attention.note, heads[head].note].filter(Boolean).join(" · ");

/** Whether white space stands before a token, and whether a tokenizer added it. */
const isSpaced = (side, place) => side.spaced[place] ?? place > 0;
const isSpecial = (side, place) => side.special[place] ?? false;

/** Heads of a page that computes: of another text than its own, or with other settings. */
const isLive = Boolean(data.live);
const computedCells = new Map();
const computedVectors = new Map(); // as `vectorsOf` returns them

/** Heads that are unpacked; those that were not looked at for longest are forgotten. */
const unpackedHeads = new Map();
const MOST_CELLS = 2 ** 24;

function cellsOf(head) {
  if (computedCells.has(head)) return computedCells.get(head);
  const cells = unpackedHeads.get(head) ?? unpackHead(head);
  unpackedHeads.delete(head);
  unpackedHeads.set(head, cells);
  forgetHeads();
  return cells;
}

function forgetHeads() {
  const size = (head) => namesOf(head).reduce((sum, name) => sum + sizeOf(name), 0);
  let cells = [...unpackedHeads.keys()].reduce((sum, head) => sum + size(head), 0);
  for (const head of [...unpackedHeads.keys()].slice(0, -2)) {
    if (cells <= MOST_CELLS) return;
    unpackedHeads.delete(head);
    cells -= size(head);
  }
}

const namesOf = (head) => {
  const kept = (heads[head].kept ?? []).map((_, number) => `kept${number}`);
  const kinds = ["weights", "scores", ...kept];
  return kinds.map((kind) => `${kind}-${head}`).filter((name) => name in attention.tables);
};

const sizeOf = (name) => attention.tables[name].rows * attention.tables[name].columns;

async function unpackHead(head) {
  const names = namesOf(head);
  const tables = await Promise.all(names.map(unpackedTable));
  const named = Object.fromEntries(names.map((name, place) => [name.split("-")[0], tables[place]]));
  const kept = tables.filter((_, place) => names[place].startsWith("kept"));
  const { tall = 1, wide = 1 } = heads[head];
  return heads[head].kept
    ? blocksOf(named.weights, tall, wide, heads[head].kept, kept, readers(head).labels.length)
    : wholeOf(named.weights, named.scores ?? null);
}

/** Cells of a head whose every number is there: a cell for each pair of tokens. */
function wholeOf(table, scores) {
  return {
    ...cellsIn(table),
    tall: 1,
    wide: 1,
    token: (row) => row,
    hasScores: scores !== null || table.sums !== null,
    score: (row, column) => knownScoreOf(scoreIn(table, scores, row, column)),
    at: (query, key) => numbersAt(table, scores, query, key),
    row: (query) => rowIn(table, query),
    column: (key) =>
      Float64Array.from(
        { length: table.rows }, (_, row) => table.numbers[row * table.columns + key],
      ),
  };
}

const isWithin = (number, count) => Number.isInteger(number) && number >= 0 && number < count;

/** Of the tokens of a block the first whose row is there; the first of all where none is. */
function tokenOfBlock(start, end, kept) {
  const nextOf = ({ first, step, count }) => {
    const number = Math.max(0, Math.ceil((start - first) / step));
    return number < count ? first + number * step : end;
  };
  const token = Math.min(...kept.map(nextOf));
  return token < end ? token : start;
}

/** Cells of a head that stand for blocks of tokens; and rows of it, token by token. */
function blocksOf(table, tall, wide, kept, tables, high) {
  const find = (query) => {
    const steps = kept.map(({ first, step }) => (query - first) / step);
    const found = kept.findIndex(({ count }, place) => isWithin(steps[place], count));
    return found < 0 ? null : [tables[found], steps[found]];
  };
  return {
    ...cellsIn(table),
    tall,
    wide,
    token: (row) => tokenOfBlock(row * tall, Math.min((row + 1) * tall, high), kept),
    hasScores: tables.some(({ sums }) => sums !== null),
    score: () => NaN,
    at: (query, key) => {
      const row = find(query);
      if (row) return numbersAt(row[0], null, row[1], key);
      const block = numbersAt(table, null, Math.floor(query / tall), Math.floor(key / wide));
      return { ...block, blocks: true };
    },
    row: (query) => {
      const row = find(query);
      return row && rowIn(...row);
    },
    column: () => null,
  };
}

/** What there is to say of any table: row and column count its cells. */
function cellsIn(table) {
  const { rows, columns, numbers, error } = table;
  return {
    rows,
    columns,
    error,
    isMasked: table.mask !== null,
    weights: numbers,
    weight: (row, column) => numbers[row * columns + column],
    hides: (row, column) => table.hides(row * columns + column),
    errorOf: (row, column) => errorIn(table, row, row * columns + column),
    largest: largestOf(numbers),
  };
}

function largestOf(numbers) {
  let largest = 0;
  for (const number of numbers) if (Math.abs(number) > largest) largest = Math.abs(number);
  return largest;
}

const rowIn = ({ numbers, columns }, row) => numbers.subarray(row * columns, (row + 1) * columns);

/** All that there is to say of one cell, and how far it may be from what it stands for. */
function numbersAt(table, scores, row, column) {
  const place = row * table.columns + column;
  return {
    weight: table.numbers[place],
    hidden: Boolean(table.hides(place)),
    error: errorIn(table, row, place),
    blocks: false,
    ...scoreIn(table, scores, row, column),
  };
}

/** How far a number may be from the one that it stands for. */
function errorIn(table, row, place) {
  if (!table.most) return 0;
  const rounded = Math.abs(table.numbers[place]) * 2 ** -23;
  return place === table.peaks[row] ? rounded : Math.min(halfAStep(table, row, place), table.error);
}

/** Of 32 bits: a root is off by 2.5 units in its last place, its square by 5, a number by one. */
const ROUNDED = 2 ** -21;

/** To where the next code begins; rounded up, for whoever wrote the code rounded on the way. */
function halfAStep(table, row, place) {
  const step = (table.reach[row] * (codeAt(table, row, place) + 0.25)) / table.most ** 2;
  return (step + Math.abs(table.numbers[place]) * ROUNDED) * (1 + ROUNDED);
}

/** NaN where there is none, and where all that is known is how high it is at most. */
const knownScoreOf = ({ score, scoreIsBelow }) => (scoreIsBelow ? NaN : (score ?? NaN));

/** A score as it is; or as its weight tells it: its logarithm, and a number for each row. */
function scoreIn(table, scores, row, column) {
  const place = row * table.columns + column;
  const exact = { scoreError: 0, scoreIsBelow: false };
  if (scores) return { score: scores.hides(place) ? null : scores.numbers[place], ...exact };
  if (table.sums === null || table.hides(place)) return { score: null, ...exact };
  const code = codeAt(table, row, place);
  const least = table.reach[row] * (0.5 / table.most) ** 2;
  const score = Math.log(code ? table.numbers[place] : least) + table.sums[row];
  const isPeak = place === table.peaks[row];
  const scoreError = (code && !isPeak ? 2 * Math.log(code / (code - 0.5)) : 0) + table.slack;
  return { score, scoreError, scoreIsBelow: code === 0 };
}

const codeAt = ({ numbers, reach, most }, row, place) =>
  reach[row] ? Math.round(Math.sqrt(Math.abs(numbers[place]) / reach[row]) * most) : 0;

const storedVectors = new Map();

const hasVectors = (head) => computedVectors.has(head) || Boolean(heads[head].vectors);

/** The queries, keys and values of a head, row by row, and what makes scores of their products;
 *  null where a page has none. */
function vectorsOf(head) {
  if (computedVectors.has(head)) return computedVectors.get(head);
  if (!hasVectors(head)) return null;
  if (!storedVectors.has(head)) storedVectors.set(head, unpackedVectors(heads[head].vectors));
  return storedVectors.get(head);
}

async function unpackedVectors(about) {
  const { terms = [], mistake } = about;
  const names = [about.queries, about.keys, ...terms.map(({ table }) => table)];
  const [queries, keys, ...added] = await Promise.all(names.map(unpackedTable));
  const [inputs, values] = await Promise.all(
    [mistake?.table, about.values].map((table) => table && unpackedTable(table)));
  return {
    ...about,
    queries: queries.numbers,
    keys: keys.numbers,
    width: queries.columns,
    values: values?.numbers,
    valueWidth: values?.columns,
    mistake: mistake && { ...mistake, at: (query, key) => inputOf(inputs, query, key) },
    terms: added.map(({ numbers, columns }, place) => ({
      name: terms[place].name,
      at: (query, key) => numbers[query * columns + key],
    })),
    exactness: attention.exactness,
  };
}

const inputOf = ({ numbers, columns, hides }, query, key) =>
  hides(query * columns + key) ? -Infinity : numbers[query * columns + key];

/** Every head in few cells. */
let smallHeads = null;

function thumbnails() {
  if (computedCells.size > 0) return heads.map((_, head) => smallComputed(head));
  smallHeads ??= unpackedTable("thumbnails").then((table) =>
    heads.map(({ small: [rows, columns] }, head) => {
      const values = rowIn(table, head).slice(0, rows * columns);
      return { rows, columns, values, hidden: Uint8Array.from(values, Number.isNaN) };
    }),
  );
  return smallHeads;
}

function smallComputed(head) {
  const { rows, columns, weights } = computedCells.get(head);
  return { rows, columns, values: weights, hidden: Uint8Array.from(weights, Number.isNaN) };
}
