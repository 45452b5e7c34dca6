// Draws the same vectors as attnviz: from a hash of seed, token and column.

const STATE_STEP = 0x9e3779b97f4a7c15n; // of SplitMix64
const wrapped = (number) => BigInt.asUintN(64, number);

function mixedBits(start) {
  let bits = wrapped(start);
  bits = wrapped((bits ^ (bits >> 30n)) * 0xbf58476d1ce4e5b9n);
  bits = wrapped((bits ^ (bits >> 27n)) * 0x94d049bb133111ebn);
  return bits ^ (bits >> 31n);
}

const rowsDrawn = new Map();

/** Numbers of N(0, 1), in 32 bits: the same row of a stream always has the same. */
function drawnRow(start, row, width) {
  const key = `${start} ${row} ${width}`;
  if (!rowsDrawn.has(key)) {
    const state = mixedBits(BigInt(`0x${start}`) + BigInt(row) * STATE_STEP);
    const uniform = (column) =>
      (Number(mixedBits(state + BigInt(column) * STATE_STEP) >> 11n) + 0.5) * 2 ** -53;
    rowsDrawn.set(key, Float64Array.from({ length: width }, (_, column) =>
      Math.fround(normalQuantile(uniform(column)))));
  }
  return rowsDrawn.get(key);
}

/** A quotient of two polynomials: coefficients from the highest power down. */
const quotientAt = (x, over, under) => {
  const valueOf = (coefficients) => coefficients.reduce((sum, each) => sum * x + each, 0);
  return valueOf(over) / valueOf(under);
};

/** Wichura's AS 241: the normal quantile to 16 digits. */
function normalQuantile(share) {
  const middle = share - 0.5;
  if (Math.abs(middle) <= 0.425) {
    return middle * quotientAt(0.180625 - middle * middle, ...QUANTILE_MIDDLE);
  }
  const far = Math.sqrt(-Math.log(Math.min(share, 1 - share)));
  const size = far <= 5
    ? quotientAt(far - 1.6, ...QUANTILE_SIDE)
    : quotientAt(far - 5, ...QUANTILE_TAIL);
  return middle < 0 ? -size : size;
}

const QUANTILE_MIDDLE = [
  [2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
    1.3314166789178437745e2, 3.387132872796366608],
  [5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
    4.2313330701600911252e1, 1],
];
const QUANTILE_SIDE = [
  [7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
    4.63033784615654529590, 1.42343711074968357734],
  [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
    2.05319162663775882187, 1],
];
const QUANTILE_TAIL = [
  [2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
    2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
    5.46378491116411436990, 6.65790464350110377720],
  [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
    7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
    5.99832206555887937690e-1, 1],
];
