// The forward pass of a small model: embeddings, positions, blocks, answers.

/* Tables of numbers are lists of rows; a matrix is { rows, columns, numbers }. Nothing here looks
   at the page: a model, the ids of its tokens and what is chosen come in, numbers go out. */

const NORM_EPSILON = 1e-5;

const zeroRow = (width) => Array(width).fill(0);

/** x W + b, of each row. */
function projectRows(inputs, { rows, columns, numbers }, bias) {
  return inputs.map((input) => {
    const output = bias ? Float64Array.from(bias.numbers) : new Float64Array(columns);
    for (let row = 0, place = 0; row < rows; row++) {
      const factor = input[row];
      for (let column = 0; column < columns; column++) output[column] += factor * numbers[place++];
    }
    return output;
  });
}

const addRows = (some, others) =>
  some.map((row, number) => row.map((each, place) => each + others[number][place]));

function dotProduct(one, other) {
  let sum = 0;
  for (let place = 0; place < one.length; place++) sum += one[place] * other[place];
  return sum;
}

/** Mean 0 and variance 1, times the gain plus the shift; those are 1 and 0 of drawn norms. */
function normedRows(rows, gain, shift) {
  return rows.map((row) => {
    const mean = row.reduce((sum, each) => sum + each, 0) / row.length;
    const variance = row.reduce((sum, each) => sum + (each - mean) ** 2, 0) / row.length;
    const scale = 1 / Math.sqrt(variance + NORM_EPSILON);
    return row.map((each, place) =>
      (each - mean) * scale * (gain?.numbers[place] ?? 1) + (shift?.numbers[place] ?? 0));
  });
}

/** The softmax of some scores; hidden ones are NaN, and get 0. */
function softmaxOf(scores) {
  const most = scores.reduce((high, each) => (each > high ? each : high), -Infinity);
  const powers = scores.map((each) => (Number.isNaN(each) ? 0 : Math.exp(each - most)));
  const sum = powers.reduce((all, each) => all + each, 0);
  return sum > 0 ? powers.map((each) => each / sum) : powers;
}

/* What is added to a token's vector for its position, or done to its queries and keys. */

const turnedBy = (place, pair, width, base) => place / base ** ((2 * pair) / width);

/** Sines and cosines, which alternate. */
const sinusoidalRow = (place, dim, base) =>
  Float64Array.from({ length: dim }, (_, number) => {
    const angle = turnedBy(place, number >> 1, dim, base);
    return number % 2 ? Math.cos(angle) : Math.sin(angle);
  });

function positionRows(model, count) {
  const { positions, dim, base, starts, tensors } = model;
  const places = [...Array(count).keys()];
  if (tensors.positions) return places.map((place) => rowOfMatrix(tensors.positions, place));
  if (positions === "sinusoidal") return places.map((place) => sinusoidalRow(place, dim, base));
  if (positions === "learned") return places.map((place) => drawnRow(starts.position, place, dim));
  return null;
}

const rowOfMatrix = ({ columns, numbers }, row) =>
  Float64Array.from(numbers.subarray(row * columns, (row + 1) * columns));

/** Each pair of numbers is turned by its angle: neighbours, or one of each half. */
function rotatedRows(rows, base, inHalves) {
  return rows.map((row, place) => {
    const turned = Float64Array.from(row);
    const half = row.length / 2;
    for (let pair = 0; pair < half; pair++) {
      const [first, second] = inHalves ? [pair, pair + half] : [2 * pair, 2 * pair + 1];
      const angle = turnedBy(place, pair, row.length, base);
      const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
      turned[first] = row[first] * cosine - row[second] * sine;
      turned[second] = row[first] * sine + row[second] * cosine;
    }
    return turned;
  });
}

/** What ALiBi subtracts for each token of distance, in each head. */
function alibiSlopes(heads) {
  const power = 2 ** Math.floor(Math.log2(heads));
  const between = Array.from({ length: heads - power }, (_, place) =>
    2 ** ((-4 * (2 * place + 1)) / power));
  return [...Array.from({ length: power }, (_, place) => 2 ** ((-8 * (place + 1)) / power)),
    ...between];
}

