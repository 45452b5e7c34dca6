// How a line looks: the larger its weight, the wider and stronger.

const WIDEST_LINE = 14; // pixels, where rows are far enough from each other
const WIDEST_OF_A_ROW = 0.55;
const WIDEST_TOGETHER = 1.3; // rows, all lines of one word
const THINNEST_LINE = 0.5;
const FAINTEST_LINE = 0.04;
const BEND = 0.45; // of the way across, from where a line turns
const SPREAD = 0.7; // of a row, over which the lines of several heads begin
const MOST_APART = 3; // pixels, from one head's line to the next one's

/** Functions of a weight: how wide its line is, and how far from transparent. */
function strokesOn(head, pitch, together, followed = null) {
  const scale = scaleNow(head);
  const reach = reachOf(head, scale, followed);
  const widest = Math.min(WIDEST_LINE, pitch * WIDEST_OF_A_ROW) / Math.sqrt(together);
  const most = heads[head].share ? pitch * WIDEST_TOGETHER : Infinity;
  const slope = Math.min(widest / reach, most);
  const root = (weight) => Math.sqrt(Math.min(weight / reach, 1));
  const strength = scale.bend === "log" ? shareOn({ ...scale, high: reach }) : root;
  return {
    reach,
    width: (weight) => Math.max(Math.min(Math.abs(weight) * slope, widest), THINNEST_LINE),
    opacity: (weight) => Math.max(strength(Math.abs(weight)), FAINTEST_LINE),
  };
}

/** The weight whose line is strongest: that of the scale of colours; where some are beyond it, of
    all lines the largest that there can be, and of a token's own the largest that there is. */
function reachOf(head, { low, high, beyond }, followed) {
  const reach = Math.max(Math.abs(low), high);
  if (!beyond || !heads[head].share) return reach;
  return Math.max(reach, followed === null ? 1 : Math.abs(followed.at(-1)?.weight ?? 0));
}

/** Each line as it is to be drawn: between which heights, and how. */
function* strokesOf(found, layout, strokes) {
  const { apart, heads: drawn } = layout;
  for (const { slot, query, key, weight } of found) {
    const beside = (slot - (drawn.length - 1) / 2) * apart;
    yield {
      from: heightOf(layout, "query", query) + beside,
      to: heightOf(layout, "key", key) + beside,
      color: lineColor(slot, weight, drawn),
      width: strokes.width(weight),
      opacity: strokes.opacity(weight),
      dashed: weight < 0,
    };
  }
}

/** The colour of a head; of one alone whose numbers have signs, that of the sign. */
function lineColor(slot, weight, drawn) {
  const { kind } = scaleOf(drawn[0]);
  if (drawn.length > 1 || kind !== "diverging") return colorOfHead(slot);
  return cssColor(themeColors().diverging.at(weight < 0 ? 0 : -1));
}

/** How the law that widths and strengths follow is said. */
function saidOfStrokes({ heads: drawn, columns: { amounts } }, { reach }) {
  const scale = scaleNow(drawn[0]);
  const law =
    scale.bend === "log"
      ? `, darker by its logarithm, from ${numberText(scale.low)} on`
      : "";
  const full = numberText(reach);
  const negative = scale.low < 0 ? "; dashed below 0" : "";
  const some = amounts > 0 && amounts < drawn.length;
  const numbers = some ? `, numbers those of ${heads[drawn[0]].name}` : "";
  const { cells } = lineView.tables[0];
  const blocks = pooledNote(cells).replace("one cell", "; one line");
  const colors = drawn.length > 1 ? `; a colour for each${numbers}` : "";
  const what = scale.low < 0 ? `size of the ${scale.label}` : scale.label;
  const reached = `${full}${law}${negative}${colors}${blocks}`;
  return `The wider a line, the larger its ${what}, up to ${reached}.`;
}
