// A reporter for mocha, which runs tests in its own process.
"use strict";
const { take, words } = require("./seal.cjs");

module.exports = function Witness(runner) {
  const say = take();
  const one = (status) => (test, error) =>
    say({
      t: "case",
      file: test.file ?? test.parent?.file ?? "",
      name: [test.fullTitle()],
      status,
      text: error ? words(error) : "",
      seconds: (test.duration ?? 0) / 1000,
    });
  runner.on("pass", one("passed"));
  runner.on("fail", one("failed"));
  runner.on("pending", one("skipped"));
  runner.once("end", () => say({ t: "end" }));
};
