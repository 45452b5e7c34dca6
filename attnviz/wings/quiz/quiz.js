// A quiz: one question at a time, its solution once it is answered, the score at the end.

const EDGE = 16; // pixels that stay free above a verdict, and below a solution
const byId = (name) => document.getElementById(name);
const questions = [...document.querySelectorAll(".question")];
const solutions = readSolutions();
const given = questions.map(() => null); // the index of each answer; null before there is one
const place = { now: 0 };
const hash = (text) => [...text].reduce((sum, each) => (31 * sum + each.codePointAt(0)) | 0, 7);
const storageName = `attnviz quiz ${hash(byId("solutions").textContent)}`;
const stored = { works: true }; // false where the browser keeps nothing for a file

function readSolutions() {
  const bytes = Uint8Array.from(atob(byId("solutions").textContent), (each) => each.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

const isRight = (number) => given[number] === solutions[number].answer;
const answersOf = (number) => [...questions[number].querySelectorAll("input")];
const isLast = () => place.now === questions.length - 1;

function startQuiz() {
  questions.forEach((question, number) => {
    const check = madeButton("Check", "check", () => checkAnswer(number));
    const next = madeButton("Next", "next", goOn);
    question.querySelector("fieldset").after(check);
    question.append(next);
    next.hidden = true;
    byId("places").append(madeButton(String(number + 1), "place", () => showQuestion(number)));
  });
  const score = madeButton("Score", "to-score", showResults);
  score.hidden = true;
  byId("places").append(score);
  byId("copy").addEventListener("click", copyResults);
  byId("again").addEventListener("click", startAgain);
  document.addEventListener("keydown", pressed);
  for (const name of ["places", "keys"]) byId(name).hidden = false;
  addEventListener("beforeunload", (event) => {
    if (!stored.works && given.some((each) => each !== null)) event.preventDefault();
  });
  showQuestion(takeStoredAnswers(), false);
}

/** Answers outlive a reload, in this tab alone; returns the first question without one. */
function takeStoredAnswers() {
  try {
    const answers = JSON.parse(sessionStorage.getItem(storageName)) ?? [];
    questions.forEach((_, number) => {
      const chosen = answers[number];
      if (answersOf(number)[chosen]) showSolution(number, chosen);
    });
  } catch {
    stored.works = false;
  }
  return Math.max(0, given.indexOf(null));
}

function storeAnswers() {
  try {
    sessionStorage.setItem(storageName, JSON.stringify(given));
  } catch {
    stored.works = false;
  }
}

function madeButton(text, name, act) {
  const button = element("button", { type: "button", class: name }, text);
  button.addEventListener("click", act);
  return button;
}

/** The others are there, for paper; the focus goes to the question, for those who hear the page. */
function showQuestion(number, isMoved = true) {
  place.now = number;
  questions.forEach((each, index) => each.classList.toggle("away", index !== number));
  byId("results").hidden = true;
  markPlaces();
  if (isMoved) questions[number].querySelector("h2").focus();
}

function markPlaces() {
  byId("places").querySelectorAll(".place").forEach((button, number) => {
    const said = given[number] === null ? "not answered" : isRight(number) ? "right" : "wrong";
    const sign = { right: " ✓", wrong: " ✗" }[said] ?? "";
    button.textContent = `${number + 1}${sign}`;
    button.setAttribute("aria-label", `question ${number + 1}, ${said}`);
    if (number === place.now) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  const toScore = byId("places").querySelector(".to-score");
  toScore.hidden = toScore.hidden && given.includes(null);
}

function checkAnswer(number) {
  const chosen = answersOf(number).findIndex((each) => each.checked);
  if (chosen >= 0) return takeAnswer(number, chosen);
  questions[number].querySelector(".verdict").textContent = "Choose an answer first.";
}

function takeAnswer(number, chosen) {
  showSolution(number, chosen);
  storeAnswers();
  markPlaces();
  const verdict = questions[number].querySelector(".verdict");
  verdict.focus({ preventScroll: true });
  scrollToSolution(questions[number], verdict);
}

/** As far as the whole solution needs, but the verdict stays in sight. */
function scrollToSolution(question, verdict) {
  const hidden = question.getBoundingClientRect().bottom + EDGE - innerHeight;
  const reach = verdict.getBoundingClientRect().top - EDGE;
  if (hidden > 0) scrollBy(0, Math.max(0, Math.min(hidden, reach)));
}

function showSolution(number, chosen) {
  given[number] = chosen;
  const question = questions[number];
  const { answer, solution } = solutions[number];
  answersOf(number).forEach((each, index) => {
    each.checked = index === chosen;
    each.disabled = true;
    each.parentNode.classList.toggle("is-right", index === answer);
    each.parentNode.classList.toggle("is-wrong", index === chosen && index !== answer);
  });
  const room = question.querySelector(".solution");
  room.replaceChildren(...elementsOf(solution));
  room.hidden = false;
  question.querySelector(".check").hidden = true;
  const next = question.querySelector(".next");
  next.hidden = false;
  next.textContent = number === questions.length - 1 ? "See the score" : "Next";
  sayVerdict(question.querySelector(".verdict"), number);
}

function sayVerdict(verdict, number) {
  const right = questions[number].querySelector(".is-right span").textContent;
  const chosen = given[number];
  const reply = solutions[number].replies[chosen];
  verdict.textContent = isRight(number) ? "✓ Right" : `✗ Wrong: the answer is ${right}`;
  if (reply) verdict.append(element("p", {}, `${"abcd"[chosen]}) ${reply}`));
}

function goOn() {
  if (isLast()) showResults();
  else showQuestion(place.now + 1);
}

function scoreText() {
  const right = given.filter((_, number) => isRight(number)).length;
  const missing = given.filter((each) => each === null).length;
  const rest = missing ? `; ${missing} not answered` : "";
  return `${right} of ${questions.length} right${rest}`;
}

const markOf = (number) =>
  given[number] === null ? "– not answered" : isRight(number) ? "✓ right" : "✗ wrong";

const titleOf = (number) =>
  questions[number].querySelector("h2").textContent.replace(/^\d+ /, "");

function showResults() {
  questions.forEach((each) => each.classList.add("away"));
  byId("score").textContent = scoreText();
  const lines = questions.map((_, number) =>
    element("li", {}, `${titleOf(number)} `, element("strong", {}, markOf(number))));
  byId("marks").replaceChildren(...lines);
  byId("results").hidden = byId("places").querySelector(".to-score").hidden = false;
  byId("score").focus();
}

async function copyResults() {
  const lines = questions.map((_, number) => `${number + 1}. ${titleOf(number)} ${markOf(number)}`);
  const text = [document.title, scoreText(), ...lines].join("\n");
  try {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = "The results are copied.";
  } catch {
    byId("copied").replaceChildren("Copying is not allowed here. The results:",
      element("pre", {}, text));
  }
}

function startAgain() {
  given.fill(null);
  for (const [number, question] of questions.entries()) {
    for (const each of answersOf(number)) {
      each.checked = each.disabled = false;
      each.parentNode.classList.remove("is-right", "is-wrong");
    }
    for (const name of [".solution", ".verdict"]) question.querySelector(name).replaceChildren();
    question.querySelector(".solution").hidden = question.querySelector(".next").hidden = true;
    question.querySelector(".check").hidden = false;
  }
  byId("copied").replaceChildren();
  byId("places").querySelector(".to-score").hidden = true;
  storeAnswers();
  showQuestion(0);
}

/** 1 to 4 and a to d choose; Enter checks and goes on, where it presses no button. */
function pressed(event) {
  const isHeld = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
  if (isHeld || !byId("results").hidden) return;
  const key = event.key.toLowerCase();
  const chosen = Math.max("1234".indexOf(key), "abcd".indexOf(key));
  if (key.length === 1 && chosen >= 0 && chosen < answersOf(place.now).length) {
    event.preventDefault();
    if (given[place.now] === null) chooseAnswer(answersOf(place.now)[chosen]);
  } else if (key === "enter" && !event.target.closest("button, summary, a")) {
    event.preventDefault();
    if (given[place.now] === null) checkAnswer(place.now);
    else goOn();
  }
}

function chooseAnswer(button) {
  button.checked = true;
  button.focus();
}

startQuiz();
