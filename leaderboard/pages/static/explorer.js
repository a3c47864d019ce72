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
  const PAGE = 10, DEPTH = 10;
  const SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const code = new Map([...SIGNS].map((sign, i) => [sign, i]));
  const blocks = new Map();
  const measured = new Map();
  const waiting = new Map();
  let values = null;
  let texts = null;
  let matches = [];
  let start = 0;

  const fetched = (file) => new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = `${base}${file}.js`;
    script.onload = done;
    script.onerror = () => fail(new Error(`cannot load ${file}.js`));
    document.head.append(script);
  });
  const load = (file) => {
    if (!waiting.has(file)) waiting.set(file, fetched(file));
    return waiting.get(file);
  };
  window.benchValues = (metric, data) => { measured.set(metric, data); };
  window.benchSearch = (data) => { texts = data.texts.map((text) => text.toLowerCase()); };
  window.benchBlock = (number, data) => { blocks.set(number, data); };

  /* A method's value of a query by the metric that is chosen; null for a query without gold. */
  const value = (method, place) => {
    const { codes, levels, width } = values;
    const own = codes[method];
    return levels[width === 1 ? code.get(own[place]) : code.get(own[2 * place]) * 64 + code.get(own[2 * place + 1])];
  };
  const is = { "": () => true, 1: (v) => v === 1, part: (v) => v > 0 && v < 1, 0: (v) => v === 0, below: (v) => v !== null && v < 1 };
  const wins = { "": () => true, better: (d) => d > 0, worse: (d) => d < 0, differ: (d) => d !== 0, equal: (d) => d === 0 };
  const choose = () => {
    const { a, as, b, bs, show, order } = form.elements;
    const words = form.elements.q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const difference = new Map();
    matches = [];
    for (let i = 0; i < values.n; i++) {
      const one = value(a.selectedIndex, i), other = value(b.selectedIndex, i);
      const d = one === null ? null : one - other;
      if (!is[as.value](one) || !is[bs.value](other) || (show.value && (d === null || !wins[show.value](d)))) continue;
      if (!words.every((word) => texts[i].includes(word))) continue;
      difference.set(i, d);
      matches.push(i);
    }
    const sign = { better: -1, worse: 1 }[order.value];
    /* Queries without gold last; equal ones stay in the order of their ids. */
    if (sign) matches.sort((i, j) => {
      const one = difference.get(i), other = difference.get(j);
      return one === null || other === null ? (one === null) - (other === null) : sign * (one - other);
    });
  };
  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const shown = (number) => number.toFixed(3);
  const item = (place) => {
    const own = blocks.get(Math.floor(place / values.block));
    const [id, text, gold, answers] = own.queries[place % values.block];
    const metric = form.elements.by.value;
    const made = make("li");
    const title = make("h2", `query ${id}`, "id");
    const one = value(form.elements.a.selectedIndex, place), other = value(form.elements.b.selectedIndex, place);
    if (one !== null) title.append(make("small", ` ${metric} ${one < other ? "−" : "+"}${shown(Math.abs(one - other))}`));
    made.append(title);
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
    const columns = answers.map((answer, i) => {
      const column = make("div");
      const head = make("h3");
      const link = make("a", methods[i].name);
      link.href = methods[i].href;
      head.append(link);
      const reached = value(i, place);
      head.append(make("small", reached === null ? " no gold" : ` ${metric} ${shown(reached)}`));
      column.append(head);
      if (!answer) { column.append(make("p", "The ranking is not stored here.")); return column; }
      const [codes, ranks] = answer;
      const rows = make("ol");
      for (const code of codes) {
        const name = own.tools[code];
        const row = make("li", name, right.has(name) ? "hit" : "");
        if (right.has(name)) row.append(Object.assign(make("span", " (gold)"), { className: "seen-only" }));
        rows.append(row);
      }
      column.append(codes.length ? rows : make("p", "no answer"));
      const below = (gold ?? []).map(([name], g) => [ranks[g], name]).filter(([rank]) => rank === 0 || rank > DEPTH);
      below.sort(([first], [second]) => (first || Infinity) - (second || Infinity) || 0);
      if (below.length) {
        const more = make("ul", undefined, "below");
        for (const [rank, name] of below) {
          const row = make("li", `${rank ? `${rank}.` : "not ranked:"} ${name}`, "hit");
          row.append(make("span", " (gold)", "seen-only"));
          more.append(row);
        }
        column.append(more);
      }
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
  const show = async (turn) => {
    const places = matches.slice(start, start + PAGE);
    await Promise.all([...new Set(places.map((place) => Math.floor(place / values.block)))].map((number) => load(`q${number}`)));
    if (turn !== asked) return;
    list.replaceChildren(...places.map(item));
    say.textContent = matches.length ? `${start + 1} to ${start + places.length} of ${matches.length} queries` : "No matching queries.";
    box.querySelector("[name=prev]").disabled = start === 0;
    box.querySelector("[name=next]").disabled = start + PAGE >= matches.length;
    keep();
  };
  /* Each choice has a number: what loads for an earlier one comes too late to be shown. */
  let asked = 0;
  const again = async (at = 0) => {
    const turn = ++asked, { by, q } = form.elements;
    try {
      await load("values");
      if (q.value.trim()) await load("search");
      if (turn !== asked) return;
      values = measured.get(by.value);
      choose();
      start = Math.min(Math.max(0, at), Math.max(0, matches.length - 1));
      await show(turn);
    } catch (error) {
      say.textContent = `${error.message}.`;
    }
  };
  const begin = () => {
    const now = new URLSearchParams(location.hash.slice(1));
    for (const field of form.elements) {
      const wanted = field.name ? now.get(field.name) : null;
      /* The address names methods: one that is not here any more is not put in another's place. */
      if (wanted !== null && (!field.options || [...field.options].some((own) => own.value === wanted))) field.value = wanted;
    }
    return again(Number.parseInt(now.get("at") ?? "0", 10) || 0);
  };
  form.addEventListener("input", () => again());
  form.addEventListener("reset", () => setTimeout(again));
  form.addEventListener("submit", (event) => event.preventDefault());
  const turn = (step) => { again(start + step); box.scrollIntoView(); };
  box.querySelector("[name=prev]").addEventListener("click", () => turn(-PAGE));
  box.querySelector("[name=next]").addEventListener("click", () => turn(PAGE));
  begin();
})();
