// Colours of numbers in both themes: on a linear, square-root or logarithmic scale.

const COLOR_STEPS = 1024; // steps of a scale of colours
const BENT = {
  straight: (number) => number,
  root: (number) => Math.sign(number) * Math.sqrt(Math.abs(number)),
  log: Math.log,
};
const UNBENT = {
  straight: (number) => number,
  root: (number) => Math.sign(number) * number ** 2,
  log: Math.exp,
};
const onPaper = { printing: false };
const forcedColors = matchMedia("(forced-colors: active)");
const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark just now; paper is light. */
function isDark() {
  if (onPaper.printing) return false;
  return state.theme ? state.theme === "dark" : systemDark.matches;
}

const themeColors = () => data.look.colors[isDark() ? "dark" : "light"];

/** The colours of words and lines: the reader's own, where he has any. */
function inks() {
  const { paper, ink, faint, series } = themeColors();
  if (!forcedColors.matches || onPaper.printing) return { paper, ink, faint, accent: series[1] };
  return { paper: "Canvas", ink: "CanvasText", faint: "CanvasText", accent: "Highlight" };
}

/** What the colours of a head stand for, just now: straight, or by logarithm. */
function scaleNow(head, of = scaleOf(head)) {
  const scale = { ...of, bend: "straight" };
  return state.log && scale.kind !== "diverging" ? byLogarithm(scale) : scale;
}

const byLogarithm = (scale) => ({ ...scale, low: scale.logLow, bend: "log" });

/** The same by square root, of which small numbers are told apart beside large ones. */
const byRoot = (scale) => ({ ...scale, bend: "root" });

/** How far a number is on the way from the low end to the high one, which it does not leave. */
function shareOn({ low, high, bend }) {
  const bent = BENT[bend];
  const [start, end] = [bent(low), bent(high)];
  return (number) => {
    if (number <= low) return 0;
    return number >= high ? 1 : (bent(number) - start) / (end - start);
  };
}

/** The number that is so far along. */
function numberAt({ low, high, bend }, share) {
  const [start, end] = [low, high].map(BENT[bend]);
  return UNBENT[bend](start + share * (end - start));
}

/** A function from a number to [red, green, blue]. */
function colorsOn(scale) {
  const anchors = themeColors()[scale.kind === "diverging" ? "diverging" : "sequential"];
  const share = shareOn(scale);
  return (number) => mixedColor(anchors, share(number));
}

function mixedColor(anchors, share) {
  const place = share * (anchors.length - 1);
  const first = Math.min(Math.floor(place), anchors.length - 2);
  const mixed = (one, channel) =>
    Math.round(one + (anchors[first + 1][channel] - one) * (place - first));
  return anchors[first].map(mixed);
}

/** The same for very many numbers: a function to what a pixel of an ImageData is, as one number. */
function pixelsOn(scale) {
  const pixels = pixelsOf(themeColors()[scale.kind === "diverging" ? "diverging" : "sequential"]);
  const share = shareOn(scale);
  return (number) => pixels[Math.round(share(number) * COLOR_STEPS)];
}

const pixelsOfAnchors = new Map();

function pixelsOf(anchors) {
  const steps = () =>
    Uint32Array.from({ length: COLOR_STEPS + 1 }, (_, place) =>
      pixelOf(mixedColor(anchors, place / COLOR_STEPS)));
  if (!pixelsOfAnchors.has(anchors)) pixelsOfAnchors.set(anchors, steps());
  return pixelsOfAnchors.get(anchors);
}

const pixelOf = ([red, green, blue]) =>
  new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];

const cssColor = (color) => `rgb(${color.join(" ")})`;

/** Black or white, whichever is easier to read on a colour: by WCAG's ratio at least 4.5 to 1. */
function inkOn(color) {
  const [red, green, blue] = color.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (luminance + 0.05) ** 2 > 0.05 * 1.05 ? "#000" : "#fff";
}

/** Cells that a mask hides: grey with lines across, of so many pixels for one of the page. */
function hatched(context, density) {
  const { hidden, hatch } = themeColors();
  const side = Math.round(6 * density);
  const tile = new OffscreenCanvas(side, side);
  const brush = tile.getContext("2d");
  brush.fillStyle = hidden;
  brush.fillRect(0, 0, side, side);
  brush.strokeStyle = hatch;
  brush.lineWidth = density;
  brush.beginPath();
  for (const start of [-side, 0, side]) {
    brush.moveTo(start - 1, side + 1);
    brush.lineTo(start + side + 1, -1);
  }
  brush.stroke();
  return context.createPattern(tile, "repeat");
}

/** All that has colours, drawn again at once. */
function drawColorsAgain() {
  for (const { names, draw } of listeners) if (names.includes("theme")) draw(state);
}

/** A dark page is printed light: printing.js says when. */
function paintForPaper() {
  onPaper.printing = true;
  drawColorsAgain();
  document.querySelectorAll("canvas").forEach(copyForPaper);
}

/** Chromium prints nothing of a canvas that is drawn again just before; but all of a new one. */
function copyForPaper(canvas) {
  const { width, height, className } = canvas;
  if (width === 0 || height === 0) return;
  const copy = element("canvas", { width, height, class: `${className} for-paper` });
  copy.style.cssText = canvas.style.cssText;
  copy.getContext("2d").drawImage(canvas, 0, 0);
  canvas.before(copy);
  canvas.hidden = true;
}

function paintForScreen() {
  onPaper.printing = false;
  document.querySelectorAll(".for-paper").forEach((copy) => {
    copy.nextSibling.hidden = false;
    copy.remove();
  });
  drawColorsAgain();
}

systemDark.addEventListener("change", drawColorsAgain);
forcedColors.addEventListener("change", drawColorsAgain);
