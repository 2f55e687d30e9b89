// A reporter for `node --test`, whose tests run in processes of their own, one for each file. Without a key it writes lines of JSON.
import { createRequire } from "node:module";

const { take, words } = createRequire(import.meta.url)("./seal.cjs");

export default async function* results(source) {
  const say = take();
  const path = [];
  for await (const { type, data } of source) {
    if (type === "test:start") {
      path.length = data.nesting;
      path[data.nesting] = data.name;
    }
    let body = null;
    if (type === "test:stderr") body = { t: "printed", file: data.file ?? "", printed: String(data.message).slice(-40000) };
    if (type === "test:pass" || type === "test:fail") {
      body = {
        t: "node",
        file: data.file ?? "",
        name: [...path.slice(0, data.nesting), data.name],
        kind: data.details?.type ?? "test",
        passed: type === "test:pass",
        skipped: data.skip !== undefined || data.todo !== undefined,
        failure: data.details?.error?.failureType ?? "",
        text: type === "test:fail" ? words(data.details?.error) : "",
        seconds: (data.details?.duration_ms ?? 0) / 1000,
      };
    }
    if (body && say) say(body);
    else if (body) yield JSON.stringify(body) + "\n";
  }
  if (say) say({ t: "end" });
}
