// The colour bar: which number each colour stands for, and what it measures.

const SAID_OF_BENDS = { root: "colours by square root", log: "colours by logarithm" };
const STRIP_SAMPLES = 64; // of which a bar is made

/** An empty bar of colours, for `showColorBar` to fill. */
function newColorBar() {
  return element("p", { class: "color-bar" });
}

/** `weight 0 ▭ 1`; of one whose colours are bent the number in the middle, too. */
function showColorBar(bar, scale, { hides = false, notes = [] } = {}) {
  const [low, high] = [scale.low, scale.high].map(shortNumber);
  const middle = `${shortNumber(numberAt(scale, 0.5))} in the middle`;
  const bent = scale.bend !== "straight" && `${middle}, ${SAID_OF_BENDS[scale.bend]}`;
  const said = [bent, ...notes].filter(Boolean);
  bar.replaceChildren(
    `${scale.label} ${scale.bend === "log" ? "≤ " : ""}${low} `,
    colorStrip(scale),
    ` ${scale.beyond ? "≥ " : ""}${high}`,
    ...said.map((words) => ` · ${words}`),
  );
  if (hides) bar.append(" · ", hiddenSwatch(), " hidden by the mask");
}

const shortNumber = (number) => typeset(String(Number(number.toPrecision(2))));

function colorStrip(scale) {
  const strip = element("canvas", { width: STRIP_SAMPLES, height: 1, class: "color-strip" });
  const brush = strip.getContext("2d");
  const color = colorsOn({ ...scale, low: 0, high: 1, bend: "straight" });
  for (let place = 0; place < STRIP_SAMPLES; place++) {
    brush.fillStyle = cssColor(color(place / (STRIP_SAMPLES - 1)));
    brush.fillRect(place, 0, 1, 1);
  }
  return strip;
}

function hiddenSwatch() {
  const swatch = element("canvas", { width: 36, height: 24, class: "hidden-swatch" });
  const brush = swatch.getContext("2d");
  brush.fillStyle = hatched(brush, 2);
  brush.fillRect(0, 0, 36, 24);
  return swatch;
}
