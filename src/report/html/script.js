"use strict";
const filter = document.getElementById("filter");
const outcome = document.getElementById("outcome");
const problems = document.getElementById("problems");
const shown = document.getElementById("shown");
// Text is read once and only if somebody types: a long page must open fast.
const suites = [...document.querySelectorAll("section")].map((section) => ({
  section,
  broken: section.querySelector(":scope > pre.bad") !== null,
  path: section.querySelector("h2").textContent.toLowerCase(),
  cases: [...section.querySelectorAll(":scope > details")].map((details) => ({
    details,
    text: null,
    outcome: details.dataset.outcome || "",
    problem: details.classList.contains("bad"),
    hidden: false,
  })),
}));
function has(one, suite, word) {
  if (suite.path.includes(word)) return true;
  if (one.text === null) one.text = one.details.textContent.toLowerCase();
  return one.text.includes(word);
}
function apply() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const suite of suites) {
    let any = false;
    for (const one of suite.cases) {
      const visible =
        (one.problem || !problems.checked) &&
        (outcome.value === "" || one.outcome === outcome.value) &&
        words.every((word) => has(one, suite, word));
      if (one.hidden === visible) {
        one.hidden = !visible;
        one.details.hidden = !visible;
      }
      any = any || visible;
      count += visible && one.outcome ? 1 : 0;
    }
    const broken = suite.broken && outcome.value === "" && words.every((word) => suite.path.includes(word));
    suite.section.hidden = !any && !broken;
  }
  shown.textContent = count === 1 ? "1 case" : `${count} cases`;
}
let waiting = 0;
filter.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(apply, 80);
});
outcome.addEventListener("change", apply);
problems.addEventListener("change", apply);
// A link may contain a filter (`#q=labels&outcome=fail&problems`) or the case to open.
const wanted = new URLSearchParams(location.hash.slice(1));
if (wanted.has("q")) filter.value = wanted.get("q");
if (wanted.has("outcome")) outcome.value = wanted.get("outcome");
if (wanted.has("problems")) problems.checked = true;
apply();
const target = document.getElementById(location.hash.slice(1));
if (target) target.open = true;
