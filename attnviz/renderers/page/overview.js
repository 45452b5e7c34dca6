// Overview: not here yet.

function startOverview(section) {
  section.hidden = true;
}
