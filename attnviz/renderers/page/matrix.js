// The matrix: who reads whom in one head, a cell for each pair, drawn on a canvas.

function startMatrix(section) {
  const canvas = element("canvas", { width: 640, height: 640 });
  section.append(canvas);
  const draw = async () => drawMatrix(canvas, await cellsOf(state.head));
  whenChanged(["head", "theme", "log", "least", "special"], draw);
  draw();
}

function drawMatrix(canvas, cells) {
  const context = canvas.getContext("2d");
  const [wide, high] = [canvas.width / cells.columns, canvas.height / cells.rows];
  const color = colorScale(cells.largest);
  for (let row = 0; row < cells.rows; row++) {
    for (let column = 0; column < cells.columns; column++) {
      const hidden = cells.hides(row, column);
      context.fillStyle = hidden
        ? themeColors().hidden
        : `rgb(${color(cells.weight(row, column)).join()})`;
      context.fillRect(column * wide, row * high, wide, high);
    }
  }
}
