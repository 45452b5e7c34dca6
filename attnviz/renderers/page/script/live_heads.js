// Heads of a typed text, computed by the page's model, in place of the page's own.

const live = {
  model: null, // its tensors are unpacked,
  moments: [], // the same model at each moment of its training, the last being `model`
  cut: null, // the tokens of what is typed,
  results: [], // what the model makes of them, at each moment,
  original: null, // and what it made of the text of the page
  isOriginal: true, // whether the page's own text and settings are chosen
  typed: null, // the last text of the field that could be computed
  lostCell: null, // the cell whose arithmetic was open until its tokens were deleted
  stored: null, // the sides and scales of the page
};
const LIVE_NAMES = ["text", "scaled", "causal", "placed", "temperature", "off"];

/** As the page opens: the text and the settings of the run that made it. */
function startingChoices() {
  const { text, scaled, causal, temperature, off } = data.live;
  return { text, scaled, causal, placed: true, temperature, off, walk: null, offBefore: null };
}

/** The model is unpacked before anything is read from the address, which may name a text. */
async function unpackModel() {
  const { tensors, vocabulary } = data.live;
  const numbers = await unpackTensors("model", data.live.exact ? 4 : 3, tensors);
  if (data.live.pieces) await unpackPieces(data.live.pieces);
  live.model = { ...data.live, tensors: numbers, idOf: vocabulary && idsOfWords(vocabulary) };
  const before = data.live.moments.map(async (exponents, number) => {
    const own = tensors.map((each, place) => ({ ...each, exponent: exponents[place] }));
    const numbers = await unpackTensors(`moment-${number}`, data.live.momentBytes, own);
    return { ...live.model, tensors: numbers };
  });
  live.moments = [...(await Promise.all(before)), live.model];
  live.stored = {
    sides: attention.sides,
    scales: attention.scales,
    about: heads.map(({ name, off, small }) => ({ name, off, small })),
  };
  live.cut = cutLive(data.live.text);
  live.original = { cut: live.cut, results: computeMoments() };
  restoreHeads();
}

const computeMoments = () =>
  live.moments.map((model) => computeModel(model, live.cut.ids, choicesNow()));

const momentNow = () => data.live.places[state.head][0];
const probabilitiesNow = () => live.results[momentNow()].probabilities;

/** All high bytes of the numbers, then the next ones: of floats, or of multiples of a power. */
async function unpackTensors(name, size, tensors) {
  const bytes = new Uint8Array(await inflated(name));
  const count = bytes.length / size;
  const floats = size === 4 ? floatsOfPlanes(bytes, count) : null;
  let place = 0;
  return Object.fromEntries(tensors.map(({ name, rows, columns, exponent }) => {
    const numbers = Float64Array.from({ length: rows * columns }, () => {
      if (floats) return floats[place++];
      let code = (bytes[place] << 24) >> 24; // with its sign
      for (let low = 1; low < size; low++) code = (code << 8) | bytes[low * count + place];
      place++;
      return code * 2 ** exponent;
    });
    return [name, { rows, columns, numbers }];
  }));
}

function floatsOfPlanes(bytes, count) {
  const joined = Uint8Array.from({ length: 4 * count }, (_, place) =>
    bytes[(3 - (place % 4)) * count + (place >> 2)]);
  return new Float32Array(joined.buffer);
}

/** The tokens of a text; or the problem, where the model cannot read it. */
function cutLive(text) {
  const { mostTokens, vocabulary, tokenizer, tensors, blanks } = live.model;
  if (text.trim() === "") return { problem: "Type a sentence." };
  const cut = vocabulary ? cutForModel(text, live.model) : CUTS[tokenizer](text);
  if (cut.problem) return cut;
  const most = Math.min(mostTokens, tensors.positions?.rows ?? mostTokens);
  const count = cut.ids.length;
  const labels = cut.labels.map((label, place) => blanks[cut.ids[place]] ?? label);
  if (count <= most) return { ...cut, labels, words: cut.labels };
  return { problem: `This is ${count} tokens, and there is room for ${most}.` };
}

/** The tokens of a text as heads have them. */
function sideOfText(text) {
  const [first] = live.stored.sides;
  if (text === data.live.text) return first;
  const { labels, spaced } = text === state.text ? live.cut : cutLive(text);
  const numbers = labels.map((_, place) => String(place + 1));
  return { ...first, labels, numbers, spaced, special: [], border: null };
}

const choicesNow = () => {
  const { scaled, causal, placed, temperature } = state;
  const off = new Map(state.off.map((name) => [...name.split("="), "zero"].slice(0, 2)));
  return { scaled, causal, placed, temperature, off };
};

/** Whatever is chosen now is computed, and stands in place of the heads of the page. */
function computeLive() {
  live.isOriginal = LIVE_NAMES.every((name) => same(state[name], startingState[name]));
  live.cut = live.isOriginal ? live.original.cut : cutLive(state.text);
  computedCells.clear();
  computedVectors.clear();
  if (live.isOriginal) return restoreHeads();
  live.results = computeMoments();
  const side = sideOfText(state.text);
  attention.sides = attention.sides.map(() => side);
  data.live.places.forEach((place, head) => {
    const [, layer, number] = place;
    putComputedHead(head, resultAt(place));
    heads[head].name = data.live.names[head] ?? heads[head].name;
    heads[head].off = choicesNow().off.has(nameOfPlace(layer, number));
  });
  const scale = scaleOfWeights([...computedCells.values()]);
  attention.scales = live.stored.scales.map((each) => ({ ...each, ...scale }));
}