/* One head. */

const columnsOf = (rows, head, width) =>
  rows.map((row) => row.subarray(head * width, (head + 1) * width));

/** Whether a query may read a key: by the mask, and by what this head alone does not see. */
function canRead({ window }, choices, sight, query, key) {
  if (choices.causal && key > query) return false;
  if (window !== null && Math.abs(query - key) >= window) return false;
  if (sight.sees === "before" && key > query) return false;
  if (sight.sees === "after" && key < query) return false;
  return !(query === key && sight.itself === null);
}

/** What distance adds to a score. */
const scoreBias = (slope, sight, query, key) =>
  (query === key ? (sight.itself ?? 0) : 0) - (slope + sight.near) * Math.abs(query - key);

/** Bahdanau's score: w · tanh(query + key). */
const additiveScore = (query, key, weights) =>
  query.reduce((sum, each, place) => sum + weights[place] * Math.tanh(each + key[place]), 0);

const FULL_SIGHT = { sees: "all", itself: 0, near: 0 };

/** Scores as the softmax receives them, NaN where hidden; weights; and contexts. */
function attendHead(model, choices, { queries, keys, values, sight, slope, scoring }) {
  const { compared, softCap, width } = model;
  const scale = (choices.scaled ? 1 / Math.sqrt(width) : 1) / choices.temperature;
  const scoreOf = (query, key) => {
    if (!compared) return 0;
    const raw = scoring ? additiveScore(query, key, scoring) : dotProduct(query, key);
    return softCap === null ? raw * scale : softCap * Math.tanh((raw * scale) / softCap);
  };
  const scores = queries.map((query, row) => Float64Array.from(keys, (key, column) =>
    canRead(model, choices, sight, row, column)
      ? scoreOf(query, key) + scoreBias(slope, sight, row, column)
      : NaN));
  const weights = scores.map(softmaxOf);
  const contexts = mixedRows(weights, values);
  return { queries, keys, values, scale, slope, sight, scoring, scores, weights, contexts };
}

const mixedRows = (weights, values) =>
  weights.map((row) => {
    const mixed = new Float64Array(values[0].length);
    row.forEach((weight, key) => {
      values[key].forEach((value, place) => (mixed[place] += weight * value));
    });
    return mixed;
  });

/** The contexts of a head that is switched off: 0, or their mean. */
function withoutContexts(contexts, instead) {
  if (instead !== "mean") return contexts.map((row) => row.map(() => 0));
  const mean = contexts[0].map((_, place) =>
    contexts.reduce((sum, row) => sum + row[place], 0) / contexts.length);
  return contexts.map(() => mean);
}

/* Layers. */

/** The tensors of a layer, by their names in the first. */
const tensorsOfLayer = (tensors, layer) => (name) =>
  tensors[layer === 0 ? name : `layers.${layer}.${name}`];

/** All heads of a layer, and what comes of them: contexts, joined. */
function attendLayer(model, choices, inputs, layer) {
  const { heads, groups, projected, positions, base, width } = model;
  const tensor = tensorsOfLayer(model.tensors, layer);
  const [queries, keys, values] = ["query", "key", "value"].map((name) =>
    projected ? projectRows(inputs, tensor(`w_${name}`), tensor(`b_${name}`)) : inputs);
  const turns = choices.placed && positions.startsWith("rotary");
  const turned = (rows) => (turns ? rotatedRows(rows, base, positions === "rotary-halves") : rows);
  const valueWidth = values[0].length / groups;
  const slopes = positions === "alibi" && choices.placed ? alibiSlopes(heads) : zeroRow(heads);
  const attended = slopes.map((slope, head) => {
    const group = Math.floor((head * groups) / heads);
    return attendHead(model, choices, {
      queries: turned(columnsOf(queries, head, width)),
      keys: turned(columnsOf(keys, group, width)),
      values: columnsOf(values, group, valueWidth),
      sight: model.sights[layer]?.[head] ?? FULL_SIGHT,
      slope,
      scoring: tensor("w_score")?.numbers.subarray(head * width, (head + 1) * width),
    });
  });
  const contexts = attended.map((each, head) => {
    const instead = choices.off.get(`L${layer}H${head}`);
    return instead === undefined ? each.contexts : withoutContexts(each.contexts, instead);
  });
  const joined = inputs.map((_, row) => contexts.flatMap((each) => [...each[row]]));
  const out = tensor("w_out");
  return { attended, outputs: out ? projectRows(joined, out, tensor("b_out")) : joined };
}

