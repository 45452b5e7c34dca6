// The words of the matrix in an SVG: names, and numbers of the colour bar.

/** Names that end at the cells, each with its number before it. */
function rowNameShapes(layout) {
  const { rows, reads } = matrix;
  const step = everyNth(layout.cell.high, NAME_LINE);
  const shown = [...rows.keys()].filter((place) => place % step === 0);
  return shown.map((place) => rowNameShape(layout, reads, rows[place], place));
}

function rowNameShape({ left, top, cell }, side, place, row) {
  const [word, number] = [blockName(side, place), numberName(side, place)];
  const room = left - BESIDE_MAP - 2;
  const beside = word && number ? widthOf(number) + NUMBER_GAP : 0;
  const name = cutText(word || number, Math.max(room - beside, 30));
  const y = top + (row + 0.5) * cell.high + NAME_SIZE * 0.35;
  const fill = isFaint(side, place) ? inks().faint : inks().ink;
  const text = drawn("text", { x: left - BESIDE_MAP, y, "text-anchor": "end", fill });
  const apart = widthOf(name) + beside <= room;
  if (word && number && apart) {
    text.append(drawn("tspan", { fill: inks().faint }, `${number} `));
  }
  text.append(drawn("tspan", { direction: "ltr", "unicode-bidi": "isolate" }, name));
  return text;
}

/** Names above the columns, turned as far as the matrix turns them. */
function columnNameShapes(layout) {
  const { columns, read } = matrix;
  const needed = layout.angle === 45 ? NAME_LINE / TURNED : NAME_LINE;
  const step = layout.angle === 0 ? 1 : everyNth(layout.cell.wide, needed);
  const shown = [...columns.keys()].filter((place) => place % step === 0);
  return shown.map((place) => columnNameShape(layout, read, columns[place], place));
}

function columnNameShape({ left, top, cell, angle, longest }, side, place, column) {
  const name = cutText(columnName(side, place), longest + 1);
  const upright = angle === 0;
  const x = left + (column + 0.5) * cell.wide;
  const y = top - (upright ? 5 : BESIDE_MAP - 1);
  return drawn(
    "text",
    {
      transform: `translate(${x} ${y}) rotate(${-angle})`,
      y: upright ? 0 : NAME_SIZE * 0.35,
      "text-anchor": upright ? "middle" : "start",
      fill: isFaint(side, place) ? inks().faint : inks().ink,
    },
    name,
  );
}

const BAR = { wide: 120, high: 11 };

/** `weight 0 ▭ 1`, as it stands below the matrix. */
function colorBarShape() {
  const scale = scaleNow(matrix.head);
  const before = `${scale.label} ${scale.bend === "log" ? "≤ " : ""}${shortNumber(scale.low)}`;
  const after = `${scale.beyond ? "≥ " : ""}${shortNumber(scale.high)}`;
  const start = widthOf(before, SMALL_FONT) + 8;
  const place = { x: start, y: -BAR.high + 1, width: BAR.wide, height: BAR.high };
  return drawn(
    "g",
    smallPrint(),
    drawn("defs", {}, gradientOf(scale)),
    drawn("text", {}, before),
    drawn("rect", { ...place, fill: "url(#scale)", stroke: inks().faint, "stroke-width": 0.5 }),
    drawn("text", { x: start + BAR.wide + 8 }, after),
  );
}

/** What else has to be known to read the matrix. */
function saidBesideBar() {
  const bent = SAID_OF_BENDS[scaleNow(matrix.head).bend];
  const hidden = matrix.hides ? "hatched = hidden by the mask" : "";
  return [bent, hidden, leastNote(), leftOutNote(), noteOf(matrix.head)].filter(Boolean);
}

function gradientOf(scale) {
  const color = colorsOn({ ...scale, low: 0, high: 1, bend: "straight" });
  const stops = Array.from({ length: 17 }, (_, place) =>
    drawn("stop", { offset: place / 16, "stop-color": hexColor(color(place / 16)) }));
  return drawn("linearGradient", { id: "scale" }, ...stops);
}
