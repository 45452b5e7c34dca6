// The start of the page: each view in its section, all of them on one state.

function start() {
  control("utilities").hidden = false;
  letFramesScroll();
  startPlaces();
  startWholeTexts();
  if (heads.length === 0) return startWithoutHeads();
  if (isLive) unpackModel().then(startExploring);
  else startExploring();
}

function startExploring() {
  readAddress();
  if (isLive) startLive(control("live"));
  if (isLive) startTour(control("tour"));
  startMatrix(control("matrix"));
  startBoth(control("both"));
  startLines(control("lines"));
  startOverview(control("overview"));
  startSentence(control("sentence"));
  if (attention.passages) startPassages(control("sentence"));
  startArithmetic(control("arithmetic"));
  startTable(control("table"));
  if (document.getElementById("steps")) startSteps();
  startControls();
  startCopying(control("copying"));
}

/** Words, tables and charts need no script; they have their themes. */
function startWithoutHeads() {
  for (const name of ["copying", "help", "reset"]) control(name).remove();
  startThemeChooser();
  addCommandButton();
  if (data.points !== null) startPoints();
}

start();
