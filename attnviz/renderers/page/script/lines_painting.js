// Draws the lines on a canvas: all of them, or those of one token.

/** All lines that cross what is seen of them. */
function paintLines() {
  const { layout, base, found } = lineView;
  if (layout === null || found === null) return;
  paintStrokes(freshBrush(base), found.lines, layout, layout.strokes);
  showFollowedLines();
}

function paintFollowedLines() {
  const { layout, over, followed, strokes } = lineView;
  const brush = freshBrush(over);
  if (!followed) return;
  paintStrokes(brush, followed.lines, layout, strokes);
  paintStrips(brush);
}

function paintStrokes(brush, found, layout, strokes) {
  const { from, to } = layout.columns;
  const top = lineView.scrolled;
  brush.save();
  brush.translate(0, -top);
  for (const stroke of strokesOf(found, layout, strokes)) {
    if (isOutside(stroke, top, layout.open)) continue;
    brush.strokeStyle = stroke.color;
    brush.globalAlpha = stroke.opacity;
    brush.lineWidth = stroke.width;
    brush.setLineDash(stroke.dashed ? [5, 4] : []);
    brush.beginPath();
    brush.moveTo(from, stroke.from);
    const bend = (to - from) * BEND;
    brush.bezierCurveTo(from + bend, stroke.from, to - bend, stroke.to, to, stroke.to);
    brush.stroke();
  }
  brush.restore();
}

const isOutside = ({ from, to }, top, high) =>
  Math.max(from, to) < top - WIDEST_LINE || Math.min(from, to) > top + high + WIDEST_LINE;

/** Where several heads are drawn: beside each word how much of it each head reads. */
function paintStrips(brush) {
  if (lineView.tables.length < 2) return;
  brush.save();
  brush.translate(0, -lineView.scrolled);
  for (const cell of stripCells()) {
    brush.globalAlpha = cell.opacity;
    brush.fillStyle = cell.color;
    brush.fillRect(cell.x, cell.y, cell.wide, cell.high);
  }
  brush.restore();
}

/** The marks beside words: full ones where lines begin, and as strong as lines where they end. */
function* stripCells() {
  const { tables, of } = lineView;
  for (const end of ["query", "key"]) {
    const other = of[OTHER_END[end]];
    for (const [slot, { cells }] of tables.entries()) {
      if (of[end] !== null) yield stripCell(end, of[end], slot, 1);
      if (other !== null) yield* stripOfHead(end, slot, amountsOf(cells, OTHER_END[end], other));
    }
  }
}

function* stripOfHead(end, slot, amounts) {
  const { layout, places, of, strokes } = lineView;
  const top = lineView.scrolled;
  for (const place of places[end]) {
    const amount = Math.abs(amounts[place]);
    const height = heightOf(layout, end, place);
    const seen = height > top - layout.pitch && height < top + layout.open + layout.pitch;
    if (!seen || place === of[end] || !(amount > 0) || amount < state.least) continue;
    yield stripCell(end, place, slot, strokes.opacity(amount));
  }
}

function stripCell(end, place, slot, opacity) {
  const { pitch, columns, heads: drawn } = lineView.layout;
  const high = Math.max(Math.min(pitch - 3, 16), 1.5);
  const left = end === "query" ? columns.from - drawn.length * columns.cell : columns.to;
  return {
    x: left + slot * columns.cell + 0.5,
    y: heightOf(lineView.layout, end, place) - high / 2,
    wide: columns.cell - 1.5,
    high,
    color: colorOfHead(slot),
    opacity,
  };
}
