// What the page does besides being a page: it follows the relay, counts clocks, sends forms without leaving, copies commands.
// Without this script everything still works, by reloading.

import { dirty, eraser, restore, words } from "./drafts.js";
import "./keys.js";

const body = document.body;
const csrf = document.querySelector("meta[name=csrf]").content;
const live = document.getElementById("live");
const SILENT = 25000; // two beats and a half: for connections that end without a word
const AGAIN = 3000;
let at = body.dataset.at;
let source = null;
let heard = Date.now();

// --- morphing: the least change that makes the old look like the new ---------------------------------------------

const busy = (node) => node === document.activeElement && node.matches("input, textarea, select");

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id || "") !== (fresh.id || "")) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.dataset.keep !== undefined || old.isEqualNode(fresh) || busy(old) || old.matches("textarea")) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name === "open" && old.matches("details")) continue; // what a person opened or closed stays so
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  children(old, fresh);
}

function children(old, fresh) {
  const named = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const known = next.id ? named.get(next.id) : null;
    if (known) {
      if (known !== place) old.insertBefore(known, place);
      else place = place.nextSibling;
      morph(known, next);
    } else if (place && !place.id && !next.id && place.nodeName === next.nodeName) {
      const following = place.nextSibling;
      morph(place, next);
      place = following;
    } else {
      if (next.nodeType === Node.ELEMENT_NODE && next.id) next.classList.add("fresh");
      old.insertBefore(next, place);
    }
  }
  while (place) {
    const following = place.nextSibling;
    if (!keeps(place)) place.remove();
    place = following;
  }
}

// What somebody is writing in does not vanish under the hands, also when it was decided elsewhere meanwhile. News may be quicker
// than the answer to words that were just sent: what would go waits for that answer. Which forms were sent is kept here and not
// at the forms, which any news draws anew.
const sent = new Set();
const late = new Set();

function keeps(node) {
  if (node.nodeType !== Node.ELEMENT_NODE || ![...node.querySelectorAll(words)].some(dirty)) return false;
  if (node.classList.contains("gone")) return true;
  if ([...sent].some((form) => node.contains(form))) {
    late.add(node);
    return true;
  }
  node.classList.add("gone");
  const note = document.createElement("p");
  note.className = "gone-note";
  note.setAttribute("role", "status");
  note.textContent = "This is not open any more: it was decided elsewhere, or has changed. Your words are still here. ";
  const away = document.createElement("button");
  away.type = "button";
  away.textContent = "Drop my words";
  away.addEventListener("click", () => {
    for (const field of node.querySelectorAll(words)) eraser(field)();
    node.remove();
  });
  note.append(away);
  node.prepend(note);
  for (const one of node.querySelectorAll("button")) if (one !== away) one.disabled = true;
  return true;
}

// --- following -----------------------------------------------------------------------------------------------------

function take(named) {
  for (const [id, html] of Object.entries(named)) {
    const old = document.getElementById(id);
    if (!old) continue;
    const made = document.createElement("template");
    made.innerHTML = html; // drawn by our own server with everything escaped
    fill(made.content);
    morph(old, made.content.firstElementChild);
  }
  restore();
  tell();
  tick();
}

function fill(root) {
  for (const field of root.querySelectorAll("input[name=csrf]")) field.setAttribute("value", csrf);
}

function tell() {
  const needs = document.getElementById("needs-count");
  if (!needs) return;
  const count = Number(needs.dataset.count);
  document.title = `${count ? `(${count}) ` : ""}${body.dataset.title} · handoff`;
  for (const one of document.querySelectorAll(".count")) one.textContent = count || "";
  document.querySelector("link[rel=icon]").href = `/icon.svg?n=${count}`;
}

function say(words, off) {
  live.title = "";
  live.classList.toggle("off", off);
  live.querySelector(".said").textContent = words;
  live.querySelector(".dot").hidden = false;
}

const lives = () => !live.classList.contains("off");

function alive() {
  heard = Date.now();
  say("live", false);
}

function lost(since) {
  if (!lives()) return;
  say(`not live since ${two(since.getHours())}:${two(since.getMinutes())}`, true);
  live.title = "What serves this page has ended or cannot be reached. To serve it again: handoff page";
}

function follow() {
  if (!body.dataset.of || document.hidden || source) return;
  source = new EventSource(`/events?of=${body.dataset.of}&project=${encodeURIComponent(body.dataset.project)}&since=${encodeURIComponent(at)}`);
  source.addEventListener("open", alive);
  source.addEventListener("error", () => {
    lost(new Date());
    if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    rest();
    setTimeout(follow, AGAIN);
  });
  source.addEventListener("beat", alive);
  source.addEventListener("message", (event) => {
    alive();
    at = event.lastEventId || at;
    take(JSON.parse(event.data));
  });
  source.addEventListener("news", (event) => {
    alive();
    at = event.lastEventId || at;
    refresh();
  });
  source.addEventListener("trouble", (event) => {
    const words = JSON.parse(event.data);
    if (words) say(`not live: ${words}`, true);
    else alive();
  });
  source.addEventListener("reload", () => {
    rest();
    location.reload();
  });
}

