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
    const number = parseFloat((text === "~" || text === "*" ? whole.slice(1) : whole).replace(/^\(/, "").replace(/^<\./, "0.").replace(/,/g, ""));
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
        if (table.id) keep({ sort: (head.dataset.c ?? column) + (down ? ".d" : ".a") });
      });
    });
    const asked = table.id && /^(.+)\.([ad])$/.exec(state().get("sort") ?? "");
    const place = asked ? heads.findIndex((head, column) => (head.dataset.c ?? String(column)) === asked[1]) : -1;
    if (place >= 0) sortBy(table, place, asked[2] === "d");
  };

  const filtering = (form) => {
    const table = document.getElementById(form.dataset.for);
    if (!table) return;
    const fields = [...form.elements].filter((item) => item.name && item.name !== "col");
    const picks = [...form.querySelectorAll("[name=col]")];
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    const columns = () => {
      for (const pick of picks) {
        const place = heads.findIndex((head) => head.dataset.c === pick.value);
        if (place < 0 || heads[place].hidden === !pick.checked) continue;
        for (const row of [table.tHead.rows[0], ...rows]) if (row.cells[place]) row.cells[place].hidden = !pick.checked;
      }
    };
    /* Names of columns in the address: a place would be another column on the next board. */
    const named = (fits) => picks.filter(fits).map((pick) => encodeURIComponent(pick.value)).join(",");
    const apply = () => {
      const value = Object.fromEntries(fields.map((item) => [item.name, item.value]));
      const words = (value.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const flags = row.dataset.k ?? "";
        const head = row.querySelector("th");
        /* A method is found by its name and by its spec. */
        const text = `${head?.textContent ?? ""} ${head?.querySelector("a")?.title ?? ""}`.toLowerCase();
        let show = words.every((word) => text.includes(word));
        show &&= !value.family || row.dataset.f === value.family;
        show &&= !value.llm || (value.llm === "y") === flags.includes("l");
        show &&= !value.learns || (value.learns === "y") === flags.includes("t");
        show &&= !value.origin || (value.origin === "n") === flags.includes("c");
        /* Who searches sees every row that fits. */
        show &&= !row.dataset.u || Boolean(value.variants) || words.length > 0;
        row.hidden = !show;
        shown += show;
      }
      for (const button of table.querySelectorAll(".variants")) button.setAttribute("aria-expanded", String(Boolean(value.variants)));
      columns();
      form.querySelector("output").textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
      const changed = (on) => named((pick) => pick.checked === on && pick.defaultChecked !== on);
      keep({ ...value, show: changed(true), hide: changed(false) });
    };
    const now = state();
    for (const item of fields) if (now.has(item.name)) item.value = now.get(item.name);
    const asked = (key) => (now.get(key) ?? "").split(",").map((text) => { try { return decodeURIComponent(text); } catch { return ""; } });
    const [show, hide] = [asked("show"), asked("hide")];
    for (const pick of picks) pick.checked = (pick.defaultChecked || show.includes(pick.value)) && !hide.includes(pick.value);
    for (const button of form.querySelectorAll("[data-all]")) {
      button.addEventListener("click", () => {
        const own = picks.filter((pick) => pick.value.startsWith(button.dataset.all));
        const on = !own.every((pick) => pick.checked);
        for (const pick of own) pick.checked = on;
        apply();
      });
    }
    for (const row of rows.filter((item) => item.dataset.w)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "variants";
      button.textContent = `variants: ${row.dataset.w}`;
      button.addEventListener("click", () => {
        const menu = form.elements.namedItem("variants");
        menu.value = menu.value ? "" : "y";
        apply();
      });
      row.querySelector("th").append(button);
    }
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
    table.classList.add("ready");
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
