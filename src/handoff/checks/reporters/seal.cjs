// Says each result in a numbered line under a key, into a pipe that only the runner's process holds. Nothing of the project is loaded here.
"use strict";
const { writeSync, readSync } = require("node:fs");
const { createHmac } = require("node:crypto");
const stringify = JSON.stringify;
const { from } = Buffer;
const MOST = 40000;

const told = () => {
  const parts = [];
  const part = Buffer.alloc(65536);
  for (;;) {
    const size = readSync(0, part, 0, part.length, null);
    if (size === 0) break;
    parts.push(from(part.subarray(0, size)));
    if (part[size - 1] === 10) break;
  }
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
};

const open = () => {
  const fd = Number(process.env.RESULTS_CHANNEL ?? "");
  delete process.env.RESULTS_CHANNEL;
  if (!fd) return null;
  const key = from(told().key, "hex");
  let number = 0;
  return (body) => {
    const text = from(stringify([number, body]), "utf8");
    const line = Buffer.concat([from(createHmac("sha256", key).update(text).digest("hex") + " "), text, from("\n")]);
    number += 1;
    for (let at = 0; at < line.length; ) {
      try {
        at += writeSync(fd, line, at);
      } catch (error) {
        if (error.code !== "EAGAIN") throw error;
      }
    }
  };
};

const cut = (text) => (text.length <= MOST ? text : text.slice(0, MOST / 4) + "\n…\n" + text.slice((-MOST / 4) * 3));

// Whatever was thrown, in words; a value that fights being looked at says nothing.
const words = (error) => {
  try {
    const cause = error?.cause ?? error;
    const name = String(cause?.name ?? "");
    const said = String(cause?.message ?? cause ?? "");
    const stack = String(cause?.stack ?? "");
    return cut((stack.includes(said) ? "" : `${name}: ${said}\n`) + stack + (cause?.code ? `\n${String(cause.code)}` : ""));
  } catch {
    return "";
  }
};

let say = open();
// Once: who comes later gets nothing to speak with.
const take = () => {
  const mine = say;
  say = null;
  return mine;
};

module.exports = { take, words };
