// The page as it opens: each view in its section, all of them on one state.

function start() {
  control("utilities").hidden = false;
  letFramesScroll();
  startPlaces();
  startWholeTexts();
  if (heads.length === 0) return startWithoutHeads();
  if (!("DecompressionStream" in window)) return tellOldBrowser();
  if (isLive) unpackModel().then(startExploring);
  else startExploring();
}

function startExploring() {
  readAddress();
  if (isLive) startLive(control("live"));
  startMatrix(control("matrix"));
  startBoth(control("both"));
  startLines(control("lines"));
  startOverview(control("overview"));
  startSentence(control("sentence"));
  startArithmetic(control("arithmetic"));
  startTable(control("table"));
  startSteps();
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

function tellOldBrowser() {
  const trouble = control("trouble");
  trouble.hidden = false;
  trouble.textContent =
    "This browser cannot unpack the heads of this page: it has no DecompressionStream, which " +
    "browsers have had since 2023. What is below works without.";
  startWithoutHeads();
}

start();
