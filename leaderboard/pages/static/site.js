"use strict";
/* Theme, sorting and filtering. Without it every table can be read; with it the view's state is in the address. */
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const theme = stored();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  const state = () => new URLSearchParams(location.hash.slice(1));
  const keep = (changes) => {
    const now = state();
    for (const [key, value] of Object.entries(changes)) value ? now.set(key, value) : now.delete(key);
    const text = now.toString();
    history.replaceState(null, "", text ? "#" + text : location.pathname.split("/").pop() + location.search);
    links();
  };
  /* Links to the same view of another metric keep its filters. */
  const links = () => {
    for (const link of document.querySelectorAll("a[data-keep]")) {
      link.hash = location.hash.includes("=") ? location.hash : "";
    }
  };

  const themeSwitch = () => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "theme";
    const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", (dark() ? "Light" : "Dark") + " colours"); };
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a browser may refuse to store */ }
      name();
    });
    name();
    document.querySelector(".top").append(button);
  };

  const valueOf = (cell) => {
    const text = cell.dataset.v ?? cell.firstChild?.textContent?.trim() ?? "";
    const whole = cell.dataset.v ?? cell.textContent.trim();
    const number = parseFloat((text === "~" || text === "*" ? whole.slice(1) : whole).replace(/^<\./, "0.").replace(/,/g, ""));
    return Number.isNaN(number) ? null : number;
  };
  const sortBy = (table, column, descending) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => {
      const cell = row.cells[column];
      return { row, number: cell ? valueOf(cell) : null, text: cell ? cell.textContent.trim() : "" };
    });
    const numeric = rows.filter((item) => item.number !== null).length > rows.filter((item) => item.text).length / 2;
    const sign = descending ? -1 : 1;
    rows.sort((a, b) => {
      const none = numeric ? (a.number === null) - (b.number === null) : (a.text === "") - (b.text === "");
      if (none) return none;
      return sign * (numeric ? a.number - b.number : a.text.localeCompare(b.text));
    });
    body.append(...rows.map((item) => item.row));
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    table.tHead.rows[0].cells[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
  };
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      const link = head.querySelector("a");
      if (link) {
        /* The name stays a link; the button next to it sorts. */
        button.setAttribute("aria-label", "sort by " + head.textContent.trim());
        head.prepend(button);
      } else {
        button.append(...head.childNodes);
        head.append(button);
      }
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const down = now ? now === "ascending" : head.classList.contains("n");
        sortBy(table, column, down);
        if (table.id) keep({ sort: column + (down ? "d" : "a") });
      });
    });
    const asked = table.id && /^(\d+)([ad])$/.exec(state().get("sort") ?? "");
    if (asked && heads[asked[1]]) sortBy(table, Number(asked[1]), asked[2] === "d");
  };

  const filtering = (form) => {
    const table = document.getElementById(form.dataset.for);
    if (!table) return;
    const fields = [...form.elements].filter((item) => item.name && item.name !== "data");
    const picks = [...form.querySelectorAll("[name=data]")];
    const apply = () => {
      const value = Object.fromEntries(fields.map((item) => [item.name, item.value]));
      const words = (value.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      const columns = picks.map((item) => item.checked);
      const some = columns.includes(false);
      let shown = 0;
      const offset = table.tHead.rows[0].cells.length - columns.length;
      for (const row of table.tBodies[0].rows) {
        const flags = row.dataset.k ?? "";
        const text = (row.querySelector("th")?.textContent ?? "").toLowerCase();
        let show = words.every((word) => text.includes(word));
        show &&= !value.family || row.dataset.f === value.family;
        show &&= !value.llm || (value.llm === "y") === flags.includes("l");
        show &&= !value.learns || (value.learns === "y") === flags.includes("t");
        show &&= !some || columns.some((on, i) => on && row.cells[offset + i]?.textContent.trim());
        row.hidden = !show;
        shown += show;
        if (columns.length) columns.forEach((on, i) => { const cell = row.cells[offset + i]; if (cell) cell.hidden = !on; });
      }
      columns.forEach((on, i) => { table.tHead.rows[0].cells[offset + i].hidden = !on; });
      const all = table.tBodies[0].rows.length;
      form.querySelector("output").textContent = shown === all ? `${all} rows` : `${shown} of ${all} rows`;
      const off = columns.flatMap((on, i) => on ? [] : [i]);
      keep({ ...value, without: off.join(".") });
    };
    const now = state();
    for (const item of fields) if (now.has(item.name)) item.value = now.get(item.name);
    const off = (now.get("without") ?? "").split(".");
    picks.forEach((item, i) => { item.checked = !off.includes(String(i)); });
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  };

  document.addEventListener("DOMContentLoaded", () => {
    themeSwitch();
    document.querySelectorAll("table.sortable").forEach(sortable);
    document.querySelectorAll("form.filters[data-for]").forEach(filtering);
    links();
    /* A row's numbers over datasets lead where its name does: one stop of the Tab key is enough. */
    document.querySelectorAll('#overall tbody td > a[href^="m/"]').forEach((link) => { link.tabIndex = -1; });
    /* Only what can be scrolled is a stop of the Tab key; what has the focus scrolls clear of the heads that stay. */
    const watch = new ResizeObserver((seen) => {
      for (const { target } of seen) {
        const name = target.querySelector(".board tbody th");
        if (name) target.style.scrollPadding = `${target.querySelector("thead").offsetHeight}px 0 0 ${name.offsetWidth}px`;
        target.tabIndex = target.scrollWidth > target.clientWidth + 1 || target.scrollHeight > target.clientHeight + 1 ? 0 : -1;
      }
    });
    document.querySelectorAll(".scroll").forEach((box) => watch.observe(box));
    /* A link to a section inside a closed part opens it. */
    const open = () => {
      if (!location.hash || location.hash.includes("=")) return;
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      target?.querySelector("details")?.setAttribute("open", "");
    };
    open();
    addEventListener("hashchange", open);
    for (const menu of document.querySelectorAll("details.pick")) {
      document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
      menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); } });
    }
  });
})();
