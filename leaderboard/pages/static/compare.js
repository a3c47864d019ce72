"use strict";
/* Methods side by side. The address holds their names, the first being what the others are compared with. */
(() => {
  const form = document.getElementById("choose");
  if (!form) return;
  const box = document.getElementById("compared");
  const presets = document.getElementById("presets");
  const say = form.querySelector("output");
  const metric = document.getElementById("metric").textContent;
  const boards = [...document.querySelectorAll("#boards li")].map((item) => ({ name: item.textContent, slug: item.dataset.slug, ranked: item.dataset.ranked === "y" }));
  /* Name in addresses -> what a reader calls it. */
  const known = new Map([...form.elements.base.options].filter((item) => item.value).map((item) => [item.value, item.textContent]));
  const data = new Map();
  let chosen = [];
  let loading = null;

  window.benchPairs = (slug, found) => { data.set(slug, found); };
  const load = (slug) => new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = `c/${slug}.js`;
    script.onload = done;
    script.onerror = () => fail(new Error(`cannot load c/${slug}.js`));
    document.head.append(script);
  });
  const all = () => loading ??= Promise.all(boards.map((board) => load(board.slug)));

  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  /* As the pages and the commands write them: what rounds to zero has no sign. */
  const signed = (value) => {
    const text = Math.abs(value).toFixed(3);
    return Number(text) === 0 ? text : (value < 0 ? "-" : "+") + text;
  };
  /* The end of an interval that is not zero has a sign, so that it shows on which side of zero it lies. */
  const end = (value) => Math.abs(value) >= 1e-12 && Math.abs(value) < 5e-4 ? (value < 0 ? "-" : "+") + "0.000" : signed(value);
  const shownP = (p) => p < 0.001 ? "<.001" : p >= 0.9995 ? "1" : p.toFixed(3).replace(/^0/, "");
  const turned = { better: "worse", worse: "better" };
  /* The second of two rows less the first. Pairs are stored for i < j, row by row. */
  const between = (found, first, second) => {
    const i = Math.min(first, second), j = Math.max(first, second), n = found.rows.length;
    const pair = found.pairs[i * n - i * (i + 1) / 2 + j - i - 1];
    if (!pair) return null;
    const [d, low, high, p, wins, losses, verdict] = pair;
    return second < first ? { d, low, high, p, wins, losses, verdict }
      : { d: -d, low: high === null ? null : -high, high: low === null ? null : -low, p, wins: losses, losses: wins, verdict: turned[verdict] ?? verdict };
  };
  const table = (base, other) => {
    const made = make("section");
    const [first, second] = [base, other].map((name) => known.get(name));
    const title = make("h2", second + " ");
    title.append(make("small", "less " + first));
    const drop = make("button", "Remove");
    drop.type = "button";
    drop.setAttribute("aria-label", "Remove " + second);
    drop.addEventListener("click", () => set(chosen.filter((name) => name !== other)));
    const area = make("div", undefined, "scroll");
    area.setAttribute("role", "region");
    area.setAttribute("aria-label", `${second} less ${first}`);
    area.tabIndex = 0;
    const grid = document.getElementById("head").content.firstElementChild.cloneNode(true);
    grid.caption.textContent = `${metric} of ${second} less that of ${first}`;
    const body = grid.createTBody();
    const commands = [];
    const tally = { better: 0, worse: 0, "not decided": 0 };
    for (const board of boards) {
      const found = data.get(board.slug);
      const place = (name) => found.rows.findIndex((row) => row[0] === name);
      const one = found ? place(base) : -1, two = found ? place(other) : -1;
      if (one < 0 || two < 0) continue;
      const pair = between(found, one, two);
      if (!pair) continue;
      const verdict = pair.verdict;
      if (board.ranked && verdict in tally) tally[verdict] += 1;
      const row = body.insertRow();
      const head = make("th");
      head.scope = "row";
      head.append(Object.assign(make("a", board.name), { href: `d/${board.slug}.html` }));
      if (!board.ranked) head.append(make("small", "not in the ranking"));
      row.append(head, make("td", verdict, verdict === "better" ? "good" : verdict === "worse" ? "bad" : ""));
      row.append(make("td", signed(pair.d), "n"));
      row.append(make("td", pair.low === null || pair.high === null ? "" : `${end(pair.low)} to ${end(pair.high)}`, "n q"));
      row.append(make("td", found.decided ? shownP(pair.p) : "", "n"));
      for (const count of [pair.wins, pair.losses]) row.append(make("td", count.toLocaleString("en"), "n"));
      const look = make("td");
      if (found.rows[one][2] && found.rows[two][2]) {
        look.append(Object.assign(make("a", "look"), { href: `e/${board.slug}.html#${new URLSearchParams({ a: base, b: other, by: metric, show: "differ", order: pair.d > 0 ? "worse" : "better" })}` }));
      }
      row.append(look);
      commands.push(`bench compare ${found.rows[one][1]} ${found.rows[two][1]} -m ${metric} --moved 0`);
    }
    made.append(title, drop);
    if (!commands.length) { made.append(make("p", "They share no dataset.")); return made; }
    made.append(make("p", `On the datasets of the ranking: better on ${tally.better}, not decided on ${tally["not decided"]}, worse on ${tally.worse}.`));
    area.append(grid);
    const part = make("details");
    part.append(make("summary", "Commands that compare the two alone"), make("pre", commands.join("\n")));
    made.append(area, part);
    return made;
  };
  const show = async () => {
    form.elements.base.value = chosen[0] ?? "";
    form.elements.add.value = "";
    presets.hidden = chosen.length > 1;
    if (chosen.length < 2) {
      box.replaceChildren();
      say.textContent = chosen.length ? "Add a method." : "";
      return;
    }
    say.textContent = "Loading …";
    try {
      await all();
    } catch (error) {
      say.textContent = `${error.message}.`;
      return;
    }
    box.replaceChildren(...chosen.slice(1).map((name) => table(chosen[0], name)));
    say.textContent = `${chosen.length} methods`;
  };
  const set = (names) => {
    chosen = [...new Set(names)].filter((name) => known.has(name));
    history.replaceState(null, "", chosen.length ? "#" + chosen.map(encodeURIComponent).join(",") : location.pathname.split("/").pop() + location.search);
    return show();
  };
  const read = () => {
    const names = location.hash.slice(1).split(",").filter(Boolean).map((text) => { try { return decodeURIComponent(text); } catch { return ""; } });
    return set(names);
  };
  form.elements.base.addEventListener("change", () => set([form.elements.base.value, ...chosen.slice(1)]));
  form.elements.add.addEventListener("change", () => set([...chosen, form.elements.add.value]));
  form.addEventListener("reset", () => setTimeout(() => set([])));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", read);
  read();
})();
