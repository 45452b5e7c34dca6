// How a line looks: the wider and the stronger, the larger its weight.

const WIDEST_LINE = 14; // pixels, where rows are far enough from each other
const WIDEST_OF_A_ROW = 0.55;
const THINNEST_LINE = 0.5;
const FAINTEST_LINE = 0.04;
const BEND = 0.45; // of the way across, from where a line turns
const SPREAD = 0.7; // of a row, over which the lines of several heads begin
const MOST_APART = 3; // pixels, from one head's line to the next one's

/** Functions of a weight: how wide its line is, and how far from transparent. */
function strokesOn(scale, pitch, drawn) {
  const reach = Math.max(Math.abs(scale.low), scale.high);
  const widest = Math.min(WIDEST_LINE, pitch * WIDEST_OF_A_ROW) / Math.sqrt(drawn);
  const straight = (weight) => Math.min(Math.abs(weight) / reach, 1);
  const strength = scale.bend === "log" ? shareOn(scale) : (weight) => Math.sqrt(straight(weight));
  return {
    widest,
    width: (weight) => Math.max(straight(weight) * widest, THINNEST_LINE),
    opacity: (weight) => Math.max(strength(Math.abs(weight)), FAINTEST_LINE),
  };
}

/** Each line as it is to be drawn: between which heights, and how. */
function* strokesOf(found, layout) {
  const { strokes, apart, heads: drawn } = layout;
  for (const { slot, query, key, weight } of found) {
    const beside = (slot - (drawn.length - 1) / 2) * apart;
    yield {
      from: heightOf(layout, "query", query) + beside,
      to: heightOf(layout, "key", key) + beside,
      color: lineColor(slot, weight),
      width: strokes.width(weight),
      opacity: strokes.opacity(weight),
      dashed: weight < 0,
    };
  }
}

const lineColor = (slot) => (forcedColors.matches && !onPaper.printing && slot === 0
  ? inks().ink
  : colorOfHead(slot));

/** How the law that widths and strengths follow is said. */
function saidOfStrokes(scale, drawn) {
  const full = `${numberText(scale.high)}${scale.beyond ? " and more" : ""}`;
  const law =
    scale.bend === "log"
      ? `opacity grows with its logarithm, from ${numberText(scale.low)}`
      : "opacity with the root of it";
  const negative = scale.low < 0 ? "; dashed below 0" : "";
  const colors = drawn.length > 1 ? "; colours are heads" : "";
  return `Width grows with the ${scale.label}, ${law}; full at ${full}${negative}${colors}.`;
}
