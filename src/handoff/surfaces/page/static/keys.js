// Keys: those of the board in the terminal, as far as a page has them. What a page has of its own carries its key as data-key.

const help = document.getElementById("keys");
const lines = "article.card, main li.row[id]";

const chosen = () => document.activeElement?.closest(lines);

function choose(to) {
  const found = [...document.querySelectorAll(lines)].filter((one) => one.offsetParent !== null);
  if (!found.length) return;
  const now = found.indexOf(chosen());
  const line = found[Math.max(0, Math.min(found.length - 1, to(now, found)))];
  if (!line.hasAttribute("tabindex")) line.tabIndex = -1;
  line.focus();
  line.scrollIntoView({ block: "nearest" });
}

const acts = {
  j: () => choose((now) => now + 1),
  k: () => choose((now) => now - 1),
  g: () => choose(() => 0),
  G: () => choose((now, found) => found.length - 1),
  n: () => {
    const waiting = [...document.querySelectorAll("#needs article.card")];
    if (!waiting.length) location.assign("/");
    const next = waiting[waiting.indexOf(chosen()) + 1] ?? waiting[0];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  },
  a: () => (chosen() ?? document.querySelector("#asked, #needs article.card"))?.querySelector(".acts button")?.focus(),
  r: () => chosen()?.querySelector("input[name=act][value=retry]")?.form.requestSubmit(),
  d: () => {
    const task = chosen()?.querySelector("a[href^='/task/']")?.getAttribute("href") ?? location.pathname;
    if (task.startsWith("/task/")) location.assign(task.replace("/task/", "/diff/"));
  },
  t: () => {
    const form = document.querySelector("details[id$=-take]");
    const task = chosen()?.querySelector("a[href^='/task/']")?.getAttribute("href");
    if (form) form.querySelector("summary").click();
    else if (task) location.assign(`${task}#take`);
  },
  c: () => (chosen() ?? document.querySelector("main")).querySelector("button.copy")?.click(),
  L: () => location.assign("/journal"),
  "/": () => {
    const field = document.getElementById("q");
    if (!field) location.assign("/board#q");
    field?.focus();
    field?.select();
  },
  A: () => location.assign("/#add"),
  "?": () => help.showModal(),
  Enter: () => {
    if (chosen() === document.activeElement) chosen()?.querySelector("a[href]")?.click();
  },
  Escape: () => {
    if (new URLSearchParams(location.search).has("q")) location.assign(location.pathname);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const page = /^[1-9]$/.test(event.key) && document.querySelectorAll(".top nav > a")[Number(event.key) - 1];
  const own = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key.split(" ").includes(event.key));
  const act = acts[event.key];
  if (!page && !own && !act) return;
  if (event.key !== "Enter" && event.key !== "Escape") event.preventDefault();
  if (page) page.click();
  else if (own) own.click();
  else act();
});

document.addEventListener("click", (event) => {
  if (event.target.closest("#add > summary")) setTimeout(() => document.getElementById("add-text").focus());
  if (event.target.closest("[id$=-take] > summary")) setTimeout(() => document.querySelector("[id$=-take] input[name=to]").focus());
  if (event.target.closest("button.keys")) help.showModal();
});

if (location.hash === "#q") acts["/"]();
if (location.hash === "#take") acts.t();
if (location.hash === "#add") document.querySelector("#add > summary")?.click();
