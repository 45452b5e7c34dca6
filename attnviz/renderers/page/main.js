// The page as it opens: each view in its section, all of them on one state.

function start() {
  if (heads.length === 0) return;
  readAddress();
  startMatrix(document.getElementById("matrix"));
  startLines(document.getElementById("lines"));
  startOverview(document.getElementById("overview"));
  startSentence(document.getElementById("sentence"));
  startTable(document.getElementById("table"));
  startControls(document.getElementById("controls"));
}

start();