/** 2/√π e^(−x²) times the sum of x (2x²)^n / (1 · 3 · 5 … 2n+1). */
function errorFunction(x) {
  if (Math.abs(x) > 5) return Math.sign(x);
  let [term, sum] = [x, x];
  for (let odd = 3; Math.abs(term) > 1e-17 * Math.abs(sum); odd += 2) {
    term *= (2 * x * x) / odd;
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => (x * (1 + errorFunction(x / Math.SQRT2))) / 2,
  "gelu-tanh": (x) => (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2,
};

/** x + f(x), with its norm before f, after the sum, or nowhere. */
function withResidual(model, inputs, [gain, shift], sublayer) {
  const before = model.norm === "pre" ? normedRows(inputs, gain, shift) : inputs;
  const added = addRows(inputs, sublayer(before));
  return model.norm === "post" ? normedRows(added, gain, shift) : added;
}

/** The outputs of a layer; its heads go into `heads`, and what comes into it into `inflows`. */
function computeLayer(model, choices, inputs, layer, { heads, inflows }) {
  const tensor = tensorsOfLayer(model.tensors, layer);
  inflows.push(inputs);
  const attend = (rows) => {
    const { attended, outputs } = attendLayer(model, choices, rows, layer);
    heads.push(attended);
    return outputs;
  };
  if (!model.blocks) return attend(inputs);
  const normOf = (name) => [tensor(`${name}_gain`), tensor(`${name}_shift`)];
  const read = withResidual(model, inputs, normOf("attention"), attend);
  if (!tensor("w_1")) return read;
  return withResidual(model, read, normOf("feed_forward"), (rows) => {
    const hidden = projectRows(rows, tensor("w_1"), tensor("b_1"));
    const active = hidden.map((row) => row.map(ACTIVATIONS[model.activation]));
    return projectRows(active, tensor("w_2"), tensor("b_2"));
  });
}

const embeddedRow = ({ tensors, starts, dim }, id) =>
  tensors.embeddings ? rowOfMatrix(tensors.embeddings, id) : drawnRow(starts.embedding, id, dim);

/** What every head reads, layer by layer, and the scores and probabilities of all answers at each
 *  token; `embedded` are the tokens' vectors, `inflows` those that come into each layer, `outflow`
 *  those of which the answers' scores are made.
 *  `choices`: scaled, causal, placed, temperature; `off`, a Map of heads to "zero" or "mean". */
function computeModel(model, ids, choices) {
  const { tensors } = model;
  const embedded = ids.map((id) => embeddedRow(model, id));
  const added = choices.placed ? positionRows(model, ids.length) : null;
  let vectors = added ? addRows(embedded, added) : embedded;
  const computed = { heads: [], inflows: [], embedded, logits: null, probabilities: null };
  for (let layer = 0; layer < model.layers; layer++) {
    vectors = computeLayer(model, choices, vectors, layer, computed);
  }
  if (!tensors.w_answers) return computed;
  const last = tensors.last_gain
    ? normedRows(vectors, tensors.last_gain, tensors.last_shift)
    : vectors;
  const logits = projectRows(last, tensors.w_answers, tensors.b_answers);
  return { ...computed, outflow: last, logits, probabilities: logits.map(softmaxOf) };
}
