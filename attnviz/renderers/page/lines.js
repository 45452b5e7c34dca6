// Lines: not here yet.

function startLines(section) {
  section.hidden = true;
}
