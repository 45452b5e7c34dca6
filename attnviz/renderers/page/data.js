// The numbers of a page: heads, their tokens, and the cells of a head, unpacked when first wanted.

const data = JSON.parse(document.getElementById("data").textContent);
const attention = data.attention;
const heads = attention.heads ?? [];

/** The tokens on both sides of a head: who reads, and what is read. */
const readers = (head) => attention.sides[heads[head].reads];
const readTokens = (head) => attention.sides[heads[head].read];

/** Whether white space stands before a token, and whether a tokenizer added it. */
const isSpaced = (side, place) => side.spaced[place] ?? place > 0;
const isSpecial = (side, place) => side.special[place] ?? false;

/** Cells of a head: row by row, NaN where a mask hides. */
const unpackedCells = new Map();

function cellsOf(head) {
  if (!unpackedCells.has(head)) unpackedCells.set(head, unpackHead(head));
  return unpackedCells.get(head);
}

async function unpackHead(head) {
  const { weights, scores } = heads[head];
  const [rows, columns] = [readers(head).labels.length, readTokens(head).labels.length];
  const cells = {
    rows,
    columns,
    error: weights.error,
    weights: await unpacked(`weights-${head}`, weights, rows, columns),
    scores: scores ? await unpacked(`scores-${head}`, scores, rows, columns) : null,
  };
  cells.weight = (row, column) => cells.weights[row * columns + column];
  cells.score = (row, column) => (cells.scores ? cells.scores[row * columns + column] : NaN);
  cells.hides = (row, column) => Number.isNaN(cells.weight(row, column));
  cells.largest = largestOf(cells.weights);
  return cells;
}

function largestOf(numbers) {
  let largest = 0;
  for (const number of numbers) if (Math.abs(number) > largest) largest = Math.abs(number);
  return largest;
}

/** The numbers of a block: what each row reaches, what is hidden, and a code for each cell. */
async function unpacked(name, about, rows, columns) {
  const bytes = await inflated(document.getElementById(name).textContent);
  const reach = new Float32Array(bytes, 0, rows);
  const bits = about.mask === null ? Math.ceil((rows * columns) / 8) : 0;
  const seen = seenBy(about.mask, new Uint8Array(bytes, 4 * rows, bits), columns);
  const codes = codesOf(bytes.slice(4 * rows + bits), about);
  const numbers = new Float32Array(rows * columns).fill(NaN);
  for (let row = 0, next = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (seen(row, column)) {
        numbers[row * columns + column] = numberOf(codes[next++], reach[row], about);
      }
    }
  }
  return numbers;
}

function seenBy(mask, bits, columns) {
  if (mask !== null) return (row, column) => column <= row + mask;
  return (row, column) => {
    const place = row * columns + column;
    return (bits[place >> 3] >> (place & 7)) & 1;
  };
}

function codesOf(bytes, { bits, signed }) {
  if (bits === 32) return new Float32Array(bytes);
  if (bits === 16) return signed ? new Int16Array(bytes) : new Uint16Array(bytes);
  return signed ? new Int8Array(bytes) : new Uint8Array(bytes);
}

/** A code is the root of a number's share of what its row reaches. */
function numberOf(code, reach, { bits, signed }) {
  if (bits === 32) return code;
  const share = code / (2 ** (bits - (signed ? 1 : 0)) - 1);
  return Math.sign(share) * share * share * reach;
}

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
