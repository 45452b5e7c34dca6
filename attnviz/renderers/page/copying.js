// Copying: not here yet.

function startCopying(section) {
  section.hidden = true;
}
