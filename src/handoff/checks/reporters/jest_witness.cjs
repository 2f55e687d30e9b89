// A reporter for jest: it lives in jest's own process, the tests in those of its workers.
"use strict";
const { take } = require("./seal.cjs");

module.exports = class Witness {
  #say = take();

  onTestResult(_, found) {
    const file = found.testFilePath;
    for (const one of found.testResults) {
      this.#say({
        t: "case",
        file,
        name: [...one.ancestorTitles, one.title],
        status: one.status,
        text: (one.failureMessages ?? []).join("\n"),
        seconds: (one.duration ?? 0) / 1000,
      });
    }
    if (found.testExecError || (found.failureMessage && !found.testResults.length)) {
      this.#say({ t: "load", file, text: found.failureMessage ?? String(found.testExecError?.message ?? "") });
    }
  }

  onRunComplete() {
    this.#say({ t: "end" });
  }
};
