"use strict";
(() => {
  // src/live.ts
  var END = 4;
  var SCROLLED = "pre[id], .long[id]";
  var WIDE = ".sections, .wide";
  function nameOf(element) {
    if (element.id) return `#${element.id}`;
    if (element instanceof HTMLAnchorElement) return `a ${element.getAttribute("href") ?? ""}`;
    if (!(element instanceof HTMLButtonElement) || !element.form) return "";
    const sent = [...element.form.querySelectorAll("input[type=hidden]")].map((input) => input.value);
    return ["button", ...sent, element.value].join(" ");
  }
  function focused(main2) {
    const element = document.activeElement;
    if (!element || !main2.contains(element)) return null;
    const typed = element instanceof HTMLInputElement && element.type === "text" ? element : null;
    return { name: nameOf(element), from: typed?.selectionStart ?? null, to: typed?.selectionEnd ?? null };
  }
  function refocus(main2, focus) {
    if (!focus.name) return;
    const element = [...main2.querySelectorAll("[id], a[href], button")].find((one) => nameOf(one) === focus.name);
    element?.focus({ preventScroll: true });
    if (element instanceof HTMLInputElement && focus.from !== null) element.setSelectionRange(focus.from, focus.to);
  }
  function keep(main2) {
    const open = new Set([...main2.querySelectorAll("details[open]")].map((element) => element.id));
    const scrolled = /* @__PURE__ */ new Map();
    for (const pre of main2.querySelectorAll(SCROLLED)) {
      const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - END;
      scrolled.set(pre.id, atEnd ? null : pre.scrollTop);
    }
    const typed = /* @__PURE__ */ new Map();
    for (const input of main2.querySelectorAll("input[id]")) typed.set(input.id, input.value);
    const sideways = [...main2.querySelectorAll(WIDE)].map((element) => element.scrollLeft);
    return { open, scrolled, sideways, focus: focused(main2), typed };
  }
  function restore(main2, kept) {
    for (const id of kept.open) {
      const element = document.getElementById(id);
      if (element instanceof HTMLDetailsElement) element.open = true;
    }
    for (const pre of main2.querySelectorAll(SCROLLED)) pre.scrollTop = kept.scrolled.get(pre.id) ?? pre.scrollHeight;
    main2.querySelectorAll(WIDE).forEach((element, at) => {
      element.scrollLeft = kept.sideways[at] ?? 0;
    });
    for (const input of main2.querySelectorAll("input[id]")) {
      const value = kept.typed.get(input.id);
      if (value !== void 0) input.value = value;
    }
    if (kept.focus) refocus(main2, kept.focus);
  }
  function isHeld(main2) {
    const chosen = getSelection();
    const isMarked = chosen !== null && !chosen.isCollapsed && main2.contains(chosen.anchorNode);
    return isMarked || document.querySelector("#sure.asked") !== null;
  }
  function showWaiting(count) {
    const badge = document.getElementById("waiting");
    if (!badge) return;
    badge.textContent = count;
    badge.hidden = count === "0";
  }
  function keepLive(main2, shown) {
    for (const pre of main2.querySelectorAll('.log[id^="tail-"]')) pre.scrollTop = pre.scrollHeight;
    const at = main2.dataset["at"];
    const live = document.getElementById("live");
    if (!at || !live) return;
    let waiting = null;
    const show = (text) => {
      waiting = null;
      const kept = keep(main2);
      const parsed = new DOMParser().parseFromString(text, "text/html");
      main2.replaceChildren(...parsed.body.childNodes);
      restore(main2, kept);
      shown();
    };
    const source = new EventSource(`/live?at=${encodeURIComponent(at)}`);
    source.onopen = () => {
      live.textContent = "live";
      live.className = "live on";
    };
    source.onerror = () => {
      const ended = source.readyState === EventSource.CLOSED;
      live.textContent = ended ? "session ended: run hothouse ui" : "not connected";
      live.className = "live off";
    };
    source.addEventListener("waiting", (event) => showWaiting(event.data));
    source.onmessage = (event) => {
      if (isHeld(main2)) waiting = event.data;
      else show(event.data);
    };
    const release = () => {
      if (waiting !== null && !isHeld(main2)) show(waiting);
    };
    document.addEventListener("selectionchange", release);
    document.addEventListener("close", () => setTimeout(release), true);
    addEventListener("pagehide", () => source.close());
  }

  // src/page.ts
  function localTimes(main2) {
    for (const element of main2.querySelectorAll("time[datetime]")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      element.textContent = time.toLocaleTimeString([], { hour12: false });
      element.title = time.toLocaleString();
    }
  }
  function showSection(main2) {
    const here = main2.querySelector(".sections [aria-current]");
    const line = here?.parentElement;
    if (!here || !line) return;
    const inside = here.getBoundingClientRect().left - line.getBoundingClientRect().left;
    line.scrollLeft += inside - (line.clientWidth - here.offsetWidth) / 2;
  }
  function confirmForms() {
    const dialog = document.getElementById("sure");
    const text = document.getElementById("sure-text");
    if (!(dialog instanceof HTMLDialogElement) || !text) return;
    document.addEventListener("submit", (event) => {
      const button = event.submitter;
      const question = button instanceof HTMLElement ? button.dataset["confirm"] : void 0;
      if (!question || !(event.target instanceof HTMLFormElement) || !(button instanceof HTMLButtonElement)) return;
      event.preventDefault();
      const form = event.target;
      text.textContent = question;
      dialog.returnValue = "no";
      dialog.classList.add("asked");
      dialog.addEventListener("close", () => {
        if (dialog.returnValue !== "yes") {
          dialog.classList.remove("asked");
          return;
        }
        delete button.dataset["confirm"];
        form.requestSubmit(button);
      }, { once: true });
      dialog.showModal();
    });
  }
  function sliders() {
    document.querySelectorAll("[data-slider]").forEach((shots, at) => {
      const over = shots.querySelectorAll("img")[1];
      if (!over) return;
      const slider = document.createElement("input");
      Object.assign(slider, { type: "range", min: "0", max: "100", value: "50", id: `slider-${at}` });
      slider.setAttribute("aria-label", "How much of the left picture is seen");
      const cut = () => {
        over.style.clipPath = shots.classList.contains("difference") ? "" : `inset(0 0 0 ${slider.value}%)`;
      };
      const choices = [["beside", "Side by side"], ["over", "Slider"], ["difference", "Difference"]];
      const buttons = choices.map(([kind, title]) => {
        const button = document.createElement("button");
        Object.assign(button, { type: "button", textContent: title });
        button.addEventListener("click", () => choose(kind));
        return button;
      });
      const choose = (kind) => {
        shots.classList.toggle("over", kind !== "beside");
        shots.classList.toggle("difference", kind === "difference");
        slider.hidden = kind !== "over";
        buttons.forEach((button, which) => button.setAttribute("aria-pressed", String(choices[which]?.[0] === kind)));
        if (kind === "beside") over.style.clipPath = "";
        else cut();
      };
      const controls = document.createElement("div");
      controls.className = "modes";
      controls.append(...buttons, slider);
      shots.before(controls);
      slider.addEventListener("input", cut);
      choose("beside");
    });
  }
  function copyButtons() {
    document.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
      const from = button && document.getElementById(button.dataset["copy"] ?? "");
      if (!button || !from) return;
      navigator.clipboard.writeText(from.textContent ?? "").then(
        () => {
          button.textContent = "Copied";
        },
        () => {
          button.textContent = "Not copied";
        }
      );
    });
  }

  // src/keys.ts
  function isTyping(target) {
    return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
  }
  function stops(main2) {
    return [...main2.querySelectorAll("table.records td.name a, table.tree td.name a, .rows .name")];
  }
  function step(main2, by) {
    const all = stops(main2);
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? 0 : Math.max(0, Math.min(at + by, all.length - 1))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }
  function up() {
    const parts = location.pathname.split("/").filter(Boolean);
    parts.pop();
    location.assign(parts.length <= 1 ? "/" : `/${parts.join("/")}`);
  }
  function openTerminal() {
    const found = /^\/sandbox\/[^/]+/.exec(location.pathname);
    if (found) location.assign(`${found[0]}/terminal`);
  }
  function keys(main2, openPalette) {
    let going = false;
    document.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
      const goes = going;
      going = false;
      switch (event.key) {
        case "j":
          step(main2, 1);
          break;
        case "k":
          step(main2, -1);
          break;
        case "u":
          up();
          break;
        case "g":
          going = true;
          break;
        case "i":
          if (goes) location.assign("/inbox");
          break;
        case "h":
          if (goes) location.assign("/");
          break;
        case "r":
          if (goes) location.assign("/runs");
          break;
        case "c":
          if (goes) location.assign("/compare");
          break;
        case "t":
          openTerminal();
          break;
        case "/":
          document.getElementById("filter")?.focus();
          break;
        case "?": {
          const dialog = document.getElementById("keys");
          if (dialog instanceof HTMLDialogElement) dialog.showModal();
          break;
        }
        default:
          return;
      }
      event.preventDefault();
    });
  }

  // src/palette.ts
  var SHOWN = 12;
  function rank(title, typed) {
    const text = title.toLowerCase();
    let points = 0;
    for (const word of typed.toLowerCase().split(/\s+/).filter(Boolean)) {
      const at = text.indexOf(word);
      if (at < 0) return null;
      points += at === 0 || /[^a-z0-9]/.test(text[at - 1] ?? "") ? 0 : 10;
    }
    return points + text.length / 100;
  }
  function palette() {
    const dialog = document.getElementById("palette");
    const input = document.getElementById("palette-text");
    const list = document.getElementById("palette-list");
    const opener = document.getElementById("palette-open");
    if (!(dialog instanceof HTMLDialogElement) || !(input instanceof HTMLInputElement) || !list || !opener) return () => void 0;
    let all = [];
    let chosen = 0;
    const found = () => {
      const ranked = all.flatMap((one) => {
        const points = rank(one.title, input.value);
        return points === null ? [] : [{ one, points }];
      });
      ranked.sort((a, b) => a.points - b.points);
      return ranked.slice(0, SHOWN).map(({ one }) => one);
    };
    const draw = () => {
      const shown = found();
      chosen = Math.min(chosen, Math.max(0, shown.length - 1));
      list.replaceChildren(...shown.map((one, at) => {
        const item = document.createElement("li");
        item.id = `palette-${at}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(at === chosen));
        const link = document.createElement("a");
        link.href = one.to;
        link.tabIndex = -1;
        link.textContent = one.title;
        item.append(link);
        return item;
      }));
      input.setAttribute("aria-activedescendant", `palette-${chosen}`);
    };
    const open = () => {
      input.value = "";
      chosen = 0;
      dialog.showModal();
      fetch("/palette").then(async (answer) => {
        all = await answer.json();
        draw();
      }, () => void 0);
      draw();
    };
    input.addEventListener("input", () => {
      chosen = 0;
      draw();
    });
    input.addEventListener("keydown", (event) => {
      const step2 = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step2 !== 0) {
        event.preventDefault();
        chosen = Math.max(0, Math.min(chosen + step2, list.children.length - 1));
        draw();
      } else if (event.key === "Enter") {
        event.preventDefault();
        const one = found()[chosen];
        if (one) location.assign(one.to);
      }
    });
    opener.hidden = false;
    opener.addEventListener("click", open);
    return open;
  }

  // src/app.ts
  var main = document.querySelector("main");
  if (main) {
    localTimes(main);
    showSection(main);
    keepLive(main, () => localTimes(main));
    confirmForms();
    copyButtons();
    sliders();
    keys(main, palette());
  }
})();
