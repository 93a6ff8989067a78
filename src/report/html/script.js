"use strict";
const filter = document.getElementById("filter");
const problems = document.getElementById("problems");
const shown = document.getElementById("shown");
const suites = [...document.querySelectorAll("section")].map((section) => ({
  section,
  broken: section.querySelector("pre.bad") !== null && section.querySelector(":scope > pre.bad") !== null,
  path: section.querySelector("h2").textContent.toLowerCase(),
  cases: [...section.querySelectorAll("details")].map((details) => ({
    details,
    text: details.textContent.toLowerCase(),
    problem: details.classList.contains("bad"),
  })),
}));
function apply() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const suite of suites) {
    let any = false;
    for (const one of suite.cases) {
      const fits = words.every((word) => one.text.includes(word) || suite.path.includes(word));
      const visible = fits && (one.problem || !problems.checked);
      one.details.hidden = !visible;
      any = any || visible;
      count += visible ? 1 : 0;
    }
    suite.section.hidden = !any && !(suite.broken && words.every((word) => suite.path.includes(word)));
  }
  shown.textContent = `${count} shown`;
}
filter.addEventListener("input", apply);
problems.addEventListener("change", apply);
// A link may say what to look for (`#q=labels&problems`) or which case to open.
const wanted = new URLSearchParams(location.hash.slice(1));
if (wanted.has("q")) filter.value = wanted.get("q");
if (wanted.has("problems")) problems.checked = true;
apply();
const target = document.getElementById(location.hash.slice(1));
if (target) target.open = true;
