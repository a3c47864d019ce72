"use strict";
/* Queries one by one. Blocks of them are scripts that call benchBlock: that works from a file too. */
(() => {
  const box = document.getElementById("explorer");
  if (!box) return;
  const base = box.dataset.source + "/";
  const form = box.querySelector("form");
  const list = box.querySelector(".queries");
  const say = box.querySelector("output");
  const methods = [...document.querySelectorAll("#methods li")].map((item) => ({ name: item.textContent, href: item.dataset.href }));
  const PAGE = 10;
  const blocks = new Map();
  const waiting = new Map();
  let index = null;
  let matches = [];
  let start = 0;

  const load = (file) => new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = base + file;
    script.onload = done;
    script.onerror = () => fail(new Error("cannot load " + file));
    document.head.append(script);
  });
  window.benchIndex = (data) => { index = data; };
  window.benchBlock = (number, data) => { blocks.set(number, data); };
  const block = (number) => {
    if (blocks.has(number)) return Promise.resolve();
    if (!waiting.has(number)) waiting.set(number, load(`q${number}.js`));
    return waiting.get(number);
  };

  const fits = (mark, wanted) => !wanted || (wanted === "x" ? mark === "0" || mark === "1" : mark === wanted);
  const choose = () => {
    const { a, as, b, bs } = form.elements;
    const one = index.found[a.selectedIndex], other = index.found[b.selectedIndex];
    matches = [];
    for (let i = 0; i < index.n; i++) if (fits(one[i], as.value) && fits(other[i], bs.value)) matches.push(i);
  };
  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const words = { 0: "none of its gold in the first ten", 1: "some of its gold in the first ten", 2: "all of its gold in the first ten", "-": "no gold" };
  const item = (place) => {
    const own = blocks.get(Math.floor(place / index.block));
    const [id, text, gold, tops] = own.queries[place % index.block];
    const made = make("li");
    made.append(make("h2", `query ${id}`, "id"));
    if (text !== null) { const shown = make("p", text, "text"); shown.dir = "auto"; made.append(shown); }
    const right = new Set((gold ?? []).map(([name]) => name));
    if (gold) {
      const part = make("details");
      part.append(make("summary", gold.length ? `gold: ${gold.map(([name]) => name).join(", ")}` : "no gold"));
      const rows = make("ul");
      for (const [name, about] of gold) { const row = make("li", about ? `${name}: ${about}` : name); row.dir = "auto"; rows.append(row); }
      part.append(rows);
      made.append(part);
    }
    const columns = tops.map((codes, i) => {
      const column = make("div");
      const head = make("h3");
      const link = make("a", methods[i].name);
      link.href = methods[i].href;
      head.append(link);
      const hits = codes.filter((code) => right.has(own.tools[code])).length;
      head.append(make("small", gold ? (gold.length ? ` ${hits} of ${gold.length} gold` : "") : " " + words[index.found[i][place]]));
      column.append(head);
      const rows = make("ol");
      for (const code of codes) {
        const name = own.tools[code];
        const row = make("li", name, right.has(name) ? "hit" : "");
        if (right.has(name)) row.append(Object.assign(make("span", " (gold)"), { className: "seen-only" }));
        rows.append(row);
      }
      column.append(codes.length ? rows : make("p", "no answer"));
      return column;
    });
    /* The two that are compared are side by side; the others are a click away. */
    const pair = new Set([form.elements.a.selectedIndex, form.elements.b.selectedIndex]);
    const grid = (chosen) => { const made = make("div", undefined, "tops"); made.append(...chosen); return made; };
    made.append(grid([...pair].map((i) => columns[i])));
    const rest = columns.filter((_, i) => !pair.has(i));
    if (rest.length) {
      const part = make("details");
      part.append(make("summary", rest.length === 1 ? "1 other method" : `${rest.length} other methods`), grid(rest));
      made.append(part);
    }
    return made;
  };
  const keep = () => {
    const text = new URLSearchParams();
    for (const field of form.elements) if (field.name && field.value) text.set(field.name, field.value);
    if (start) text.set("at", start);
    history.replaceState(null, "", "#" + text);
  };
  const show = async () => {
    const places = matches.slice(start, start + PAGE);
    try {
      await Promise.all([...new Set(places.map((place) => Math.floor(place / index.block)))].map(block));
    } catch (error) {
      say.textContent = `${error.message}.`;
      return;
    }
    list.replaceChildren(...places.map(item));
    say.textContent = matches.length ? `${start + 1} to ${start + places.length} of ${matches.length} queries` : "No matching queries.";
    box.querySelector("[name=prev]").disabled = start === 0;
    box.querySelector("[name=next]").disabled = start + PAGE >= matches.length;
    keep();
  };
  const begin = async () => {
    try {
      await load("index.js");
    } catch (error) {
      say.textContent = `${error.message}.`;
      return;
    }
    const now = new URLSearchParams(location.hash.slice(1));
    for (const field of form.elements) {
      const asked = field.name ? now.get(field.name) : null;
      /* The address names methods: one that is not here any more is not put in another's place. */
      if (asked !== null && [...(field.options ?? [])].some((item) => item.value === asked)) field.value = asked;
    }
    choose();
    start = Math.min(Math.max(0, Number.parseInt(now.get("at") ?? "0", 10) || 0), Math.max(0, matches.length - 1));
    show();
  };
  const again = () => { start = 0; choose(); show(); };
  form.addEventListener("input", again);
  form.addEventListener("reset", () => setTimeout(again));
  form.addEventListener("submit", (event) => event.preventDefault());
  const turn = (step) => { start = Math.max(0, start + step); show(); box.scrollIntoView(); };
  box.querySelector("[name=prev]").addEventListener("click", () => turn(-PAGE));
  box.querySelector("[name=next]").addEventListener("click", () => turn(PAGE));
  begin();
})();
