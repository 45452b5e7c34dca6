// GPT-2's tokens of a typed text: the most frequent pieces are in the page.

/* Bytes are written as letters of a string, one each, so that they can be looked up. */

const pieces = { ids: new Map(), rare: null, words: {} };

/** Bytes that can be printed come first, as in GPT-2's vocabulary. */
function singleBytes() {
  const isPrinted = (byte) =>
    (byte > 32 && byte < 127) || (byte > 160 && byte < 256 && byte !== 173);
  const all = [...Array(256).keys()];
  return [...all.filter(isPrinted), ...all.filter((byte) => !isPrinted(byte))];
}

const lettersOfBytes = (bytes) => String.fromCharCode(...bytes);

const BETWEEN_PIECES = "\u00fe"; // a byte that no UTF-8 has

async function unpackPieces({ count, words }) {
  const [merged, rare] = await Promise.all(["pieces", "rare-pieces"].map(inflated));
  const all = singleBytes().map((byte) => String.fromCharCode(byte));
  const bytes = new Uint8Array(merged);
  let text = "";
  for (let start = 0; start < bytes.length; start += 2 ** 14) {
    text += lettersOfBytes(bytes.subarray(start, start + 2 ** 14));
  }
  all.push(...text.split(BETWEEN_PIECES));
  all.forEach((piece, id) => pieces.ids.set(piece, id));
  Object.assign(pieces, { rare: new Uint8Array(rare), words, count });
}

const FNV_PRIME = 16777619;
const FNV_STARTS = [2166136261, 2538058380];
const RARE_HASHES = 5; // as in tokens/gpt2.py

/** Whether a piece is one of the rare ones: of others one in 45 seems to be, too. */
function isRarePiece(piece) {
  if (pieces.rare.length === 0) return false; // the page has all of them
  const [one, other] = FNV_STARTS.map((start) =>
    [...piece].reduce((hash, letter) =>
      Math.imul(hash ^ letter.charCodeAt(0), FNV_PRIME) >>> 0, start));
  const places = Array.from({ length: RARE_HASHES }, (_, time) =>
    (one + time * other) % (8 * pieces.rare.length));
  return places.every((place) => (pieces.rare[place >> 3] >> (place & 7)) & 1);
}

const GPT2_SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const GPT2_WORD = new RegExp(
  `'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^${GPT2_SPACE}\\p{L}\\p{N}]+` +
  `|[${GPT2_SPACE}]+(?![^${GPT2_SPACE}])|[${GPT2_SPACE}]+`, "gu");

/** The pieces of a text, or the first word whose pieces are not all in the page. */
function cutIntoPieces(text) {
  const cut = { labels: [], ids: [], spaced: [] };
  for (const [word] of text.matchAll(GPT2_WORD)) {
    const found = lookUp(pieces.words, word) ?? piecesOfWord(word);
    if (found === null) return { problem: rareWord(word.trim()) };
    for (const [piece, id] of found) {
      const bytes = Uint8Array.from(piece, (letter) => letter.charCodeAt(0));
      cut.labels.push(labelOfPiece(bytes));
      cut.ids.push(id);
      cut.spaced.push(/^[\t-\r ]/.test(piece));
    }
  }
  return cut;
}

/** [piece, id] by byte-pair encoding: the most frequent pair is joined first. */
function piecesOfWord(word) {
  const parts = [...lettersOfBytes(bytesOfText(word))];
  for (;;) {
    const ids = parts.slice(1).map((part, place) =>
      pieces.ids.get(parts[place] + part) ?? Infinity);
    const least = Math.min(...ids);
    if (least === Infinity) break;
    const place = ids.indexOf(least);
    parts.splice(place, 2, parts[place] + parts[place + 1]);
  }
  const isCut = parts.slice(1).some((part, place) => isRarePiece(parts[place] + part));
  return isCut ? null : parts.map((part) => [part, pieces.ids.get(part)]);
}

const rareWord = (word) =>
  `“${shortened(word)}” may have a rare piece: this page has the ${grouped(pieces.count)} ` +
  "most frequent of GPT-2's 50,257. Try another word.";
