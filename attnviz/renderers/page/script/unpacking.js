// Unpacks tables of numbers: base64, deflate, and the number of each code.

/** A table: its numbers row by row, NaN where they are hidden. */
async function unpackedTable(name) {
  const about = attention.tables[name];
  const [bytes, bits] = await Promise.all([
    inflated(name),
    about.mask === null ? null : maskOf(about.mask),
  ]);
  const most = about.bits < 32 ? 2 ** (about.bits - (about.signed ? 1 : 0)) - 1 : 0;
  const sums = about.slack !== null;
  const before = most ? (sums ? 8 : 4) * about.rows : 0;
  const table = {
    ...about,
    most, // 0: numbers are there as they are
    reach: most ? new Float32Array(bytes, 0, about.rows) : null,
    sums: sums ? new Float32Array(bytes, 4 * about.rows, about.rows) : null,
    hides: (place) => bits !== null && !((bits[place >> 3] >> (place & 7)) & 1),
  };
  const numbers = numbersIn(codesIn(bytes, before, about), bits, table);
  return { ...table, numbers, peaks: most ? peaksIn(numbers, table) : null };
}

/** The one number of each row that is all that the row reaches, so that no code is needed to
 *  tell it; -1 where several have its code. */
function peaksIn(numbers, { rows, columns, reach }) {
  const peaks = new Int32Array(rows).fill(-1);
  for (let row = 0, place = 0; row < rows; row++) {
    let count = 0;
    for (const end = place + columns; place < end; place++) {
      if (Math.abs(numbers[place]) < reach[row] || numbers[place] !== numbers[place]) continue;
      peaks[row] = place;
      count++;
    }
    if (count !== 1) peaks[row] = -1;
  }
  return peaks;
}

/** What is hidden is the same in many tables: a bit for each cell that is not. */
const masks = new Map();

function maskOf(number) {
  const bits = () => inflated(`mask-${number}`).then((bytes) => new Uint8Array(bytes));
  const mask = masks.get(number) ?? bits();
  masks.set(number, mask);
  return mask;
}

function codesIn(bytes, start, { bits, signed }) {
  const kinds = { 16: signed ? Int16Array : Uint16Array, 32: Float32Array, 64: Float64Array };
  const Codes = kinds[bits] ?? (signed ? Int8Array : Uint8Array);
  return new Codes(start % Codes.BYTES_PER_ELEMENT ? bytes.slice(start) : bytes, start);
}

function numbersIn(codes, bits, table) {
  const { rows, columns, reach, most } = table;
  const Numbers = table.bits === 64 ? Float64Array : Float32Array;
  if (bits === null && !most) return codes;
  const numbers = new Numbers(rows * columns);
  for (let row = 0, place = 0, next = 0; row < rows; row++) {
    const scale = most ? reach[row] / most ** 2 : 0;
    for (const end = place + columns; place < end; place++) {
      if (bits !== null && !((bits[place >> 3] >> (place & 7)) & 1)) numbers[place] = NaN;
      else numbers[place] = most ? numberOf(codes[next++], scale) : codes[next++];
    }
  }
  return numbers;
}

/** A code is the root of a number's share of what its row reaches, with its sign. */
const numberOf = (code, scale) => Math.abs(code) * code * scale;

/** The bytes of a block. Its text is let go: it is larger, and never looked at again. */
const deflatedBlocks = new Map();

async function inflated(name) {
  if (!deflatedBlocks.has(name)) {
    const block = document.getElementById(name);
    deflatedBlocks.set(name, new Blob([bytesOf(block.textContent)]));
    block.textContent = "";
  }
  const stream = deflatedBlocks.get(name).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}
