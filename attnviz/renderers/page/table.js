// Table: not here yet.

function startTable(section) {
  section.hidden = true;
}
