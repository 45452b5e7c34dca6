// Tokens of a typed text: how it is cut, the ids, and which words are not known.

/* A cut is { labels, ids, spaced }, as attnviz cuts; a text that cannot be cut is { problem }. */

// What attnviz calls a word: letters, marks, digits and what joins them, with apostrophes within.
const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+/uy;
const JOINED_WORD = new RegExp(`${WORD.source}(?:['’]${WORD.source})*`, "uy");
const BLANK = /\p{White_Space}/u;
const PYTHON_BLANK = /[\p{White_Space}\u001c-\u001f]/u; // of str.isspace
const ofGraphemes = new Intl.Segmenter();

/** Words, and single characters of all else: [piece, whether a space is before]. */
function cutIntoWords(text) {
  const parts = [];
  for (let place = 0; place < text.length; ) {
    JOINED_WORD.lastIndex = place;
    const [word] = JOINED_WORD.exec(text) ?? [""];
    const [first] = word ? [{ segment: word }] : ofGraphemes.segment(text.slice(place));
    const piece = word || first.segment;
    if (word || !BLANK.test(text[place])) {
      parts.push([piece, place > 0 && PYTHON_BLANK.test(text[place - 1])]);
      place += piece.length;
    } else place++;
  }
  return parts;
}

const cutAtBlanks = (text) =>
  [...text.matchAll(/\P{White_Space}+/gu)].map(({ 0: part, index }) => [part, index > 0]);

const bytesOfText = (text) => new TextEncoder().encode(text);

const wordId = (word) => {
  const [one, two, three, four] = hashedBytes(bytesOfText(word), 4);
  return ((one * 256 + two) * 256 + three) * 256 + four;
};

const cutOf = (parts, idOf) => ({
  labels: parts.map(([piece]) => labelOfPiece(bytesOfText(piece))),
  ids: parts.map(([piece]) => idOf(piece)),
  spaced: parts.map(([, spaced]) => spaced),
});

const CUTS = {
  words: (text, idOf = wordId) => cutOf(cutIntoWords(text), idOf),
  spaces: (text, idOf = wordId) => cutOf(cutAtBlanks(text), idOf),
  chars: (text) => cutOf([...text].map((each) => [each, false]), (each) => each.codePointAt(0)),
  bytes: (text) => {
    const bytes = [...bytesOfText(text)];
    const labels = bytes.map((byte) => labelOfPiece(Uint8Array.of(byte)));
    return { labels, ids: bytes, spaced: bytes.map(() => false) };
  },
  gpt2: (text) => cutIntoPieces(text),
};

const SIGNS_OF_BLANKS = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "\\r" };
const JOINERS = /[\u200d\ufe00-\ufe0f]/u;

/** What stands for a piece: nothing invisible, and no sign that changes what is beside it. */
function labelOfPiece(bytes) {
  const text = textOfBytes(bytes);
  const shown = text.startsWith(" ") && text.length > 1 ? text.slice(1) : text;
  const letters = [...shown].filter((letter, place) => place === 0 || !JOINERS.test(letter));
  const label = letters.map(visibleLetter).join("");
  return /^\p{M}/u.test(label) ? `◌${label}` : label;
}

function visibleLetter(letter) {
  if (lookUp(SIGNS_OF_BLANKS, letter)) return SIGNS_OF_BLANKS[letter];
  if (!/[\p{C}\p{Z}]/u.test(letter) && !JOINERS.test(letter)) return letter;
  const code = letter.codePointAt(0).toString(16);
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
}

/** UTF-8; bytes that are none are written as they are: ⟨e6⟩⟨97⟩. */
function textOfBytes(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return brokenText(bytes);
  }
}

/** The longest parts that are UTF-8, and between them single bytes. */
function brokenText(bytes) {
  for (let end = Math.min(4, bytes.length); end > 0; end--) {
    const letter = new TextDecoder().decode(bytes.subarray(0, end));
    if (![...letter].includes("\ufffd") && [...letter].length === 1) {
      return letter + (end < bytes.length ? textOfBytes(bytes.subarray(end)) : "");
    }
  }
  const byte = `⟨${bytes[0].toString(16).padStart(2, "0")}⟩`;
  return byte + (bytes.length > 1 ? textOfBytes(bytes.subarray(1)) : "");
}

/* The words of a model. */

