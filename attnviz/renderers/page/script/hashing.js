// BLAKE2b (RFC 7693), by which words without a vocabulary get their ids.

const BLAKE_START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const BLAKE_ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8",
  "905724afe1bc683d", "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a",
  "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((order) => Array.from(order, (digit) => parseInt(digit, 16)));
const BLAKE_QUARTERS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];
const BLAKE_ROUNDS = 12;
const BLAKE_BLOCK = 128; // bytes

const turnedRight = (bits, by) => wrapped((bits >> by) | (bits << (64n - by)));

function mixQuarter(mixed, [a, b, c, d], one, other) {
  for (const [word, first, second] of [[one, 32n, 24n], [other, 16n, 63n]]) {
    mixed[a] = wrapped(mixed[a] + mixed[b] + word);
    mixed[d] = turnedRight(mixed[d] ^ mixed[a], first);
    mixed[c] = wrapped(mixed[c] + mixed[d]);
    mixed[b] = turnedRight(mixed[b] ^ mixed[c], second);
  }
}

/** The state after one block more, of which so many bytes have come in all. */
function afterBlock(state, words, count, isLast) {
  const mixed = [...state, ...BLAKE_START];
  mixed[12] ^= BigInt(count);
  if (isLast) mixed[14] ^= 0xffffffffffffffffn;
  for (let round = 0; round < BLAKE_ROUNDS; round++) {
    const order = BLAKE_ORDERS[round % BLAKE_ORDERS.length];
    BLAKE_QUARTERS.forEach((quarter, place) =>
      mixQuarter(mixed, quarter, words[order[2 * place]], words[order[2 * place + 1]]));
  }
  return state.map((each, place) => each ^ mixed[place] ^ mixed[place + 8]);
}

/** The first bytes of a hash of so many bytes, at most eight. */
function hashedBytes(bytes, size) {
  let state = BLAKE_START.map((each, place) => (place ? each : each ^ BigInt(0x01010000 + size)));
  const blocks = Math.max(1, Math.ceil(bytes.length / BLAKE_BLOCK));
  const padded = new Uint8Array(blocks * BLAKE_BLOCK);
  padded.set(bytes);
  const words = new BigUint64Array(padded.buffer);
  for (let block = 0; block < blocks; block++) {
    const end = Math.min((block + 1) * BLAKE_BLOCK, bytes.length);
    const part = words.subarray((block * BLAKE_BLOCK) / 8, ((block + 1) * BLAKE_BLOCK) / 8);
    state = afterBlock(state, part, end, block === blocks - 1);
  }
  return [...new Uint8Array(BigUint64Array.of(state[0]).buffer).subarray(0, size)];
}
