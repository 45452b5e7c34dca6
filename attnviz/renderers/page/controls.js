// Controls: not here yet.

function startControls(section) {
  section.hidden = true;
}
