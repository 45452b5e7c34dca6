// Numbers in few digits, as attnviz writes them: .42, 1.2e−03, 4.57.

const MINUS = "−";
const LARGE_NUMBER = 1e6; // from here on numbers are written with powers of ten

const typeset = (text) => text.replaceAll("-", MINUS);

/** So many digits behind the point. What lies in the middle goes to the even digit: .125 is .12. */
function fixedText(value, digits) {
  const between = Math.abs((value * 2 ** (digits + 1)) % 2) === 1;
  if (!between) return typeset(unsigned(value.toFixed(digits)));
  const below = Math.floor(value * 10 ** digits);
  return typeset(unsigned(((below + Math.abs(below % 2)) / 10 ** digits).toFixed(digits)));
}

/** There is no -0.00. */
const unsigned = (text) => (Number(text) === 0 ? text.replace("-", "") : text);

/** With powers of ten: 1.2e−04. */
function powerText(value, digits) {
  if (value === 0) return "0";
  const [number, exponent] = value.toExponential(digits).split("e");
  return typeset(`${number}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`);
}

/** A share, without the 0 before its point: .42; and 1.0 for all, and almost all. */
function shareText(value, digits = 2) {
  const size = Math.abs(value);
  const text = size < 1 - 0.5 * 10 ** -digits ? fixedText(size, digits).slice(1) : "";
  const short = text || fixedText(size, digits - 1);
  return value < 0 && /[1-9]/.test(short) ? MINUS + short : short;
}

/** One number by itself: of none that is not 0 are only zeros left. */
function numberText(value, { digits = 2, share = true } = {}) {
  if (Number.isNaN(value)) return "hidden";
  if (!Number.isFinite(value)) return value < 0 ? `${MINUS}∞` : "∞";
  if (isTiny(value, digits)) return powerText(value, digits - 1);
  if (Math.abs(value) >= LARGE_NUMBER) return powerText(value, digits);
  return share ? shareText(value, digits) : fixedText(value, digits);
}

const isTiny = (value, digits) => value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits;

/** What the last of so many digits stands for: .0001 of .4183, 1e−05 of 4.18e−03. */
function lastDigit(value, digits) {
  if (isTiny(value, digits)) return 10 ** (exponentOf(value) - digits + 1);
  if (Math.abs(value) >= LARGE_NUMBER) return 10 ** (exponentOf(value) - digits);
  return 10 ** -digits;
}

const exponentOf = (value) => Math.floor(Math.log10(Math.abs(value)));

/** How all cells of a table are written, whose numbers go so far from 0. */
function cellWriter(reach, share) {
  if (share && reach < 0.01) return (value) => powerText(value, 0);
  if (share) return (value) => shareText(value);
  if (reach < 0.1) return (value) => powerText(value, 1);
  const behind = Math.max(0, 2 - Math.max(0, String(Math.trunc(reach)).length - 2));
  return (value) =>
    Math.abs(value) >= LARGE_NUMBER ? powerText(value, 2) : fixedText(value, behind);
}
