// Sentence: not here yet.

function startSentence(section) {
  section.hidden = true;
}