function restoreHeads() {
  live.results = live.original.results;
  data.live.places.forEach((place, head) => putVectors(head, resultAt(place)));
  Object.assign(attention, { sides: live.stored.sides, scales: live.stored.scales });
  heads.forEach((head, place) => Object.assign(head, live.stored.about[place]));
}

const resultAt = ([moment, layer, number]) => live.results[moment].heads[layer][number];

const nameOfPlace = (layer, number) => `L${layer}H${number}`;

/** The weights of a computed head, NaN where hidden, and its scores. */
function cellsOfComputed({ scores, weights }) {
  const shown = weights.map((row, query) =>
    row.map((weight, key) => (Number.isNaN(scores[query][key]) ? NaN : weight)));
  return wholeOf(computedTable(shown), computedTable(scores));
}

function putComputedHead(head, computed) {
  computedCells.set(head, cellsOfComputed(computed));
  putVectors(head, computed);
  heads[head].small = [computed.weights.length, computed.weights.length];
}

function putVectors(head, computed) {
  if (live.model.compared) computedVectors.set(head, vectorsOfComputed(computed));
}

/** What makes the scores of a computed head, as `vectorsOf` returns it. */
function vectorsOfComputed({ queries, keys, values, scale, slope, sight, scoring }) {
  const { width, softCap } = live.model;
  const { scaled, temperature } = state;
  const flat = (rows) => Float64Array.from(rows.flatMap((row) => [...row]));
  const divisors = [[scaled, `√${width}`], [temperature !== 1, String(temperature)]]
    .filter(([divides]) => divides)
    .map(([, text]) => text);
  const hasBias = sight.itself || sight.near;
  return {
    queries: flat(queries),
    keys: flat(keys),
    values: flat(values),
    valueWidth: values[0].length,
    width,
    scale,
    divisors,
    scoreVector: scoring ?? [],
    softCap,
    slope: slope || null,
    terms: hasBias ? [{ name: "mask", at: (...pair) => scoreBias(0, sight, ...pair) }] : [],
  };
}

/** Exact numbers as a table, as blocks of bytes are unpacked into one. */
function computedTable(rows) {
  const numbers = Float64Array.from(rows.flatMap((row) => [...row]));
  return {
    rows: rows.length,
    columns: rows[0].length,
    numbers,
    hides: (place) => Number.isNaN(numbers[place]),
    mask: numbers.some(Number.isNaN) ? 0 : null,
    error: 0,
    most: 0,
    sums: null,
  };
}

const FULL_SCALE_KEYS = 16; // up to which colours run from 0 to 1, as in views/grids/scales.py
const STATED_SHARE = 0.98; // of the weights above 0; of more keys the scale ends there
const ROUND_ENDS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** As attnviz chooses it: from 0 to 1, or of many keys to a number that few weights exceed. */
function scaleOfWeights(cells) {
  const keys = cells[0].columns;
  const decades = Math.max(3, Math.ceil(Math.log10(10 * keys)));
  const endOf = ({ weights, largest }) =>
    keys <= FULL_SCALE_KEYS ? 1 : Math.min(statedMaximum(weights), Math.max(1, largest));
  const high = Math.max(...cells.map(endOf));
  const beyond = cells.some(({ largest }) => largest > high * (1 + 1e-6));
  return { low: 0, high, beyond, logLow: high / 10 ** decades };
}

function statedMaximum(weights) {
  const positive = [...weights].filter((each) => each > 0).sort((one, other) => one - other);
  if (positive.length === 0) return 1;
  const place = STATED_SHARE * (positive.length - 1);
  const [below, above] = [Math.floor(place), Math.ceil(place)].map((each) => positive[each]);
  const value = below + (above - below) * (place % 1);
  const power = 10 ** Math.floor(Math.log10(value));
  return ROUND_ENDS.find((step) => step * power >= value * (1 - 1e-9)) * power;
}

/* What is typed, in the address: a text that the model cannot read is none. */

const MAX_TEXT_LETTERS = 1000; // of a sentence, whether it is typed or in the address

/** A text as its field would have taken it: a link may be longer than what can be computed. */
const typeable = (text) => text.slice(0, MAX_TEXT_LETTERS);

/** The text stands first: tokens are of it. */
function liveAddress() {
  const isTemperature = (number) => number >= 1e-3 && number <= 1e3;
  return {
    text: {
      write: (text) => text,
      read: (text) => (cutLive(typeable(text)).problem ? undefined : typeable(text)),
    },
    scaled: switched,
    causal: switched,
    placed: switched,
    temperature: {
      write: String,
      read: (text) => (isTemperature(shareOf(text)) ? shareOf(text) : undefined),
    },
    off: { write: (names) => names.join(",") || NOTHING, read: headsNamed },
    walk: {
      write: (place) => (place === null ? NOTHING : String(place + 1)),
      read: (text) => (/^[1-9]$/.test(text) ? Number(text) - 1 : undefined),
    },
  };
}

/** What is followed in the page's own text may not be there in another. */
function placesWithin({ text, query, key }, isChosen) {
  const cut = cutLive(text);
  const count = cut.ids.length;
  if (text !== startingState.text && !isChosen) return { query: lastAsked(cut), key: null };
  return { query: query < count ? query : null, key: key < count ? key : null };
}

/** `L0H1,L1H0`, and `none`, where all heads are on though one is off as the page opens. */
function headsNamed(text) {
  const names = [...new Set(text === NOTHING ? [] : text.split(","))];
  const known = data.live.places.map(([, layer, number]) => nameOfPlace(layer, number));
  const isHead = (name) => known.includes(name.split("=")[0]) && /^\w+(=mean)?$/.test(name);
  return names.every(isHead) ? names.sort() : undefined;
}
