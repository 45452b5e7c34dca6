// Where the rows, names and numbers of the lines stand.

const LEAST_ROW = 16; // pixels, in which a name can be read
const MOST_ROW = 32;
const SMALLEST_FRAME = 320; // pixels, however low a window is
const LARGEST_FRAME = 780;
const AROUND_LINES = 300; // pixels of a window that are not for lines
const NARROW = 480; // pixels: in less, there is no room for everything
const AMOUNT = { wide: 56, narrow: 47 }; // pixels of a number beside a word
const SHARE_OF_AMOUNTS = 0.16; // of the width, for the numbers of several heads on a side
const STRIP_CELL = 7; // of the marks beside a word, one for each head
const BESIDE_LINES = 6;
const LEAST_BETWEEN = 0.24; // of the width, for the lines themselves

/** All sizes, in pixels. */
function linesLayout({ wide, tables, sides, places, whole }) {
  const counts = { query: places.query.length, key: places.key.length };
  const rows = Math.max(counts.query, counts.key);
  const room = Math.min(Math.max(innerHeight - AROUND_LINES, SMALLEST_FRAME), LARGEST_FRAME);
  const even = (room - LEAST_ROW) / rows;
  const pitch = whole ? Math.min(even, MOST_ROW) : Math.min(Math.max(even, LEAST_ROW), MOST_ROW);
  const size = Math.min(Math.max(pitch * 0.62, 11), 15);
  const margin = Math.max(0, (size + 4 - pitch) / 2);
  const all = pitch * rows + 2 * margin;
  const rowsOfEnd = (count) => endRows(count, pitch * rows, pitch, margin);
  const fits = even >= LEAST_ROW;
  const drawn = tables.map(({ head }) => head);
  return {
    wide, rows, pitch, size, fits,
    whole: all,
    open: Math.min(all, room),
    high: Math.max(pitch, size + 3),
    heads: drawn,
    columns: columnsAcross(wide, drawn, longestWords(sides, places, size, wide < NARROW)),
    index: { query: indexOf(places.query), key: indexOf(places.key) },
    ends: { query: rowsOfEnd(counts.query), key: rowsOfEnd(counts.key) },
    nth: everyNth(pitch, LEAST_ROW - 3),
    strokes: strokesOn(drawn[0], pitch, drawn.length),
    apart: Math.min(MOST_APART, (pitch * SPREAD) / drawn.length),
  };
}

const indexOf = (places) => new Map(places.map((place, index) => [place, index]));

/** The rows of one end: a shorter one stands in the middle, or is spread where much is scrolled. */
function endRows(count, all, pitch, margin) {
  const spread = all > 2 * LARGEST_FRAME ? all / Math.max(count, 1) : pitch;
  return { pitch: spread, top: margin + (all - spread * count) / 2 };
}

/** The middle of the row of a place. */
function heightOf({ ends, index }, end, place) {
  return ends[end].top + (index[end].get(place) + 0.5) * ends[end].pitch;
}

/** From the outside: numbers, names, a mark for each head, and the lines between both sides. */
function columnsAcross(wide, drawn, longest) {
  const narrow = wide < NARROW;
  const several = drawn.length > 1;
  const amount = narrow ? AMOUNT.narrow : AMOUNT.wide;
  const fitting = Math.floor((wide * SHARE_OF_AMOUNTS) / amount);
  const amounts = several ? (fitting >= drawn.length ? drawn.length : Number(!narrow)) : 1;
  const cell = narrow ? STRIP_CELL - 3 : STRIP_CELL;
  const strip = several ? drawn.length * cell + BESIDE_LINES : 0;
  const numbers = amounts * amount;
  const room = (wide * (1 - LEAST_BETWEEN)) / 2 - numbers - strip - BESIDE_LINES;
  const names = { query: Math.min(longest.query, room), key: Math.min(longest.key, room) };
  const from = numbers + names.query + strip + BESIDE_LINES;
  const to = wide - numbers - names.key - strip - BESIDE_LINES;
  return { amounts, amount, narrow, strip, cell, names, from, to };
}

function longestWords(sides, places, size, narrow) {
  const font = `${size}px system-ui, sans-serif`;
  const widthAt = (end, place) => wordWidth(sides[end], place, font, narrow);
  const longest = (end) =>
    places[end].reduce((most, place) => Math.max(most, widthAt(end, place)), 0);
  return { query: longest("query") + 4, key: longest("key") + 4 };
}

/** With its number before it, which is left out where there is little room. */
function wordWidth(side, place, font, narrow) {
  const name = blockName(side, place);
  const number = narrow && name ? "" : numberName(side, place);
  return widthOf(name, font) + (name && number ? NUMBER_GAP : 0) + widthOf(number, font);
}