/** The ids of words, and of their other spellings. */
function idsOfWords({ words, spelled }) {
  const ids = new Map(words.map((word, id) => [word, id]));
  for (const [spelling, word] of Object.entries(spelled)) ids.set(spelling, ids.get(word));
  return ids;
}

/** A text in the ids of a model's words; a word that it has only in small letters has theirs. */
function cutKnownText(text, tokenizer, ids) {
  const cut = CUTS[tokenizer](text, () => 0); // ids are those of the model's own words
  if (cut.problem) return cut;
  const known = cut.labels.map((label) => (ids.has(label) ? label : label.toLowerCase()));
  const unknown = known.findIndex((word) => !ids.has(word));
  if (unknown >= 0) {
    const word = cut.labels[unknown];
    return { unknown: word, problem: unknownWord(word, [...ids.keys()]) };
  }
  return { ...cut, ids: known.map((word) => ids.get(word)) };
}

/** Where a model is asked for an answer: at words that ask, or at all tokens. */
function askedPlaces({ that_ask: asking, predicts }, ids, idOf) {
  const places = [...ids.keys()];
  if (asking.length === 0) return places;
  const askingIds = asking.map((word) => idOf.get(word));
  const asked = places.filter((place) => askingIds.includes(ids[place]));
  if (asked.length === 0 || predicts !== "next") return asked;
  const [count] = asked; // of what comes before: once all of it is there again, nothing follows
  const inOrder = (some) => JSON.stringify([...some].sort());
  const isComplete = inOrder(ids.slice(0, count)) === inOrder(ids.slice(count + 1, 2 * count + 1));
  return places.slice(count, count > 0 && isComplete ? 2 * count : undefined);
}

/** A text as the model takes it: `->` is an arrow, with a word that asks, where none does. */
function cutForModel(typed, { tokenizer, vocabulary, idOf }) {
  const text = idOf.has("→") ? typed.replaceAll("->", "→") : typed;
  const cut = cutKnownText(text, tokenizer, idOf);
  if (cut.problem || !vocabulary.asks) return cut;
  const asks = askedPlaces(vocabulary, cut.ids, idOf).length > 0;
  return asks ? cut : cutKnownText(`${text} ${vocabulary.asks}`, tokenizer, idOf);
}

const FEW_WORDS = 12;
const LONGEST_NEAR_WORD = 40;

const MOST_NEAR_WORDS = 3;

const shortened = (text, most = 24) => {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
};

/** `This model does not know “hous”. Did you mean “house”, “houses”?` */
function unknownWord(word, words) {
  const listed = (some) => some.map((each) => `“${each}”`).join(", ");
  const start = `This model does not know “${shortened(word)}”.`;
  const letters = [...word];
  if (letters.length > 1 && letters.every((each) => words.includes(each))) {
    return `${start} Put spaces between: “${shortened(letters.join(" "))}”.`;
  }
  if (words.length <= FEW_WORDS) return `${start} It knows ${listed(words)}.`;
  const near = [...new Set([...wordsBeginning(word, words), ...wordsNear(word, words)])];
  if (near.length === 0) return `${start} Nor any word like it: see the list of those it knows.`;
  return `${start} Did you mean ${listed(near.slice(0, MOST_NEAR_WORDS))}?`;
}

const wordsBeginning = (word, words) =>
  words.filter((each) => each.toLowerCase().startsWith(word.toLowerCase()));

/** Words that are an edit or two away from a word, the nearest first; none of a single letter. */
function wordsNear(word, words) {
  const most = word.length < 5 ? 1 : 2;
  if (word.length < 2 || word.length > LONGEST_NEAR_WORD) return [];
  return words
    .filter((each) => each.length > 1)
    .map((each) => [editsBetween(word.toLowerCase(), each.toLowerCase()), each])
    .filter(([edits]) => edits <= most)
    .sort(([one], [other]) => one - other)
    .map(([, each]) => each);
}

/** How many letters have to be put in, left out or changed. */
function editsBetween(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, place) => place);
  for (let above = 1; above <= one.length; above++) {
    const next = [above];
    for (let place = 1; place <= other.length; place++) {
      const changed = row[place - 1] + (one[above - 1] === other[place - 1] ? 0 : 1);
      next.push(Math.min(changed, row[place] + 1, next[place - 1] + 1));
    }
    row = next;
  }
  return row.at(-1);
}
