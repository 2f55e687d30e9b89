// A reporter for `node --test`: one line of JSON for each test, with the file it stands in and what that file printed.
const words = (error) => {
  const cause = error?.cause ?? error;
  return cause?.stack ?? `${cause?.name ?? ""}: ${cause?.message ?? cause ?? ""}`;
};

export default async function* results(source) {
  const path = [];
  for await (const { type, data } of source) {
    if (type === "test:start") {
      path.length = data.nesting;
      path[data.nesting] = data.name;
    }
    if (type === "test:stderr") {
      yield JSON.stringify({ file: data.file ?? "", printed: data.message }) + "\n";
    }
    if (type !== "test:pass" && type !== "test:fail") continue;
    yield JSON.stringify({
      file: data.file ?? "",
      name: [...path.slice(0, data.nesting), data.name],
      kind: data.details?.type ?? "test",
      passed: type === "test:pass",
      skipped: data.skip !== undefined || data.todo !== undefined,
      failure: data.details?.error?.failureType ?? "",
      text: type === "test:fail" ? words(data.details?.error) : "",
      seconds: (data.details?.duration_ms ?? 0) / 1000,
    }) + "\n";
  }
}
