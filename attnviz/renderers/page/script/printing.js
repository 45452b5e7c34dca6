// On paper all views stand one after another, also those that are hidden now.

const onPaperAlone = []; // drawings that stand in place of what a screen shows

/** Every view is laid out as wide as paper is; those that draw for paper hear of it after this. */
function layForPaper() {
  document.getElementById("explorer").classList.add("printing");
  onPaper.printing = true;
  if (overview.line) layOverview();
  loadLines();
  for (const each of matrices) if (each.cells) onMatrix(each, printMatrix)();
  paintForPaper();
}

function printMatrix() {
  paintBitmap();
  const drawing = matrixOnPaper();
  onPaperAlone.push(drawing);
  matrix.frame.after(drawing);
}

function layForScreen() {
  document.getElementById("explorer").classList.remove("printing");
  for (const drawing of onPaperAlone.splice(0)) drawing.remove();
  paintForScreen();
}

if (heads.length > 0) {
  addEventListener("beforeprint", layForPaper);
  addEventListener("afterprint", layForScreen);
}

/** What a view draws that may not be seen: it is laid out where nobody looks. */
async function laidOut(section, load, draw) {
  section.classList.add("aside");
  await load();
  const picture = draw();
  section.classList.remove("aside");
  return picture;
}
