// Colours of numbers, in either theme: straight, by their root, or by their logarithm.

const SHADES = 1024; // steps of a scale of colours
const DECADES = 3; // that a scale of logarithms shows at least,
const BELOW_EVEN = 10; // and down to so small a part of what is read where all are read alike
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
const paperNow = { printing: false };

/** Whether the page is dark just now; paper is light. */
function isDark() {
  if (paperNow.printing) return false;
  if (state.theme) return state.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const themeColors = () => data.look.colors[isDark() ? "dark" : "light"];

/** What colours stand for, of a head with so many keys: the same for all heads. */
function scaleNow(keys) {
  const scale = { bend: "straight", ...attention.scale };
  return state.log && canBeLogarithmic() ? logarithmic(scale, keys) : scale;
}

/** Numbers below 0 have no logarithms. */
const canBeLogarithmic = () => attention.scale.kind !== "diverging";

function logarithmic(scale, keys) {
  const decades = Math.max(DECADES, Math.ceil(Math.log10(BELOW_EVEN * Math.max(keys, 1))));
  return { ...scale, low: scale.high / 10 ** decades, bend: "log" };
}

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
  return (number) => between(anchors, share(number));
}

function between(anchors, share) {
  const place = share * (anchors.length - 1);
  const first = Math.min(Math.floor(place), anchors.length - 2);
  const mixed = (one, channel) =>
    Math.round(one + (anchors[first + 1][channel] - one) * (place - first));
  return anchors[first].map(mixed);
}

/** The same for very many numbers: a function to what a pixel of an ImageData is, as one number. */
function pixelsOn(scale) {
  const anchors = themeColors()[scale.kind === "diverging" ? "diverging" : "sequential"];
  const pixels = Uint32Array.from({ length: SHADES + 1 }, (_, place) =>
    pixelOf(between(anchors, place / SHADES)),
  );
  const share = shareOn(scale);
  return (number) => pixels[Math.round(share(number) * SHADES)];
}

const pixelOf = ([red, green, blue]) =>
  new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];

const cssColor = (color) => `rgb(${color.join(" ")})`;

/** Black or white, whichever is easier to read on a colour. */
function inkOn(color) {
  const [red, green, blue] = color.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 ? "#000" : "#fff";
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

/** Pictures on paper have the colours of paper. */
function paintedForPaper(printing) {
  paperNow.printing = printing;
  document.documentElement.classList.toggle("dark", isDark());
  for (const { names, draw } of listeners) if (names.includes("theme")) draw(state);
}

addEventListener("beforeprint", () => paintedForPaper(true));
addEventListener("afterprint", () => paintedForPaper(false));
