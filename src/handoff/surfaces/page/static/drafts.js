// Words that were typed and not sent yet: they outlive a redrawn part, a reload and a wrong key, in this tab alone.

export const words = "form.act textarea, form.act input[name=text]";

export const dirty = (field) => field.value !== field.defaultValue;

// A draft belongs to a field and to what was asked: the same field of a later question begins empty.
function place(field) {
  const line = field.form.querySelector("input[name=place]")?.value ?? "";
  const asked = field.closest(".card")?.querySelector(".question")?.textContent ?? "";
  return ["draft", location.pathname, field.id, line, asked].join("\n");
}

function remembered(act) {
  try {
    return act();
  } catch {
    return null; // a browser that keeps nothing still shows the page
  }
}

// What forgets a draft: made while the field still stands beside its question.
export function eraser(field) {
  const where = place(field);
  return () => remembered(() => sessionStorage.removeItem(where));
}

export function restore() {
  for (const field of document.querySelectorAll(words)) {
    if (dirty(field)) continue;
    const kept = remembered(() => sessionStorage.getItem(place(field)));
    if (!kept) continue;
    field.value = kept;
    field.closest("details")?.setAttribute("open", "");
  }
}

document.addEventListener("input", (event) => {
  const field = event.target;
  if (!field.matches?.(words)) return;
  if (dirty(field)) remembered(() => sessionStorage.setItem(place(field), field.value));
  else eraser(field)();
});
