// A reporter for vitest: it lives in vitest's own process, the tests in those of its workers.
import { createRequire } from "node:module";

const { take, words } = createRequire(import.meta.url)("./seal.cjs");
const STATES = { pass: "passed", fail: "failed", skip: "skipped", todo: "skipped" };

export default class Witness {
  #say = take();

  // Vitest 3 and newer; its modules carry the tasks that older ones hand over.
  onTestRunEnd(modules, errors) {
    this.onFinished(modules.map((one) => one.task), errors);
  }

  onFinished(files = [], errors = []) {
    const say = this.#say;
    if (!say) return;
    this.#say = null;
    for (const file of files) {
      this.#walk(say, file, file.tasks, []);
      if (file.result?.state === "fail" && file.result.errors?.length) {
        say({ t: "load", file: file.filepath, text: file.result.errors.map(words).join("\n") });
      }
    }
    for (const error of errors) say({ t: "stray", text: words(error) });
    say({ t: "end" });
  }

  #walk(say, file, tasks, above) {
    for (const task of tasks) {
      const name = [...above, task.name];
      if (task.type === "suite") {
        this.#walk(say, file, task.tasks, name);
        continue;
      }
      const state = task.result?.state ?? task.mode;
      say({
        t: "case",
        file: file.filepath,
        name,
        status: STATES[state] ?? "skipped",
        text: (task.result?.errors ?? []).map(words).join("\n"),
        seconds: (task.result?.duration ?? 0) / 1000,
      });
    }
  }
}
