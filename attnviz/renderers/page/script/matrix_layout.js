// The layout of the matrix: the size of cells, and the room of names.

const MOST_OF_A_CELL = 100; // pixels
const FIRST_READABLE = 20; // pixels of a row, where there are few of them and many columns
const NAME_LINE = 16;
const BESIDE_MAP = 8; // from a name to the cells
const LONGEST_NAME = 132;
const SMALLEST_MAP = 340; // pixels, however low a window is
const TURNED = Math.SQRT1_2; // of a name that is turned by 45 degrees, its width and height

/** Sizes of everything; `names` are the lengths of the longest ones, all in pixels. */
function matrixLayout(room, counts, names, zoom) {
  const left = Math.min(names.row, LONGEST_NAME, 0.3 * room.wide) + BESIDE_MAP + 2;
  const fit = fittingCells(room, counts, names, left);
  const { above, cell } = zoom === 1 ? fit : zoomedCells(fit, names, zoom);
  const whole = { wide: cell.wide * counts.columns, high: cell.high * counts.rows };
  const size = zoom === 1 ? sizeAround(left, above, whole) : fit.size;
  const top = above.high;
  const open = {
    wide: Math.min(whole.wide, size.wide - left - (zoom === 1 ? above.over : 0)),
    high: Math.min(whole.high, size.high - top),
  };
  return { left, top, cell, whole, size, open, angle: above.angle, longest: above.longest, zoom };
}

const sizeAround = (left, above, whole) => ({
  wide: Math.min(left + whole.wide + above.over, left + whole.wide + LONGEST_NAME),
  high: above.high + whole.high + 2,
});

/** Cells as large as leaves all of them in the room; names above decide how much that is. */
function fittingCells(room, counts, names, left) {
  let above = namesAbove(MOST_OF_A_CELL, names);
  let cell = { wide: MOST_OF_A_CELL, high: MOST_OF_A_CELL };
  for (let round = 0; round < 3; round++) {
    cell = cellWithin(room.wide - left - above.over, room.high - above.high, counts);
    above = namesAbove(cell.wide, names);
  }
  const wide = room.wide - left - above.over;
  cell = cellWithin(wide, Math.max(room.high, SMALLEST_MAP) - above.high, counts);
  const whole = { wide: cell.wide * counts.columns, high: cell.high * counts.rows };
  return { above, cell, size: sizeAround(left, above, whole) };
}

/** Square ones; a little wider than high, or higher than wide, where that shows more. */
function cellWithin(wide, high, { rows, columns }) {
  const across = Math.min(wide / columns, MOST_OF_A_CELL);
  const least = columns > 1.5 * rows ? FIRST_READABLE : across;
  const down = Math.min(high / rows, Math.max(across, least));
  return { wide: wholePixels(Math.min(across, 1.6 * down)), high: wholePixels(down) };
}

/** So many of the device's own pixels, that all cells are of one size. */
function wholePixels(size) {
  const pixels = size * devicePixelRatio;
  return pixels < 3 ? size : Math.floor(pixels) / devicePixelRatio;
}

function zoomedCells(fit, names, zoom) {
  const [wide, high] = [fit.cell.wide, fit.cell.high].map((size) => wholePixels(size * zoom));
  return { cell: { wide, high }, above: namesAbove(wide, names) };
}

/** Names over columns: upright where they are short, then turned a little, then fully. */
function namesAbove(wide, { column, cut }) {
  if (column <= wide - 6) return { angle: 0, high: NAME_LINE + 4, over: 4, longest: column };
  const longest = Math.min(column, cut);
  if (wide < NAME_LINE / TURNED) return { angle: 90, high: longest + 12, over: 4, longest };
  const over = Math.max(4, longest * TURNED + NAME_LINE / 2 - wide / 2);
  return { angle: 45, high: (longest + NAME_LINE) * TURNED + 6, over, longest };
}

/** Every place of so many; or every second, fourth, eighth one, where they are too close. */
function everyNth(pitch, needed) {
  let step = 1;
  while (step * pitch < needed) step *= 2;
  return step;
}