let asking = false;

function refresh() {
  if (asking) return;
  asking = true;
  setTimeout(async () => {
    asking = false;
    try {
      const here = new URL(location.href);
      here.searchParams.delete("result");
      const answer = await fetch(here);
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = fresh.title;
      document.querySelector("link[rel=icon]").href = fresh.querySelector("link[rel=icon]").getAttribute("href");
      document.querySelector(".count").textContent = fresh.querySelector(".count").textContent;
      morph(document.querySelector("main"), fresh.querySelector("main"));
      restore();
      tick();
    } catch {
      // the next news asks again
    }
  }, 700);
}

function rest() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
window.addEventListener("pagehide", rest);
window.addEventListener("pageshow", follow);
for (const change of ["offline", "online"]) {
  window.addEventListener(change, () => {
    rest(); // a page of this machine is there without any network: whether it is, the next connection says
    follow();
  });
}

// --- clocks --------------------------------------------------------------------------------------------------------

const two = (number) => String(number).padStart(2, "0");

function ago(seconds) {
  if (seconds < 60) return "now";
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

function tick() {
  const now = Date.now() / 1000;
  for (const one of document.querySelectorAll("time[data-clock]")) {
    const whole = Math.max(0, Math.floor(now - Number(one.dataset.clock)));
    const hours = Math.floor(whole / 3600);
    const rest = `${Math.floor(whole / 60) % 60}:${two(whole % 60)}`;
    const words = hours ? `${hours}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}` : rest;
    if (one.textContent !== words) one.textContent = words;
  }
  for (const one of document.querySelectorAll("time[data-at]")) {
    const words = ago(now - Number(one.dataset.at));
    if (one.textContent !== words) one.textContent = words;
    const when = new Date(Number(one.dataset.at) * 1000).toLocaleString();
    if (one.title !== when) one.title = when;
  }
}

setInterval(() => {
  if (source && Date.now() - heard > SILENT) lost(new Date(heard));
  if (!document.hidden && lives()) tick(); // else clocks stop: what they count may be over
}, 1000);

// --- forms and commands --------------------------------------------------------------------------------------------

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form.act")) return;
  event.preventDefault();
  if (sent.has(form)) return; // news may have drawn its buttons anew
  sent.add(form);
  const buttons = form.querySelectorAll("button");
  for (const one of buttons) one.disabled = true;
  const erasers = [...form.querySelectorAll(words)].map(eraser);
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams(new FormData(form)),
    });
    const said = answer.ok ? (await answer.json()).results : [{ code: 1, command: "", text: "This was refused. Reload the page and try again." }];
    show(said);
    if (said.every((one) => one.code === 0)) {
      for (const erase of erasers) erase();
      form.reset();
      form.closest("details.asks")?.removeAttribute("open");
      if (form.id === "comment-form") history.replaceState(null, "", location.pathname);
      if (body.dataset.of === "page") refresh();
    }
  } catch {
    show([{ code: 1, command: "", text: "The relay's page does not answer. Is it still running?" }]);
  } finally {
    for (const one of buttons) one.disabled = one.dataset.grey !== undefined;
    sent.delete(form);
    for (const node of [...late].filter((one) => one.contains(form))) {
      late.delete(node);
      if (!keeps(node)) node.remove();
    }
  }
});

function show(results) {
  const place = document.getElementById("results");
  place.replaceChildren(
    ...results.map((one) => {
      const box = document.createElement("div");
      box.className = `result ${one.code ? "bad" : "good"}`;
      box.setAttribute("role", "status");
      const words = document.createElement("p");
      words.textContent = one.text;
      box.append(words);
      if (one.command) {
        const line = document.createElement("p");
        line.className = "command";
        const command = document.createElement("code");
        command.textContent = one.command;
        const copy = document.createElement("button");
        Object.assign(copy, { type: "button", className: "copy", textContent: "copy", ariaLabel: `Copy the command ${one.command}` });
        copy.dataset.copy = one.command;
        line.append(command, copy);
        box.append(line);
      }
      return box;
    }),
  );
  place.scrollIntoView({ block: "nearest" });
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "selected";
  }
  setTimeout(() => (button.textContent = "copy"), 1500);
});

fill(document);
restore();
tick();
follow();
