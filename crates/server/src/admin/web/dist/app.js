// src/api.ts
var TOKEN = "larder-token";
var TIMEOUT_MS = 15e3;
var ApiError = class extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
  status;
  code;
  /** The answer to "who are you": a token is missing or wrong. */
  get wantsToken() {
    return this.code === "no_token" || this.code === "bad_token";
  }
};
function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}
function setToken(value) {
  if (value === "") sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, value);
}
function takeTokenFromAddress() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found?.[1] === void 0) return;
  let value = found[1];
  try {
    value = decodeURIComponent(value);
  } catch {
  }
  setToken(value);
  history.replaceState(null, "", location.pathname + location.search);
}
function headers(body) {
  const all = new Headers({ Accept: "application/json" });
  if (token() !== "") all.set("Authorization", `Bearer ${token()}`);
  if (body) all.set("Content-Type", "application/json");
  return all;
}
async function refusal(response) {
  const said = await response.json().catch(() => null);
  const error = said?.error;
  return new ApiError(
    response.status,
    typeof error?.code === "string" ? error.code : "http",
    typeof error?.message === "string" ? error.message : `the answer was ${response.status} ${response.statusText}`
  );
}
async function send(path2, init) {
  let response;
  try {
    response = await fetch(path2, { ...init, cache: "no-store", credentials: "omit" });
  } catch (cause) {
    throw new ApiError(0, "unreachable", cause instanceof Error ? cause.message : "no answer");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}
function path(base, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== "") query.set(name, String(value));
  }
  const said = query.toString();
  return said === "" ? base : `${base}?${said}`;
}
async function getJson(at) {
  const response = await send(at, { headers: headers(false), signal: AbortSignal.timeout(TIMEOUT_MS) });
  return await response.json();
}
async function postJson(at, body) {
  const response = await send(at, { method: "POST", headers: headers(true), body: JSON.stringify(body) });
  return await response.json();
}
async function openStream(at, signal) {
  const all = headers(false);
  all.set("Accept", "text/event-stream");
  const response = await send(at, { headers: all, signal });
  if (response.body === null) throw new ApiError(0, "unreachable", "the answer has no body");
  return response.body;
}

// src/dom.ts
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAll(element, attributes);
  for (const child of children) {
    if (child !== null) element.append(child);
  }
  return element;
}
function svg(tag, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAll(element, attributes);
  return element;
}
function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
}
function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`index.html has no #${id}`);
  return element;
}
function choice(label2, options, first, chosen) {
  let current = first;
  const buttons = options.map(
    ([value, name]) => h("button", { type: "button", role: "radio", "data-value": value }, name)
  );
  const element = h("div", { class: "choice", role: "radiogroup", "aria-label": label2 }, ...buttons);
  const show = () => {
    buttons.forEach((button, n) => {
      const on = options[n]?.[0] === current;
      button.setAttribute("aria-checked", String(on));
      button.tabIndex = on ? 0 : -1;
    });
  };
  const set = (value) => {
    if (value === current) return;
    current = value;
    show();
    chosen(value);
  };
  buttons.forEach((button, n) => {
    const value = options[n]?.[0];
    if (value !== void 0) button.addEventListener("click", () => set(value));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step === void 0) return;
      event.preventDefault();
      const next = (n + step + buttons.length) % buttons.length;
      const to = options[next]?.[0];
      if (to !== void 0) set(to);
      buttons[next]?.focus();
    });
  });
  show();
  return { element, set, get: () => current };
}
function panel(id, title, note = "") {
  const noted = h("span", { class: "note" }, note);
  const fold = h("button", { type: "button", class: "fold", "aria-controls": `${id}-body`, "aria-label": `${title}: show or hide` });
  const head = h("div", { class: "panel-head" }, h("h2", { id: `${id}-title` }, title), noted, fold);
  const body = h("div", { class: "panel-body", id: `${id}-body` });
  const element = h("section", { class: "panel", id, "aria-labelledby": `${id}-title`, tabindex: -1 }, head, body);
  fold.addEventListener("click", () => setFolded(element, !element.classList.contains("folded")));
  setFolded(element, !UNFOLDED.includes(id));
  return { element, head, body, note: noted };
}
var UNFOLDED = ["sites", "misses", "origins"];
function setFolded(element, folded) {
  element.classList.toggle("folded", folded);
  element.querySelector(".fold")?.setAttribute("aria-expanded", String(!folded));
}
function unfold(element) {
  if (element !== null && element.classList.contains("folded")) setFolded(element, false);
}

// src/format.ts
var NONE = "–";
function known(value) {
  return value !== null && value !== void 0 && Number.isFinite(value);
}
function figures(value) {
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return Math.round(value).toString();
  if (size >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}
function scaled(value, step, units) {
  let n = 0;
  let left = value;
  while (Math.abs(left) >= step * 0.9995 && n < units.length - 1) {
    left /= step;
    n += 1;
  }
  return `${figures(left)}${units[n] ?? ""}`;
}
function count(value) {
  if (!known(value)) return NONE;
  if (Math.abs(value) < 1e4) return Math.round(value).toLocaleString("en-US");
  return scaled(value, 1e3, ["", " k", " M", " G", " T"]);
}
function counted(value, one, several = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : several}`;
}
function exact(value) {
  return Math.round(value).toLocaleString("en-US");
}
function rate(value) {
  if (!known(value)) return NONE;
  if (value > 0 && value < 0.01) return "<0.01/s";
  return `${scaled(value, 1e3, ["", " k", " M", " G"])}/s`;
}
function bytes(value) {
  if (!known(value)) return NONE;
  if (value < 1024) return `${Math.round(value)} B`;
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}
function percent(value) {
  if (!known(value)) return NONE;
  const hundred = value * 100;
  if (hundred > 99 && hundred < 100) return `${Math.min(hundred, 99.99).toFixed(2)} %`;
  if (hundred > 0 && hundred < 0.1) return "<0.1 %";
  return `${hundred.toFixed(1)} %`;
}
function micros(value) {
  if (!known(value)) return NONE;
  if (value < 999.5) return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} µs`;
  if (value < 999500) return `${figures(value / 1e3)} ms`;
  return `${figures(value / 1e6)} s`;
}
function seconds(value) {
  if (!known(value)) return NONE;
  const whole = Math.round(Math.abs(value));
  const sign = value < 0 ? "−" : "";
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"]
  ];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return "0 s";
  const shown2 = parts.slice(first, first + 2).filter(([n], at) => at === 0 || n > 0);
  return sign + shown2.map(([n, unit]) => `${n} ${unit}`).join(" ");
}
function clock(ms) {
  const date = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
function moment(ms) {
  const date = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(ms)}`;
}

// src/store.ts
var HOUR = 3600;
var Samples = class {
  columns = /* @__PURE__ */ new Map();
  /** The newest second there is a value for; 0: nothing yet. */
  last = 0;
  /** The oldest second there is a value for; 0: nothing yet. */
  first = 0;
  /** Adds what the API gave; seconds already known are written over. */
  fill(history2) {
    const first = Math.floor(history2.from_ms / 1e3);
    const rows = Math.max(0, ...Object.values(history2.columns).map((column2) => column2.length));
    if (rows === 0) return;
    this.forget(first + rows - 1);
    const columns = Object.values(history2.columns);
    const known2 = columns.map((column2) => column2.findIndex((value) => value !== null)).filter((n) => n >= 0);
    if (known2.length > 0) {
      const oldest = first + Math.min(...known2);
      if (this.first === 0 || oldest < this.first) this.first = oldest;
    }
    this.first = Math.max(this.first, this.last - HOUR + 1);
    for (const [name, values] of Object.entries(history2.columns)) {
      const ring = this.ring(name);
      values.forEach((value, n) => {
        const second = first + n;
        if (second > this.last - HOUR && second <= this.last) ring[second % HOUR] = value ?? NaN;
      });
    }
  }
  /** Moves on to a newer second; what lies between is unknown until it is filled. */
  forget(second) {
    if (second <= this.last) return;
    const from = Math.max(this.last + 1, second - HOUR + 1);
    for (const ring of this.columns.values()) {
      for (let n = from; n <= second; n += 1) ring[n % HOUR] = NaN;
    }
    this.last = second;
  }
  ring(name) {
    let ring = this.columns.get(name);
    if (ring === void 0) {
      ring = new Float64Array(HOUR).fill(NaN);
      this.columns.set(name, ring);
    }
    return ring;
  }
  /** The value of a column at a second; NaN when it is not known. */
  at(name, second) {
    if (second > this.last || second <= this.last - HOUR) return NaN;
    return this.columns.get(name)?.[second % HOUR] ?? NaN;
  }
  clear() {
    this.columns.clear();
    this.last = 0;
    this.first = 0;
  }
};

// src/charts.ts
var LEFT = 52;
var RIGHT = 8;
var TOP = 6;
var BOTTOM = 20;
var STEPS = [1, 2, 3, 5, 10, 15, 20, 30, 60];
var LEAST = 60;
var TimeAxis = class {
  constructor(samples2) {
    this.samples = samples2;
  }
  samples;
  chosen = HOUR;
  cursor = null;
  frozen = null;
  charts = [];
  add(chart) {
    this.charts.push(chart);
  }
  get end() {
    return this.frozen ?? this.samples.last;
  }
  /** Seconds shown: those chosen, but no more than there are figures of. */
  get range() {
    const { first } = this.samples;
    const known2 = first === 0 ? 0 : this.end - first;
    return Math.min(this.chosen, Math.max(known2, LEAST));
  }
  setRange(seconds2) {
    this.chosen = Math.min(seconds2, HOUR);
    this.draw();
  }
  point(second) {
    if (second === this.cursor) return;
    this.cursor = second;
    this.charts.forEach((chart) => chart.drawCursor());
  }
  draw() {
    this.charts.forEach((chart) => chart.draw());
  }
};
var Chart = class {
  constructor(axis2, options) {
    this.axis = axis2;
    this.options = options;
    this.paths = options.series.map((series) => {
      const area = options.stacked === true ? svg("path", { class: `area ${series.tint}` }) : null;
      const stroke = svg("path", { class: `line ${series.tint}` });
      if (area !== null) this.marks.append(area);
      return { area, stroke };
    });
    [...this.paths].reverse().forEach(({ stroke }) => this.marks.append(stroke));
    this.plot.append(this.grid, this.marks, this.line);
    this.empty = h("p", { class: "chart-empty" }, "Loading…");
    const frame = h("div", {
      class: "frame",
      tabindex: 0,
      role: "img",
      "aria-label": `${options.title}: ${options.meaning}. Left and right arrows read values.`
    });
    frame.append(this.plot, this.empty);
    this.element = h(
      "section",
      { class: "card", id: options.id, "aria-label": `${options.title}, chart` },
      h("header", {}, h("h2", { id: `${options.id}-title`, title: options.meaning }, options.title), this.when, this.headline),
      this.legend(),
      frame
    );
    this.listen(frame);
    axis2.add(this);
    new ResizeObserver(() => {
      this.width = Math.max(frame.clientWidth, 120);
      this.height = Math.max(frame.clientHeight, 80);
      this.draw();
    }).observe(frame);
  }
  axis;
  options;
  element;
  plot = svg("svg", { class: "plot", "aria-hidden": "true", preserveAspectRatio: "none" });
  grid = svg("g", { class: "grid" });
  marks = svg("g");
  line = svg("line", { class: "cursor", y1: TOP });
  paths;
  values = [];
  headline = h("output", { class: "headline", "aria-live": "off" }, "–");
  when = h("span", { class: "when" });
  empty;
  width = 320;
  height = 150;
  legend() {
    return h(
      "ul",
      // Three to a line, but for four: these are two pairs.
      { class: this.options.series.length === 4 ? "legend few" : "legend" },
      ...this.options.series.map((series) => {
        const value = h("span", { class: "value" }, "–");
        this.values.push(value);
        return h("li", {}, h("i", { class: `swatch ${series.tint}` }), h("span", {}, series.label), value);
      })
    );
  }
  listen(frame) {
    const secondAt = (x) => {
      const share2 = (x - LEFT) / (this.width - LEFT - RIGHT);
      return Math.round(this.axis.end - this.axis.range * (1 - Math.min(Math.max(share2, 0), 1)));
    };
    frame.addEventListener("pointermove", (event) => {
      this.axis.point(secondAt(event.clientX - frame.getBoundingClientRect().left));
    });
    frame.addEventListener("pointerleave", () => this.axis.point(null));
    frame.addEventListener("blur", () => this.axis.point(null));
    frame.addEventListener("keydown", (event) => {
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (direction === void 0) return;
      event.preventDefault();
      const from = this.axis.cursor ?? this.axis.end;
      const to = from + direction * Math.max(this.step(), this.axis.range / 60);
      this.axis.point(Math.round(Math.min(Math.max(to, this.axis.end - this.axis.range), this.axis.end)));
    });
  }
  /** Seconds of one step: two pixels or more for each. */
  step() {
    const least = this.axis.range / ((this.width - LEFT - RIGHT) / 2);
    return STEPS.find((step) => step >= least) ?? 60;
  }
  /** The values of a series, step by step; steps lie on whole multiples, so that they do not shimmer as time passes. */
  points(series) {
    const { samples: samples2, end, range: range2 } = this.axis;
    const step = this.step();
    const points = [];
    for (let from = Math.floor((end - range2) / step) * step; from <= end; from += step) {
      let merged = NaN;
      let known2 = 0;
      for (let second = from; second < from + step && second <= end; second += 1) {
        const value = series.value(samples2, second);
        if (Number.isNaN(value)) continue;
        known2 += 1;
        if (known2 === 1) merged = value;
        else merged = series.merge === "max" ? Math.max(merged, value) : merged + value;
      }
      if (series.merge === "mean" && known2 > 0) merged /= known2;
      points.push({ at: Math.min(from + (step - 1) / 2, end), value: merged });
    }
    return points;
  }
  draw() {
    const { axis: axis2, plot } = this;
    plot.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const all = this.options.series.map((series) => this.points(series));
    const tops = this.options.stacked === true ? pile(all) : all;
    const anything = all.some((points) => points.some((point) => !Number.isNaN(point.value)));
    const nonzero = all.some((points) => points.some((point) => point.value > 0));
    this.empty.hidden = this.options.zero === true ? anything : nonzero;
    if (axis2.samples.last > 0) text(this.empty, this.options.empty);
    const scale = this.scale(tops);
    this.drawGrid(scale, anything);
    this.paths.forEach(({ area, stroke }, n) => {
      const outline = this.outline(tops[n] ?? [], scale);
      stroke.setAttribute("d", anything ? outline : "");
      area?.setAttribute("d", anything ? this.fill(tops[n] ?? [], n === 0 ? null : tops[n - 1] ?? null, scale) : "");
    });
    this.drawCursor();
  }
  x(second) {
    const share2 = 1 - (this.axis.end - second) / this.axis.range;
    return LEFT + share2 * (this.width - LEFT - RIGHT);
  }
  scale(tops) {
    const values = tops.flatMap((points) => points.map((point) => point.value).filter((value) => value >= 0));
    const most = values.reduce((a, b) => Math.max(a, b), 0);
    const bottom = this.height - BOTTOM;
    return this.options.logarithmic === true ? new Scale(logTicks(values.filter((value) => value > 0)), bottom, true) : new Scale(this.evenTicks(most), bottom, false);
  }
  evenTicks(most) {
    const top = this.options.top?.() ?? null;
    if (top !== null) return [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
    if (this.options.binary !== true) return evenTicks(most);
    const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(most, 1)) / 10));
    return evenTicks(most / unit).map((tick2) => tick2 * unit);
  }
  outline(points, scale) {
    let d = "";
    let open = false;
    for (const { at, value } of points) {
      const x = this.x(at);
      if (Number.isNaN(value) || x < LEFT - 0.5) {
        open = false;
        continue;
      }
      d += `${open ? "L" : "M"}${x.toFixed(1)} ${scale.y(value).toFixed(1)}`;
      if (!open) d += "h0.01";
      open = true;
    }
    return d;
  }
  fill(points, below, scale) {
    const floor = scale.y(0);
    const shown2 = points.map((point, n) => ({ ...point, low: below?.[n]?.value ?? 0 })).filter((point) => !Number.isNaN(point.value) && this.x(point.at) >= LEFT - 0.5);
    if (shown2.length === 0) return "";
    const there = shown2.map((p3) => `${this.x(p3.at).toFixed(1)} ${scale.y(p3.value).toFixed(1)}`);
    const back = shown2.reverse().map((p3) => `${this.x(p3.at).toFixed(1)} ${(Number.isNaN(p3.low) ? floor : scale.y(p3.low)).toFixed(1)}`);
    return `M${there.join("L")}L${back.join("L")}Z`;
  }
  drawGrid(scale, anything) {
    const parts = [];
    const ticks = anything ? scale.ticks : [scale.ticks[0] ?? 0, scale.ticks.at(-1) ?? 1];
    for (const tick2 of ticks) {
      const y = scale.y(tick2);
      parts.push(svg("line", { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      if (!anything) continue;
      const label2 = svg("text", { x: LEFT - 6, y: y + 3.5, "text-anchor": "end" });
      label2.textContent = short(this.options.format(tick2));
      parts.push(label2);
    }
    const every = [15, 30, 60, 120, 300, 600, 900].find((s) => this.axis.range / s <= Math.max((this.width - LEFT) / 68, 2)) ?? 900;
    const { end, range: range2 } = this.axis;
    for (let at = Math.ceil((end - range2) / every) * every; at <= end && anything; at += every) {
      const x = this.x(at);
      if (x < LEFT + 12 || x > this.width - 16) continue;
      const label2 = svg("text", { x, y: this.height - 5, "text-anchor": "middle" });
      label2.textContent = every < 60 ? clock(at * 1e3) : clock(at * 1e3).slice(0, 5);
      parts.push(svg("line", { x1: x, x2: x, y1: this.height - BOTTOM, y2: this.height - BOTTOM + 4 }), label2);
    }
    this.grid.replaceChildren(...parts);
  }
  /** The figures of the legend: at the pointer, else the newest. */
  drawCursor() {
    const { cursor, samples: samples2, end } = this.axis;
    const shown2 = cursor !== null && cursor >= end - this.axis.range && samples2.last > 0;
    this.line.setAttribute("visibility", shown2 ? "visible" : "hidden");
    if (shown2) {
      const x = this.x(cursor);
      this.line.setAttribute("x1", String(x));
      this.line.setAttribute("x2", String(x));
      this.line.setAttribute("y2", String(this.height - BOTTOM));
    }
    const second = shown2 ? cursor : end;
    text(this.when, shown2 ? `at ${clock(second * 1e3)}` : "");
    this.options.series.forEach((series, n) => {
      const element = this.values[n];
      if (element !== void 0) text(element, this.options.format(series.value(samples2, second)));
    });
    const first = this.options.series[0];
    const headline = this.options.headline?.(samples2, second);
    text(this.headline, headline ?? (first === void 0 ? "–" : this.options.format(first.value(samples2, second))));
  }
};
function short(value) {
  return value.replace("/s", "").replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}
function pile(all) {
  let below = null;
  return all.map((points) => {
    const under = below;
    const piled = points.map((point, n) => ({ at: point.at, value: point.value + (under?.[n]?.value ?? 0) }));
    below = piled;
    return piled;
  });
}
var Scale = class {
  constructor(ticks, bottom, logarithmic) {
    this.ticks = ticks;
    this.bottom = bottom;
    this.logarithmic = logarithmic;
  }
  ticks;
  bottom;
  logarithmic;
  y(value) {
    const low = this.ticks[0] ?? 0;
    const high = this.ticks.at(-1) ?? 1;
    const share2 = this.logarithmic ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
    return this.bottom - Math.min(Math.max(share2, 0), 1.02) * (this.bottom - TOP);
  }
};
function evenTicks(most) {
  if (!(most > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [0.25, 0.5, 1, 2, 2.5, 5].map((n) => n * power).find((s) => most / s <= 4) ?? power * 5;
  const steps = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, n) => n * step);
}
function logTicks(values) {
  if (values.length === 0) return [10, 100, 1e3];
  const low = Math.floor(Math.log10(Math.max(values.reduce((a, b) => Math.min(a, b), Infinity), 1)));
  const high = Math.max(Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b), 1)) + 1e-9), low + 2);
  return Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n));
}

// src/span.ts
var LOOK_BACK = 60;
var Recent = class {
  kept = [];
  /** Adds one. A restarted Larder counts from zero, so what was before goes. */
  push(snapshot) {
    const last = this.kept.at(-1);
    if (last !== void 0 && (last.started_ms !== snapshot.started_ms || snapshot.now_ms <= last.now_ms)) this.kept = [];
    this.kept.push(snapshot);
    const from = snapshot.now_ms - LOOK_BACK * 1e3 - 500;
    while ((this.kept[0]?.now_ms ?? from) < from) this.kept.shift();
  }
  get now() {
    return this.kept.at(-1) ?? null;
  }
  /** The last minute, or as much of it as this page has seen. */
  minute() {
    const [then, now] = [this.kept[0], this.now];
    if (then === void 0 || now === null) return null;
    return { now, then, seconds: (now.now_ms - then.now_ms) / 1e3 };
  }
  sinceStart() {
    const now = this.now;
    return now === null ? null : { now, then: null, seconds: Math.max(now.uptime_s, 1) };
  }
};
function total(counts) {
  return Object.values(counts ?? {}).reduce((sum, n) => sum + n, 0);
}
function since(now, then) {
  const difference2 = {};
  for (const [name, value] of Object.entries(now ?? {})) {
    const more = value - (then?.[name] ?? 0);
    if (more > 0) difference2[name] = more;
  }
  return difference2;
}
function fromMemory(results) {
  return (results["hit"] ?? 0) + (results["stale"] ?? 0);
}
function share(part, whole) {
  return whole > 0 ? part / whole : NaN;
}
function between(now, then) {
  const before = new Map(then?.buckets ?? []);
  return now.buckets.map(([upper, n]) => [upper, n - (before.get(upper) ?? 0)]).filter(([, n]) => n > 0);
}
function recorded(now, then) {
  return now.count - (then?.count ?? 0);
}
function quantile(now, then, q) {
  if (then === void 0) {
    if (now.count === 0) return NaN;
    if (q === 0.5) return now.p50_us;
    if (q === 0.99) return now.p99_us;
  }
  const buckets = between(now, then);
  const all = buckets.reduce((sum, [, n]) => sum + n, 0);
  if (all === 0) return NaN;
  let left = q * all;
  for (const [upper, n] of buckets) {
    if (left <= n) {
      const lower = upper / Math.SQRT2;
      return Math.min(lower + (upper - lower) * (left / n), now.max_us);
    }
    left -= n;
  }
  return now.max_us;
}
function named(list, name) {
  return list?.find((one) => one.name === name);
}

// src/hints.ts
var ENOUGH = 100;
var PATIENCE = 10;
var DAYS = 14;
var HOLD_MS = 2e4;
var NOTHING_YET = {
  level: "calm",
  title: "No requests yet",
  advice: "Send one through one of Larder’s HTTP addresses, and it shows here within a second.",
  docs: "docs/operations.md"
};
var LOOKING = {
  level: "calm",
  title: "Looking…",
  advice: `Advice is computed from the last minute; it needs ${PATIENCE} seconds of figures.`,
  docs: "docs/dashboard.md"
};
var FINE = { level: "calm", title: "Nothing to do", advice: "No figure of the last minute stands out.", docs: "docs/dashboard.md" };
var Advice = class {
  held = /* @__PURE__ */ new Map();
  /** What to say of the last minute; always something. */
  about(span) {
    if (span.now.http !== null && span.now.http.requests === 0) return [NOTHING_YET];
    const now = span.now.now_ms;
    for (const hint of causes(span)) this.held.set(hint.topic ?? hint.title, { hint, until: now + HOLD_MS });
    if (span.seconds >= PATIENCE) {
      for (const hint of hints(span)) this.held.set(hint.topic ?? hint.title, { hint, until: now + HOLD_MS });
    }
    for (const [topic, { until }] of this.held) {
      if (until < now) this.held.delete(topic);
    }
    if (this.held.size > 0) return worstFirst([...this.held.values()].map(({ hint }) => hint));
    return [span.seconds < PATIENCE ? LOOKING : FINE];
  }
};
function hints(span) {
  const found = [reload, descriptors, originFailures, serversOut, errors, memory, ratio, notStored, refusedConnections, certificates, disk, remote, loopDelay, slowLog].map((rule) => rule(span)).filter((hint) => hint !== null);
  return worstFirst([...found, ...causes(span)]);
}
function causes({ now }) {
  return (now.advice ?? []).map((cause) => ({
    level: "warn",
    topic: `${cause.site} ${cause.reason}`,
    title: `${cause.site}: ${percent(share(cause.requests, cause.of))} of what missed: ${cause.reason}`,
    advice: cause.text,
    ...cause.setting === "" ? {} : { setting: cause.setting },
    evidence: cause.urls,
    docs: "docs/operations.md"
  }));
}
function worstFirst(list) {
  const order = ["bad", "warn", "info", "calm"];
  return list.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}
function reload({ now }) {
  if (!now.conditions?.reload_failed) return null;
  return {
    level: "bad",
    title: "The last reload failed",
    advice: "The configuration in use is an older one. larder check says what is wrong with the file; standard error of the server has the reason too.",
    docs: "docs/operations.md, “Change the configuration while it runs”"
  };
}
function descriptors({ now }) {
  if (!now.conditions?.descriptors_short) return null;
  return {
    level: "bad",
    title: "No descriptor is left",
    advice: "New connections wait and files cannot be opened. Raise ulimit -n (LimitNOFILE of the service), or lower http.limits.connections.",
    docs: "docs/operations.md, “What happens at each limit”"
  };
}
function originFailures({ now, then }) {
  let worst = null;
  for (const origin of now.http?.origins ?? []) {
    const before = named(then?.http?.origins, origin.name);
    const reasons = since(origin.failures, before?.failures);
    const failed = total(reasons);
    if (failed > (worst?.failed ?? 0)) {
      worst = { name: origin.name, failed, of: origin.requests - (before?.requests ?? 0), reason: largest(reasons) };
    }
  }
  if (worst === null) return null;
  return {
    level: worst.failed > worst.of * 0.05 ? "bad" : "warn",
    title: `Origin ${worst.name} fails`,
    advice: `${count(worst.failed)} of ${count(worst.of)} requests to it failed, mostly “${worst.reason}”. Look whether it runs and answers in time; keep and disconnected let stored pages bridge the gap.`,
    docs: "docs/operations.md, “What happens at each limit”"
  };
}
function serversOut({ now }) {
  const out = (now.http?.origins ?? []).filter((origin) => origin.healthy < origin.servers);
  if (out.length === 0) return null;
  return {
    level: "warn",
    title: out.length === 1 ? `Server ${out[0]?.name ?? ""} is out` : `${count(out.length)} servers of origins are out`,
    advice: `${out.map((origin) => origin.name).slice(0, 3).join(", ")}: they failed several times in a row, or their health checks fail. Requests go to other servers; one comes back when it answers again.`,
    docs: "docs/operations.md, “Several servers behind one site”"
  };
}
function errors({ now, then }) {
  const results = difference(now.http, then?.http);
  const failed = results["error"] ?? 0;
  const all = total(results);
  if (failed === 0 || failed < all * 0.01) return null;
  return {
    level: "bad",
    topic: "errors",
    title: `${percent(share(failed, all))} of requests end in an error`,
    advice: "Nothing stored could be served instead. keep says how old a page may be that is served when the origin answers with errors, disconnected when it cannot be reached.",
    docs: "docs/configuration.md, “What becomes of requests”"
  };
}
function memory({ now, then, seconds: seconds2 }) {
  const evicted = now.memory.namespaces.reduce(
    (sum, space) => sum + space.evictions - (named(then?.memory.namespaces, space.name)?.evictions ?? 0),
    0
  );
  const full = share(now.memory.used, now.memory.budget);
  if (!now.conditions?.memory_short && (!(full > 0.9) || evicted / seconds2 < 1)) return null;
  return {
    level: "warn",
    title: "Memory is full",
    advice: `${percent(full)} of ${bytes(now.memory.budget)} is used and ${rate(evicted / seconds2)} entries are evicted before they expire. ${now.conditions?.memory_short ? "Some were read in the last minute: more memory gives more hits." : "If the hit ratio is low, raise memory; it can be used in full."}`,
    docs: "docs/configuration.md, “Top level”"
  };
}
function ratio({ now, then }) {
  const results = difference(now.http, then?.http);
  const all = total(results);
  const found = share(fromMemory(results), all);
  if (all < ENOUGH || found >= 0.7 || (now.advice ?? []).length > 0) return null;
  const why = since(now.http?.why_missed, then?.http?.why_missed);
  const most = largest(why);
  const part = percent(share(why[most] ?? 0, total(why)));
  const advice2 = {
    bypass: `${part} of what missed is sent past the cache. Look which rule says pass, and whether bypass_cookies names cookies that every visitor has; those that do not change a page belong in ignore_cookies.`,
    "uri-miss": `${part} of what missed was never stored or is gone. Look at the hottest URLs by misses: parameters that do not change a page (utm_*, fbclid) belong in drop_query; else lifetimes are short or memory is small.`,
    "vary-miss": `${part} of what missed was stored for other request headers. Look at the Vary of these pages in the inspector: Vary: Cookie stores a copy for each visitor unless vary_cookies names the few that matter.`,
    stale: `${part} of what missed was too old. Raise ttl (or max-age at the origin), or grace: then one refresh runs while all are answered.`,
    request: `${part} of what missed was asked anew by the clients' own Cache-Control. client_cache_control = false leaves that to the site.`,
    method: `${part} of what missed was POST or the like, which no cache can answer.`
  };
  return {
    level: "warn",
    topic: "hit ratio",
    title: `Hit ratio is ${percent(found)}`,
    advice: advice2[most] ?? "See “Why missed” and “Not stored” below for what stands in the way.",
    docs: "docs/configuration.md, “What becomes of requests”"
  };
}
function notStored({ now, then }) {
  const reasons = since(now.http?.not_stored, then?.http?.not_stored);
  const most = largest(reasons);
  const all = total(difference(now.http, then?.http));
  if ((now.advice ?? []).length > 0 || most !== "set-cookie" || all < ENOUGH || (reasons[most] ?? 0) < all * 0.1) return null;
  return {
    level: "info",
    title: "Answers with Set-Cookie are not stored",
    advice: `${count(reasons[most])} answers were not kept because they set a cookie. Keep the origin from setting it on pages that are for everyone; allow_set_cookie stores them with the cookie, which is then everybody's.`,
    docs: "docs/conformance.md"
  };
}
function refusedConnections({ now, then }) {
  const faces = [
    [now.http?.connections, then?.http?.connections],
    [now.memcached?.connections, then?.memcached?.connections],
    [now.redis?.connections, then?.redis?.connections]
  ];
  const refused = faces.reduce((sum, [a, b]) => sum + (a?.refused ?? 0) - (b?.refused ?? 0), 0);
  if (refused <= 0) return null;
  return {
    level: "bad",
    title: "Connections are refused",
    advice: `${count(refused)} clients found the limit of connections reached. Raise it, or shorten idle timeouts.`,
    docs: "docs/operations.md, “What happens at each limit”"
  };
}
function certificates({ now }) {
  const left = (ends) => (ends - now.now_ms) / 864e5;
  const failed = now.certificates.filter((held) => held.reason !== null);
  const ending = now.certificates.filter((held) => held.source === "file" && left(held.expires_ms) < DAYS);
  const worst = failed[0] ?? ending[0];
  if (worst === void 0) return null;
  const missing = worst.source === "self-signed" || left(worst.expires_ms) < 0;
  return {
    level: missing ? "bad" : "warn",
    topic: "certificates",
    title: worst.reason === null ? `The certificate of ${worst.name} ends` : `No new certificate for ${worst.name}`,
    advice: `${worst.reason ?? "Replace its file and send SIGHUP"}. ${missing ? "Browsers refuse the one that is shown." : `The one in use is good for ${Math.floor(left(worst.expires_ms))} more days.`}`,
    docs: "docs/operations.md, “Serve HTTPS”"
  };
}
function disk({ now }) {
  if (now.disk === null || now.disk.up > 0) return null;
  return {
    level: "bad",
    topic: "disk",
    title: "The disk is not used",
    advice: "It could not be opened, read or written; standard error says why. It is tried again every 10 s, and pages come from memory and the origin meanwhile.",
    docs: "docs/operations.md, “Keep pages on disk”"
  };
}
function remote({ now }) {
  const gone = (now.remote?.servers ?? []).filter((server) => server.state !== "up");
  if (gone.length === 0) return null;
  return {
    level: "warn",
    topic: "remote",
    title: `${gone.length} of ${now.remote?.servers.length} remote servers not up`,
    advice: `${gone.map((server) => `${server.name} (${server.state})`).slice(0, 3).join(", ")}. Pages that lie there are fetched from the origin until it is back.`,
    docs: "docs/remote.md"
  };
}
function loopDelay({ now, then }) {
  const late = quantile(now.loop_delay, then?.loop_delay, 0.99);
  if (!(late > 2e4) || recorded(now.loop_delay, then?.loop_delay) < 20) return null;
  return {
    level: late > 1e5 ? "bad" : "warn",
    title: "Workers are late",
    advice: `One in a hundred times a worker is ${micros(late)} late: the processors are busy. Give the machine less else to do, or Larder more threads where there are cores.`,
    docs: "docs/operations.md, “Watching: see what it does”"
  };
}
function slowLog({ now, then }) {
  const lost = now.log.dropped - (then?.log.dropped ?? 0);
  if (lost <= 0) return null;
  return {
    level: "info",
    title: "Log lines are lost",
    advice: `${count(lost)} lines of the access log were dropped because the disk did not keep up. Requests never wait for it.`,
    docs: "docs/operations.md, “Logs: write and rotate them”"
  };
}
function difference(now, then) {
  return since(now?.results, then?.results);
}
function largest(counts) {
  return Object.entries(counts).reduce((most, one) => one[1] > most[1] ? one : most, ["", 0])[0];
}

// src/table.ts
var Table = class {
  constructor(label2, columns, key, whenEmpty) {
    this.columns = columns;
    this.key = key;
    this.whenEmpty = whenEmpty;
    const heads = columns.map(
      (column2) => h("th", { scope: "col", class: classes(column2), title: column2.meaning ?? null }, column2.head)
    );
    const table = h("table", { "aria-label": label2 }, h("thead", {}, h("tr", {}, ...heads)), this.body);
    this.element = h("div", { class: "table", tabindex: 0, role: "group", "aria-label": `${label2}, table` }, table, this.empty);
    text(this.empty, "Loading…");
  }
  columns;
  key;
  whenEmpty;
  element;
  body = h("tbody");
  empty = h("p", { class: "empty" });
  rows = /* @__PURE__ */ new Map();
  update(rows) {
    const old = this.rows;
    this.rows = /* @__PURE__ */ new Map();
    for (const row2 of rows) {
      let key = this.key(row2);
      while (this.rows.has(key)) key += "\0";
      const line = old.get(key) ?? this.line(row2);
      old.delete(key);
      line.row = row2;
      this.show(line);
      this.rows.set(key, line);
    }
    old.forEach(({ tr }) => tr.remove());
    let at = this.body.firstElementChild;
    for (const { tr } of this.rows.values()) {
      if (tr === at) at = at.nextElementSibling;
      else this.body.insertBefore(tr, at);
    }
    this.say(rows.length === 0 ? this.whenEmpty : "");
  }
  /** Says something in place of rows. */
  say(message) {
    this.empty.hidden = message === "";
    text(this.empty, message);
  }
  line(row2) {
    const line = { row: row2, tr: h("tr"), cells: [] };
    this.columns.forEach((column2, n) => {
      const cell = n === 0 ? h("th", { scope: "row" }) : h("td");
      const press = column2.press;
      let inner = cell;
      if (press !== void 0) {
        inner = h("button", { type: "button", class: "link" });
        inner.addEventListener("click", () => press(line.row));
        cell.append(inner);
      }
      line.cells.push(inner);
      line.tr.append(cell);
    });
    return line;
  }
  show(line) {
    this.columns.forEach((column2, n) => {
      const cell = line.cells[n];
      if (cell === void 0) return;
      const value = column2.cell(line.row);
      text(cell, value);
      if (column2.kind === "url" || column2.kind === "text") cell.title = value;
      const outer = cell.closest("td, th");
      const wanted = `${classes(column2)} ${column2.mark?.(line.row) ?? ""}`.trim();
      if (outer !== null && outer.className !== wanted) outer.className = wanted;
    });
  }
};
function classes(column2) {
  return `${column2.kind ?? ""}${column2.minor === true ? " minor" : ""}`.trim();
}
var Bars = class {
  constructor(whenEmpty, explain, most = 8) {
    this.whenEmpty = whenEmpty;
    this.explain = explain;
    this.most = most;
    this.element.append(this.empty);
  }
  whenEmpty;
  explain;
  most;
  element = h("ul", { class: "bars" });
  empty = h("li", { class: "empty" }, "Loading…");
  items = /* @__PURE__ */ new Map();
  update(counts, format, whenEmpty = this.whenEmpty) {
    const sorted = Object.entries(counts).sort((a, b) => b[1] - a[1]).slice(0, this.most);
    const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
    const old = this.items;
    this.items = /* @__PURE__ */ new Map();
    for (const [name, n] of sorted) {
      const item = old.get(name) ?? this.make(name);
      old.delete(name);
      item.bar.style.width = `${(100 * n / all).toFixed(1)}%`;
      text(item.value, format(n, n / all));
      item.value.title = n.toLocaleString("en-US");
      this.items.set(name, item);
    }
    old.forEach(({ item }) => item.remove());
    this.empty.hidden = sorted.length > 0;
    text(this.empty, whenEmpty);
    [...this.items.values()].forEach(({ item }, n) => {
      if (this.element.children[n] !== item) this.element.insertBefore(item, this.element.children[n] ?? null);
    });
  }
  make(name) {
    const bar = h("i", { class: "bar", "aria-hidden": "true" });
    const label2 = h("span", { class: "bar-name" }, name);
    const value = h("span", { class: "bar-value" });
    const why = this.explain(name);
    const item = h("li", { title: why === "" ? null : why }, bar, label2, value);
    return { item, bar, name: label2, value };
  }
};

// src/hot.ts
var ORDERS = [
  ["requests", "Requests"],
  ["misses", "Misses"],
  ["bytes", "Bytes"],
  ["slow", "Slowest"],
  ["passes", "Passes"]
];
function urls(inspect2) {
  const made = panel("urls", "Hottest URLs");
  const table = new Table(
    "Hottest URLs",
    [
      { head: "URL", kind: "url", cell: (row2) => row2.url, press: (row2) => inspect2(row2.url) },
      { head: "Requests", kind: "n", cell: (row2) => count(row2.requests) },
      { head: "Hit ratio", kind: "n", cell: (row2) => percent(share(row2.hits, row2.requests)) },
      { head: "Misses", kind: "n", cell: (row2) => count(row2.misses), minor: true },
      { head: "Bytes", kind: "n", cell: (row2) => bytes(row2.bytes), minor: true },
      { head: "Mean", meaning: "mean time of its answers", kind: "n", cell: (row2) => micros(row2.mean_us) },
      { head: "Slowest", kind: "n", cell: (row2) => micros(row2.max_us) }
    ],
    (row2) => `${row2.site} ${row2.url}`,
    "No URL was sampled yet."
  );
  const by = choice("Order of URLs", ORDERS, "requests", () => void poll2());
  made.head.append(by.element);
  made.body.append(table.element);
  const poll2 = async () => {
    const asked = by.get();
    const top = await getJson(path("/api/v1/top", { by: asked, limit: 12 }));
    if (asked !== by.get()) return;
    text(made.note, `exact up to ${top.exact_per_second} answers from memory a second and thread; beyond, one in ${top.sampled_one_in} counts for all`);
    table.update(top.urls);
  };
  return { element: made.element, poll: poll2 };
}
function keys(faces) {
  const made = panel("keys", "Hottest keys");
  const table = new Table(
    "Hottest keys of memcached and Redis clients",
    [
      { head: "Key", kind: "url", cell: (row2) => row2.key },
      { head: "Face", kind: "text", cell: (row2) => row2.face },
      { head: "Gets", meaning: "estimated since the start, older ones count less", kind: "n", cell: (row2) => count(row2.gets) },
      { head: "At least", kind: "n", cell: (row2) => count(row2.gets_at_least), minor: true }
    ],
    (row2) => `${row2.face} ${row2.key}`,
    "No key was sampled yet."
  );
  made.body.append(table.element);
  const poll2 = async () => {
    const all = await Promise.all(faces().map((face) => getJson(path("/api/v1/keys", { face, limit: 12 }))));
    const rows = all.flatMap((top) => top.keys.map((key) => ({ face: top.face, ...key })));
    text(made.note, `exact up to ${all[0]?.exact_per_second ?? 0} gets a second and thread; beyond, one in ${all[0]?.sampled_one_in ?? 0} counts for all`);
    table.update(rows.sort((a, b) => b.gets - a.gets).slice(0, 12));
  };
  return { element: made.element, poll: poll2 };
}
function purges() {
  const table = new Table(
    "Recent purges",
    [
      { head: "When", cell: (row2) => clock(row2.time_ms) },
      { head: "Kind", cell: (row2) => row2.soft ? `${row2.kind}, soft` : row2.kind },
      { head: "What", kind: "url", cell: (row2) => row2.what },
      { head: "Purged", kind: "n", cell: (row2) => count(row2.purged) },
      { head: "By", kind: "text", cell: (row2) => row2.by, minor: true }
    ],
    (row2) => `${row2.time_ms} ${row2.kind} ${row2.what}`,
    "Nothing was purged yet."
  );
  const poll2 = async () => {
    const said = await getJson("/api/v1/purges");
    const list = Array.isArray(said) ? said : said.purges;
    table.update([...list].sort((a, b) => b.time_ms - a.time_ms).slice(0, 12));
  };
  return { element: table.element, poll: poll2, table };
}

// src/details.ts
var HIT_FOR_MISS = "Not stored: only a marker that its answers may not be kept, so that requests for it do not wait for each other (hit-for-miss).";
var Details = class {
  constructor(purge2) {
    this.purge = purge2;
    this.element.hidden = true;
  }
  purge;
  element = h("article", { class: "details", "aria-label": "One stored page", tabindex: -1 });
  asked = 0;
  async open(url) {
    this.asked += 1;
    const mine = this.asked;
    this.element.hidden = false;
    this.show(url, h("p", { class: "empty" }, "Loading…"));
    try {
      const page = await getJson(path("/api/v1/object", { url }));
      if (mine !== this.asked) return;
      if (page.variants.length > 0) this.show(url, ...page.variants.map((variant2, n) => this.variant(variant2, n, page.variants.length)));
      else this.show(url, h("p", { class: "empty" }, page.hit_for_miss === true ? HIT_FOR_MISS : "No variant of it is stored."));
    } catch (error) {
      if (mine === this.asked) this.show(url, h("p", { class: "empty" }, error instanceof Error ? error.message : "It cannot be shown."));
    }
    this.element.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }
  /** False: nothing was open. */
  close() {
    const was = !this.element.hidden;
    this.element.hidden = true;
    this.asked += 1;
    return was;
  }
  show(url, ...content) {
    const purge2 = h("button", { type: "button" }, "Purge…");
    purge2.addEventListener("click", () => this.purge(url));
    const close = h("button", { type: "button" }, "Close");
    close.addEventListener("click", () => this.close());
    const title = h("h3", { class: "url" });
    text(title, url);
    this.element.replaceChildren(h("header", {}, title, purge2, close), ...content);
  }
  variant(variant2, n, of) {
    const row2 = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const list = h("dl", {}, ...words(variant2).map(([name, value]) => row2(name, value)));
    const rest2 = h("dl");
    for (const [name, value] of ordered(variant2)) rest2.append(row2(label(name), shown(name, value)));
    return h(
      "section",
      {},
      of > 1 ? h("h4", {}, `Variant ${n + 1} of ${of}`) : null,
      h("p", { class: "verdict" }, verdict(variant2)),
      list,
      h("details", {}, h("summary", {}, "Everything that is stored with it"), rest2)
    );
  }
};
var FIRST = ["status", "state", "age_s", "freshness_s", "ttl_s", "initial_age_s", "resident_s", "stale_while_revalidate_s", "stale_if_error_s", "vary", "tags", "size", "record_size", "encoding", "etag", "head"];
function ordered(variant2) {
  const rank = (name) => (FIRST.indexOf(name) + FIRST.length + 1) % (FIRST.length + 1);
  return Object.entries(variant2).sort((a, b) => rank(a[0]) - rank(b[0]));
}
function number(value) {
  return typeof value === "number" ? value : null;
}
function verdict(variant2) {
  const state2 = typeof variant2["state"] === "string" ? variant2["state"] : null;
  const age = number(variant2["age_s"]);
  const left = number(variant2["ttl_s"]);
  const why = typeof variant2["why"] === "string" ? ` ${variant2["why"]}` : "";
  if (age === null || left === null) return `${state2 ?? "Its freshness is not known."}${why}`;
  const lifetime = seconds(number(variant2["freshness_s"]) ?? age + left);
  if (state2 === "fresh" || state2 === null && left > 0) {
    return `Fresh: it is ${seconds(age)} old and may be used until it is ${lifetime} old, ${seconds(left)} from now.${why}`;
  }
  const past = left <= 0 ? `its lifetime of ${lifetime} ended ${seconds(-left)} ago` : "it was marked stale (soft purge, or no-cache)";
  return `Stale: it is ${seconds(age)} old, and ${past}. It is confirmed or fetched anew before or while it is served.${why}`;
}
function words(variant2) {
  const now = Date.now();
  const left = number(variant2["ttl_s"]);
  const list = [];
  const put = (name, value) => {
    if (value !== null && value !== "") list.push([name, value]);
  };
  put("status", String(variant2["status"] ?? "–"));
  if (left !== null && variant2["state"] === "fresh") put("fresh until", `${moment(now + left * 1e3)}, for ${seconds(left)}`);
  const expires = number(variant2["expires_ms"]) ?? 0;
  put("kept until", expires > 0 ? `${moment(expires)}, or until its memory is needed` : "its memory is needed");
  const while_ = number(variant2["stale_while_revalidate_s"]) ?? 0;
  if (while_ > 0) put("served stale", `for ${seconds(while_)} while it is fetched anew`);
  const errors2 = number(variant2["stale_if_error_s"]) ?? 0;
  if (errors2 > 0) put("if the origin fails", `served for ${seconds(errors2)} after its lifetime`);
  const vary = variant2["vary"];
  put("variant of", vary !== null && typeof vary === "object" && !Array.isArray(vary) ? requests(vary) : "none: it is for all requests");
  if (Array.isArray(variant2["tags"]) && variant2["tags"].length > 0) put("tags", shown("tags", variant2["tags"]));
  put("size", `${bytes(number(variant2["size"]))}${typeof variant2["encoding"] === "string" && variant2["encoding"] !== "identity" ? `, coded with ${variant2["encoding"]}` : ""}`);
  put("served", variant2["read"] === true ? `last ${moment(number(variant2["last_read_ms"]) ?? now)}` : "not yet");
  return list;
}
function requests(vary) {
  const parts = Object.entries(vary).map(([name, value]) => value === null ? `without ${name}` : `with ${name}: ${String(value)}`);
  return parts.length === 0 ? "none: it is for all requests" : `requests ${parts.join(", ")}`;
}
function label(name) {
  return name.replace(/_(s|ms|us)$/, "").replaceAll("_", " ");
}
function shown(name, value) {
  if (value === null) return "–";
  if (typeof value === "number") {
    if (name.endsWith("_ms")) return value === 0 ? "–" : moment(value);
    if (name === "date_s" || name === "last_modified_s") return value === 0 ? "–" : moment(value * 1e3);
    if (name.endsWith("_s")) return seconds(value);
    if (name === "size" || name === "record_size") return `${bytes(value)} (${exact(value)})`;
    return String(value);
  }
  if (Array.isArray(value)) {
    if (value.length === 0) return "–";
    const lines = value.map((one) => Array.isArray(one) ? one.map(String).join(": ") : plain(one));
    return h("span", { class: "lines" }, lines.join(name === "tags" ? " " : "\n"));
  }
  if (typeof value === "object") {
    const lines = Object.entries(value).map(([key, one]) => [label(key), ": ", shown(key, one)]);
    return h("span", { class: "lines" }, ...lines.map((line) => h("span", {}, ...line)));
  }
  return String(value);
}
function plain(value) {
  if (value === null || typeof value !== "object") return String(value);
  const pair = value;
  if (pair.name !== void 0 && pair.value !== void 0) return `${String(pair.name)}: ${String(pair.value)}`;
  return JSON.stringify(value);
}

// src/inspector.ts
var PAGE = 50;
var MOST = 500;
function field(id, label2, control) {
  control.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label2), control);
}
function variant(row2) {
  return row2.vary === null ? "–" : Object.entries(row2.vary).map(([name, value]) => `${name}: ${value ?? "none"}`).join(", ");
}
function inspector(purge2) {
  const made = panel("inspect", "Stored pages");
  const prefix = h("input", { type: "search", placeholder: "http://example.org/", autocomplete: "off", spellcheck: "false" });
  const site = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const tag = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const state2 = h("select", {}, ...["any", "fresh", "stale"].map((name) => h("option", { value: name }, name)));
  const size = h("input", { type: "text", placeholder: "0", inputmode: "numeric", autocomplete: "off" });
  const form = h(
    "form",
    { class: "fields", role: "search", "aria-label": "Stored pages" },
    field("inspect-prefix", "URL begins with", prefix),
    field("inspect-site", "Site", site),
    field("inspect-tag", "Tag", tag),
    field("inspect-state", "State", state2),
    field("inspect-size", "At least, bytes", size),
    h("button", { type: "submit", class: "primary" }, "Search")
  );
  const details = new Details(purge2);
  const table = new Table(
    "Stored pages",
    [
      { head: "URL", kind: "url", cell: (row2) => row2.url, press: (row2) => void details.open(row2.url) },
      { head: "State", kind: "state", cell: (row2) => row2.state, mark: (row2) => row2.state === "fresh" ? "good" : "warn" },
      { head: "Status", kind: "n", cell: (row2) => String(row2.status), minor: true },
      { head: "Size", kind: "n", cell: (row2) => bytes(row2.size) },
      { head: "Age", kind: "n", cell: (row2) => seconds(row2.age_s) },
      { head: "Fresh for", meaning: "negative: stale for so long", kind: "n", cell: (row2) => seconds(row2.ttl_s) },
      { head: "Read", meaning: "whether it was ever served", cell: (row2) => row2.read ? "yes" : "no", minor: true },
      { head: "Variant", meaning: "the request headers this one is for", kind: "text", cell: variant, minor: true },
      { head: "Type", kind: "text", cell: (row2) => row2.content_type ?? "–", minor: true },
      { head: "Tags", kind: "text", cell: (row2) => row2.tags.join(" "), minor: true }
    ],
    (row2) => `${row2.forwarded_host ?? ""} ${row2.url} ${variant(row2)}`,
    "No stored page matches."
  );
  table.say("Search to see what is stored; an empty search shows everything.");
  const more = h("button", { type: "button" }, "More");
  more.hidden = true;
  let rows = [];
  let cursor = null;
  let asked = 0;
  const search = async (from) => {
    asked += 1;
    const mine = asked;
    if (from === null) rows = [];
    const at = path("/api/v1/objects", {
      prefix: prefix.value.trim(),
      site: site.value.trim(),
      tag: tag.value.trim(),
      state: state2.value === "any" ? null : state2.value,
      min_size: size.value.trim(),
      limit: PAGE,
      cursor: from
    });
    try {
      const found = await getJson(at);
      if (mine !== asked) return;
      rows = [...rows, ...found.objects].slice(0, MOST);
      cursor = found.cursor;
      table.update(rows);
      more.hidden = cursor === null || rows.length >= MOST;
      text(made.note, `${count(rows.length)} shown${cursor === null ? "" : ", there is more"}`);
    } catch (error) {
      table.say(error instanceof Error ? error.message : "The search failed.");
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void search(null);
  });
  more.addEventListener("click", () => void search(cursor));
  table.element.classList.add("rows");
  table.element.tabIndex = 0;
  made.body.append(form, details.element, table.element, more);
  return {
    element: made.element,
    focus: () => {
      unfold(made.element);
      prefix.focus();
    },
    close: () => details.close(),
    open: (url) => {
      unfold(made.element);
      made.element.scrollIntoView({ block: "start" });
      void details.open(url);
    }
  };
}

// src/keyboard.ts
function keyboard(shortcuts, escape) {
  const close = h("button", { type: "button", class: "primary" }, "Close");
  const list = h("dl", { class: "shortcuts" });
  const dialog = h("dialog", { "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keyboard"), list, close);
  const help = () => dialog.open ? dialog.close() : dialog.showModal();
  const all = [...shortcuts, { key: "?", does: "this list", run: help }];
  for (const { key, does } of all) list.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, does));
  list.append(
    h("dt", {}, h("kbd", {}, "←"), " ", h("kbd", {}, "→")),
    h("dd", {}, "on a chart: read values at other times"),
    h("dt", {}, h("kbd", {}, "Esc")),
    h("dd", {}, "close this list or the page that was opened, leave a field")
  );
  close.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    if (event.key === "Escape" && at instanceof HTMLElement && at.matches("input, select")) at.blur();
    else if (event.key === "Escape" && !dialog.open) escape();
    if (at instanceof HTMLElement && at.matches("input, select, textarea")) return;
    const shortcut = all.find(({ key }) => key === event.key);
    if (shortcut === void 0 || dialog.open && shortcut.key !== "?") return;
    event.preventDefault();
    shortcut.run();
  });
  return { help };
}

// src/sse.ts
var LONGEST_EVENT = 8 * 1024 * 1024;
var EventParser = class {
  rest = "";
  push(chunk) {
    this.rest += chunk;
    const messages = [];
    for (; ; ) {
      const end = /\r?\n\r?\n/.exec(this.rest);
      if (end === null) break;
      const message = parse(this.rest.slice(0, end.index));
      this.rest = this.rest.slice(end.index + end[0].length);
      if (message !== null) messages.push(message);
    }
    if (this.rest.length > LONGEST_EVENT) throw new Error("an event without an end");
    return messages;
  }
};
function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return data.length === 0 ? null : { event, data: data.join("\n") };
}
async function readEvents(stream, got, heard = () => {
}) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      parser.push(value).forEach(got);
    }
  } finally {
    reader.cancel().catch(() => {
    });
  }
}

// src/live.ts
var SILENCE_MS = 6e3;
var FIRST_PAUSE_MS = 1e3;
var LONGEST_PAUSE_MS = 3e4;
var Live = class {
  constructor(listener) {
    this.listener = listener;
    setInterval(() => {
      const silent = this.lastHeard > 0 && Date.now() - this.lastHeard > SILENCE_MS;
      if (silent) this.abort.abort(new Error("nothing came for some seconds"));
    }, 1e3);
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.hurry();
    });
  }
  listener;
  pause = FIRST_PAUSE_MS;
  abort = new AbortController();
  timer = 0;
  lastHeard = 0;
  /** Connects now, ending what is there. */
  connect() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.abort.abort();
    this.abort = new AbortController();
    void this.run(this.abort);
  }
  hurry() {
    if (this.timer !== 0) this.connect();
  }
  async run(abort) {
    try {
      const stream = await openStream(path("/api/v1/live"), abort.signal);
      await this.listener.opened();
      this.lastHeard = Date.now();
      await readEvents(stream, (message) => this.take(message.event, message.data), () => {
        this.lastHeard = Date.now();
      });
      this.failed(abort, new ApiError(0, "ended", "Larder closed the connection"));
    } catch (error) {
      this.failed(abort, error);
    }
  }
  take(event, data) {
    if (event !== "stats") return;
    this.pause = FIRST_PAUSE_MS;
    const snapshot = JSON.parse(data);
    this.listener.state({ kind: "live" });
    this.listener.snapshot(snapshot);
  }
  failed(abort, error) {
    if (abort !== this.abort) return;
    this.lastHeard = 0;
    if (error instanceof ApiError && error.wantsToken) {
      this.listener.state({ kind: "locked", why: error.message });
      return;
    }
    const why = error instanceof Error ? error.message : "unknown";
    this.listener.state({ kind: "waiting", why, retryAt: Date.now() + this.pause });
    this.timer = setTimeout(() => this.connect(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
  }
};

// src/log.ts
var ROWS = 200;
var REDRAW_MS = 200;
var FILTERS = [
  ["url", "URL contains", "/wiki/"],
  ["status", "Status", "5xx,404"],
  ["result", "Result", "miss,pass"],
  ["site", "Site", ""],
  ["method", "Method", "GET"],
  ["slower_than_ms", "Slower than, ms", "100"]
];
function log(inspect2) {
  const made = panel("log", "Live log");
  const inputs = FILTERS.map(
    ([name, , example]) => h("input", { id: `log-${name}`, name, type: "text", placeholder: example, autocomplete: "off", spellcheck: "false" })
  );
  const start = h("button", { type: "submit", class: "primary", "aria-pressed": "false" }, "Start");
  const clear = h("button", { type: "button" }, "Clear");
  const form = h(
    "form",
    { class: "fields", "aria-label": "Filter of the live log" },
    ...FILTERS.map(([name, label2], n) => h("div", { class: "field" }, h("label", { for: `log-${name}` }, label2), inputs[n] ?? null)),
    start,
    clear
  );
  const body = h("tbody");
  const heads = ["Time", "Took", "Status", "Result", "Bytes", "Protocol", "Method", "URL", "Client"];
  const table = h("table", { "aria-label": "Requests, newest first" }, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), body);
  const state2 = h("p", { class: "empty", role: "status" }, "Start shows requests as they are answered, newest first.");
  made.body.append(form, state2, h("div", { class: "table log-rows", tabindex: 0, role: "region", "aria-label": "Requests of the live log" }, table));
  let abort = null;
  let waiting = [];
  let seen = 0;
  let dropped = 0;
  let timer = 0;
  const say = () => {
    const lost = dropped > 0 ? `; ${exact(dropped)} not shown because this page was too slow` : "";
    text(state2, abort === null ? `Stopped after ${exact(seen)} requests${lost}.` : `${exact(seen)} requests${lost}`);
  };
  const flush = () => {
    timer = 0;
    const rows = waiting.slice(-ROWS).reverse().map((line) => row(line, inspect2));
    waiting = [];
    body.prepend(...rows);
    while (body.childElementCount > ROWS) body.lastElementChild?.remove();
    say();
  };
  const later = () => {
    if (timer === 0) timer = setTimeout(flush, REDRAW_MS);
  };
  const take = (event, data) => {
    if (event === "dropped") dropped += JSON.parse(data).count;
    if (event === "request") {
      seen += 1;
      waiting.push(JSON.parse(data));
      if (waiting.length > 2 * ROWS) waiting = waiting.slice(-ROWS);
    }
    later();
  };
  const pressed = () => {
    text(start, abort === null ? "Start" : "Stop");
    start.setAttribute("aria-pressed", String(abort !== null));
  };
  const stop = () => {
    abort?.abort();
    abort = null;
    pressed();
    say();
  };
  const begin = async () => {
    const mine = new AbortController();
    abort = mine;
    [seen, dropped] = [0, 0];
    pressed();
    text(state2, "Waiting for requests…");
    let why = "Larder closed the connection";
    try {
      const filter = Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()]));
      const stream = await openStream(path("/api/v1/log", filter), mine.signal);
      await readEvents(stream, (message) => take(message.event, message.data));
    } catch (error) {
      why = error instanceof ApiError || error instanceof Error ? error.message : why;
    }
    if (abort !== mine) return;
    stop();
    text(state2, `The log ended: ${why}`);
  };
  const toggle = () => abort === null ? void begin() : stop();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    toggle();
  });
  clear.addEventListener("click", () => {
    waiting = [];
    body.replaceChildren();
  });
  return { element: made.element, toggle, focus: () => start.focus() };
}
function row(line, inspect2) {
  const link = h("button", { type: "button", class: "link" });
  text(link, line.url);
  link.addEventListener("click", () => inspect2(line.url));
  const bad = line.status >= 500 ? "n bad" : "n";
  return h(
    "tr",
    {},
    h("td", { class: "n" }, clock(line.time_ms)),
    h("td", { class: "n" }, micros(line.elapsed_us)),
    h("td", { class: bad }, String(line.status)),
    h("td", { title: line.result }, line.outcome),
    h("td", { class: "n" }, bytes(line.bytes)),
    h("td", { title: line.tls ?? "no TLS" }, line.http_version),
    h("td", {}, line.method),
    h("td", { class: "url", title: line.url }, link),
    h("td", {}, line.client)
  );
}

// src/overview.ts
var column = (name) => (samples2, second) => samples2.at(name, second);
var duration = (name) => (samples2, second) => {
  const value = samples2.at(name, second);
  return value > 0 ? value : NaN;
};
var ratio2 = (samples2, second) => share(samples2.at("hits", second) + samples2.at("stale", second), samples2.at("requests", second));
var rest = (samples2, second) => ["hits", "stale", "misses", "passes", "errors"].reduce(
  (left, name) => left - samples2.at(name, second),
  samples2.at("requests", second)
);
var positive = (value) => (samples2, second) => Math.max(value(samples2, second), 0);
var NO_REQUESTS = "No requests yet";
var CHARTS = [
  {
    id: "requests",
    title: "Requests",
    meaning: "HTTP requests a second, by what became of them",
    stacked: true,
    format: rate,
    headline: (samples2, second) => rate(samples2.at("requests", second)),
    empty: NO_REQUESTS,
    series: [
      { label: "hit", tint: "c1", merge: "mean", value: column("hits") },
      { label: "stale", tint: "c2", merge: "mean", value: column("stale") },
      { label: "miss", tint: "c3", merge: "mean", value: column("misses") },
      { label: "pass", tint: "c4", merge: "mean", value: column("passes") },
      { label: "other", tint: "c5", merge: "mean", value: positive(rest) },
      { label: "error", tint: "bad", merge: "mean", value: column("errors") }
    ]
  },
  {
    id: "ratio",
    title: "Hit ratio",
    meaning: "share of requests that memory answered, fresh or stale; the large figure is of ten seconds",
    top: () => 1,
    zero: true,
    format: percent,
    empty: NO_REQUESTS,
    series: [{ label: "each second", tint: "c1", merge: "mean", value: ratio2 }]
  },
  {
    id: "latency",
    title: "Latency",
    meaning: "time until an answer was handed to the system, from memory (hit) and with the origin (miss); axis in powers of ten",
    logarithmic: true,
    format: micros,
    empty: NO_REQUESTS,
    series: [
      { label: "hit p50", tint: "c1", merge: "mean", value: duration("hit_p50_us") },
      { label: "hit p99", tint: "c1 thin", merge: "max", value: duration("hit_p99_us") },
      { label: "miss p50", tint: "c3", merge: "mean", value: duration("miss_p50_us") },
      { label: "miss p99", tint: "c3 thin", merge: "max", value: duration("miss_p99_us") }
    ]
  },
  {
    id: "origin-load",
    title: "Origin load",
    meaning: "requests a second that Larder sent to origins, and how many of them failed",
    format: rate,
    empty: "No request went to an origin yet",
    series: [
      { label: "requests", tint: "c3", merge: "mean", value: column("origin_requests") },
      { label: "failures", tint: "bad", merge: "mean", value: column("origin_failures") }
    ]
  },
  {
    id: "memory-chart",
    title: "Memory",
    meaning: "memory the store uses; the axis ends at its budget",
    format: bytes,
    empty: "Nothing is stored yet",
    series: [{ label: "used", tint: "c6", merge: "max", value: column("memory_used") }]
  },
  {
    id: "traffic",
    title: "Sent",
    meaning: "bytes a second sent to clients of all faces",
    format: (value) => Number.isFinite(value) ? `${bytes(value)}/s` : "–",
    binary: true,
    empty: "Nothing was sent yet",
    series: [{ label: "bytes", tint: "c6", merge: "mean", value: column("bytes_out") }]
  },
  {
    id: "gets",
    title: "Objects",
    meaning: "keys a second asked for and found by memcached and Redis clients, and values stored",
    format: rate,
    empty: "No memcached or Redis commands yet",
    series: [
      { label: "gets", tint: "c3", merge: "mean", value: column("object_gets") },
      { label: "found", tint: "c1", merge: "mean", value: column("object_hits") },
      { label: "sets", tint: "c4", merge: "mean", value: column("object_sets") }
    ]
  },
  {
    id: "loop",
    title: "Event loop delay",
    meaning: "how late workers got to what was due: 99 of 100 times at most this",
    format: micros,
    empty: "Not measured yet",
    series: [{ label: "p99", tint: "c5", merge: "max", value: duration("loop_delay_p99_us") }]
  }
];
function overview(axis2, recent2) {
  return CHARTS.map((options) => {
    const full = { ...options };
    if (full.id === "ratio") full.headline = (samples2, second) => percent(lately(samples2, second));
    if (full.id === "memory-chart") {
      full.top = () => recent2.now?.memory.budget ?? null;
      full.headline = (samples2, second) => {
        const budget = recent2.now?.memory.budget;
        return `${bytes(samples2.at("memory_used", second))} of ${bytes(budget)}`;
      };
    }
    return new Chart(axis2, full);
  });
}
function lately(samples2, second) {
  let [all, found] = [0, 0];
  for (let at = second - 9; at <= second; at += 1) {
    const requests2 = samples2.at("requests", at);
    if (Number.isNaN(requests2)) continue;
    all += requests2;
    found += fromMemory({ hit: samples2.at("hits", at), stale: samples2.at("stale", at) });
  }
  return share(found, all);
}

// src/types.ts
var OUTCOMES = {
  hit: "answered from memory, fresh",
  stale: "answered from memory, stale, as the rules or the origin's failure allow",
  refresh: "answered from memory after the origin confirmed the page",
  coalesced: "followed another request's fetch",
  miss: "fetched: nothing usable was stored",
  pass: "fetched past the cache, by rule or method",
  hit_for_miss: "fetched without waiting for others, because the page is known not to be storable",
  error: "answered with the origin's failure",
  purge: "a purge",
  denied: "a purge that was not permitted",
  refused: "refused by Larder itself: no such site, malformed, too large, a loop",
  tunnel: "became a tunnel (Upgrade)",
  aborted: "the client left before the answer began"
};

// src/words.ts
var WHY_MISSED = {
  "uri-miss": "nothing was stored for this URL",
  "vary-miss": "something was stored for this URL, but for other request headers (Vary)",
  stale: "what was stored was too old and had to be confirmed or fetched anew",
  request: "the request asked for a newer answer (Cache-Control or Pragma of the client)",
  bypass: "a rule of the site, a cookie or Authorization sends it past the cache",
  method: "the method is not one that is answered from a cache (POST, PUT, ...)",
  partial: "only a part of the answer was stored",
  miss: "not stored, or known not to be storable"
};
var NOT_STORED = {
  method: "answers to this method are not stored",
  status: "the status is not one that is stored without explicit freshness",
  "request-no-store": "the client said Cache-Control: no-store",
  "no-store": "the origin said Cache-Control: no-store",
  private: "the origin said Cache-Control: private",
  "must-understand": "the origin said must-understand, and the status is not understood",
  authorization: "the request had Authorization and the answer does not allow sharing it",
  "set-cookie": "the answer sets a cookie",
  "vary-star": "the answer has Vary: *",
  "odd-coding": "the answer has a content coding that is not understood",
  "coding-not-accepted": "the answer has a content coding that the client did not ask for",
  "content-range": "the answer is a part that cannot be completed",
  "no-freshness": "the answer says neither how long it is fresh nor how to confirm it"
};
function whyMissed(word) {
  return WHY_MISSED[word] ?? "";
}
function notStored2(word) {
  return NOT_STORED[word] ?? "";
}
function result(word) {
  return OUTCOMES[word] ?? "";
}

// src/panels.ts
var p = (now, then, q) => micros(quantile(now, then, q));
function sites() {
  const made = panel("sites", "Sites");
  const table = new Table(
    "Sites",
    [
      { head: "Site", kind: "url", cell: (row2) => row2.name },
      { head: "Requests", kind: "n", cell: (row2) => rate(row2.rate) },
      { head: "Hit ratio", kind: "n", cell: (row2) => percent(row2.ratio) },
      { head: "Hit p99", kind: "n", cell: (row2) => row2.hit, minor: true },
      { head: "Miss p50", kind: "n", cell: (row2) => row2.miss, minor: true },
      { head: "Miss p99", kind: "n", cell: (row2) => row2.slow },
      { head: "5xx", kind: "n", cell: (row2) => count(row2.errors), mark: (row2) => row2.errors > 0 ? "bad" : "" },
      { head: "Sent", kind: "n", cell: (row2) => `${bytes(row2.bytes)}/s`, minor: true },
      { head: "Total", meaning: "requests since the start", kind: "n", cell: (row2) => count(row2.requests) }
    ],
    (row2) => row2.name,
    "No HTTP requests yet."
  );
  made.body.append(table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    const counted2 = (now.http?.sites ?? []).filter((site) => site.requests > 0 || !["-", "other"].includes(site.name));
    const rows = counted2.map((site) => {
      const old = named(then?.http?.sites, site.name);
      const results = since(site.results, old?.results);
      return {
        name: site.name,
        rate: share(site.requests - (old?.requests ?? 0), seconds2),
        ratio: share(fromMemory(results), total(results)),
        hit: p(site.latency.hit, old?.latency.hit, 0.99),
        miss: p(site.latency.miss, old?.latency.miss, 0.5),
        slow: p(site.latency.miss, old?.latency.miss, 0.99),
        errors: (site.status["5xx"] ?? 0) - (old?.status["5xx"] ?? 0),
        bytes: share(site.bytes_out - (old?.bytes_out ?? 0), seconds2),
        requests: site.requests
      };
    });
    table.update(rows.sort((a, b) => b.requests - a.requests).slice(0, 100));
  };
  return { element: made.element, update };
}
function serverState(origin) {
  if (origin.servers === 0) return "–";
  if (origin.healthy === origin.servers) return "in";
  return origin.healthy === 0 ? "out" : `${count(origin.healthy)} of ${count(origin.servers)}`;
}
function origins() {
  const made = panel("origins", "Origins");
  const table = new Table(
    "Origins",
    [
      { head: "Origin", kind: "url", cell: (row2) => row2.name },
      { head: "State", meaning: "in: gets requests; out: taken out for failures, or unwell by its health checks; –: not in the settings any more", kind: "text", cell: (row2) => row2.state, mark: (row2) => row2.state === "in" || row2.state === "–" ? "" : "bad" },
      { head: "Now", meaning: "requests to it under way", kind: "n", cell: (row2) => count(row2.now) },
      { head: "Requests", kind: "n", cell: (row2) => rate(row2.rate) },
      { head: "Failed", kind: "n", cell: (row2) => count(row2.failed), mark: (row2) => row2.failed > 0 ? "bad" : "" },
      { head: "Elsewhere", meaning: "requests that failed there and were sent to another server", kind: "n", cell: (row2) => count(row2.elsewhere), minor: true },
      { head: "TTFB p50", meaning: "time to first byte: from the request to the head of the response", kind: "n", cell: (row2) => row2.p50 },
      { head: "p99", kind: "n", cell: (row2) => row2.p99 },
      { head: "Connections", meaning: "open now, of these idle", kind: "n", cell: (row2) => row2.open, minor: true },
      { head: "Reasons", kind: "text", cell: (row2) => row2.reasons, minor: true }
    ],
    (row2) => row2.name,
    "No request went to an origin yet."
  );
  made.body.append(table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    const rows = (now.http?.origins ?? []).map((origin) => {
      const old = named(then?.http?.origins, origin.name);
      const failures = since(origin.failures, old?.failures);
      return {
        name: origin.name,
        state: serverState(origin),
        now: origin.under_way,
        elsewhere: origin.sent_elsewhere - (old?.sent_elsewhere ?? 0),
        rate: share(origin.requests - (old?.requests ?? 0), seconds2),
        failed: total(failures),
        reasons: Object.entries(failures).map(([reason, n]) => `${reason} ${count(n)}`).join(", ") || "–",
        p50: p(origin.ttfb, old?.ttfb, 0.5),
        p99: p(origin.ttfb, old?.ttfb, 0.99),
        open: `${count(origin.connections_open)} / ${count(origin.connections_idle)}`
      };
    });
    table.update(rows.slice(0, 100));
  };
  return { element: made.element, update };
}
function objects() {
  const made = panel("objects", "Objects", "memcached and Redis");
  const table = new Table(
    "Object faces",
    [
      { head: "Face", cell: (row3) => row3.name },
      { head: "Gets", kind: "n", cell: (row3) => rate(row3.gets) },
      { head: "Hit ratio", kind: "n", cell: (row3) => percent(row3.ratio) },
      { head: "Sets", kind: "n", cell: (row3) => rate(row3.sets) },
      { head: "p50", meaning: "memcached: of batches of commands; Redis: of commands", kind: "n", cell: (row3) => row3.p50, minor: true },
      { head: "p99", kind: "n", cell: (row3) => row3.p99 },
      { head: "Clients", kind: "n", cell: (row3) => count(row3.open) },
      { head: "Total gets", kind: "n", cell: (row3) => count(row3.total), minor: true }
    ],
    (row3) => row3.name,
    "No memcached or Redis address is served."
  );
  made.body.append(table.element);
  const row2 = (name, face, old, seconds2) => ({
    name,
    gets: share(face.gets - (old?.gets ?? 0), seconds2),
    ratio: share(face.get_hits - (old?.get_hits ?? 0), face.gets - (old?.gets ?? 0)),
    sets: share(face.sets - (old?.sets ?? 0), seconds2),
    open: face.connections.open,
    refused: face.connections.refused,
    p50: p(face.latency, old?.latency, 0.5),
    p99: p(face.latency, old?.latency, 0.99),
    total: face.gets
  });
  const update = ({ now, then, seconds: seconds2 }) => {
    const rows = [];
    if (now.memcached !== null) rows.push(row2("memcached", now.memcached, then?.memcached, seconds2));
    if (now.redis !== null) rows.push(row2("redis", now.redis, then?.redis, seconds2));
    table.update(rows);
  };
  return { element: made.element, update };
}
function memory2() {
  const made = panel("memory", "Memory");
  const table = new Table(
    "Memory by namespace",
    [
      { head: "Namespace", cell: (row2) => row2.name },
      { head: "Entries", kind: "n", cell: (row2) => count(row2.items) },
      { head: "Bytes", kind: "n", cell: (row2) => bytes(row2.bytes) },
      { head: "Evicted", meaning: "entries that went because memory was needed", kind: "n", cell: (row2) => rate(row2.evicted) },
      { head: "Expired", kind: "n", cell: (row2) => rate(row2.expired) },
      { head: "Floor – ceiling", kind: "n", cell: (row2) => row2.limits, minor: true }
    ],
    (row2) => row2.name,
    "Nothing is stored."
  );
  const used = h("i", { class: "used" });
  const live2 = h("i", { class: "live" });
  const gauge = h("div", { class: "gauge", "aria-hidden": "true" }, used, live2);
  const said = h("p", { class: "said" }, "–");
  made.body.append(gauge, said, table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    const { budget, payload, fragmentation, resident, namespaces } = now.memory;
    used.style.width = `${(100 * share(now.memory.used, budget)).toFixed(2)}%`;
    live2.style.width = `${(100 * share(payload, budget)).toFixed(2)}%`;
    text(
      said,
      `${bytes(now.memory.used)} of ${bytes(budget)} used, ${bytes(payload)} of it keys and values, ${percent(fragmentation)} fragmentation; process ${bytes(resident)} resident`
    );
    table.update(
      namespaces.map((space) => {
        const old = named(then?.memory.namespaces, space.name);
        return {
          name: space.name,
          items: space.items,
          bytes: space.bytes,
          evicted: share(space.evictions - (old?.evictions ?? 0), seconds2),
          expired: share(space.expired - (old?.expired ?? 0), seconds2),
          limits: `${bytes(space.floor ?? 0)} – ${bytes(space.ceiling ?? budget)}`
        };
      })
    );
  };
  return { element: made.element, update };
}
function appState(app) {
  if (app.failing > 0) return "failing";
  if (app.processes === 0) return "down";
  return app.waiting > app.processes ? "queue" : "up";
}
function apps() {
  const made = panel("apps", "Applications");
  made.element.hidden = true;
  const table = new Table(
    "Applications",
    [
      { head: "Application", kind: "text", cell: (row2) => row2.name },
      { head: "State", meaning: "up: it answers; queue: more requests wait than it has processes; down: no process runs; failing: its processes end again and again", kind: "text", cell: (row2) => row2.state, mark: (row2) => row2.state === "up" ? "" : "bad" },
      { head: "Processes", meaning: "that run, of those that are wanted", kind: "n", cell: (row2) => row2.processes },
      { head: "Waiting", meaning: "requests sent to it whose answer has not begun", kind: "n", cell: (row2) => count(row2.waiting) },
      { head: "Requests", kind: "n", cell: (row2) => rate(row2.rate) },
      { head: "Restarts", meaning: "processes that ended by themselves and were started again", kind: "n", cell: (row2) => count(row2.restarts), mark: (row2) => row2.restarts > 0 ? "bad" : "" },
      { head: "Replaced", meaning: "processes that were replaced by a reload, their age or a number of requests", kind: "n", cell: (row2) => count(row2.replaced), minor: true },
      { head: "Failed starts", kind: "n", cell: (row2) => count(row2.failures), mark: (row2) => row2.failures > 0 ? "bad" : "", minor: true },
      { head: "Memory", meaning: "resident memory of its processes", kind: "n", cell: (row2) => bytes(row2.memory) },
      { head: "Last end", meaning: "why a process ended last", kind: "text", cell: (row2) => row2.reason, minor: true }
    ],
    (row2) => row2.name,
    "No applications."
  );
  made.body.append(table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    made.element.hidden = (now.apps ?? []).length === 0;
    const rows = (now.apps ?? []).map((app) => {
      const old = named(then?.apps, app.name);
      return {
        name: app.name,
        state: appState(app),
        processes: `${count(app.processes)} / ${count(app.wanted)}`,
        waiting: app.waiting,
        rate: share(app.requests - (old?.requests ?? 0), seconds2),
        restarts: app.restarts - (old?.restarts ?? 0),
        replaced: app.replaced - (old?.replaced ?? 0),
        failures: app.failures - (old?.failures ?? 0),
        memory: app.memory,
        reason: app.reason ?? "–"
      };
    });
    table.update(rows.slice(0, 100));
  };
  return { element: made.element, update };
}
function diskState(disk3) {
  if (disk3.up === 0) return "off";
  return disk3.load_ms === 0 ? "loading" : "up";
}
function disk2() {
  const made = panel("disk", "Disk");
  made.element.hidden = true;
  const table = new Table(
    "Disk",
    [
      { head: "State", meaning: "loading: what is there is not all known yet; off: it failed, and is tried again", kind: "state", cell: (row2) => row2.state, mark: (row2) => row2.state === "off" ? "bad" : "good" },
      { head: "Used", kind: "n", cell: (row2) => row2.used },
      { head: "Pages", kind: "n", cell: (row2) => count(row2.entries) },
      { head: "Lookups", kind: "n", cell: (row2) => rate(row2.rate) },
      { head: "Hit ratio", kind: "n", cell: (row2) => percent(row2.ratio) },
      { head: "Read p50", kind: "n", cell: (row2) => row2.p50, minor: true },
      { head: "p99", kind: "n", cell: (row2) => row2.p99 },
      { head: "Written", kind: "n", cell: (row2) => `${bytes(row2.written)}/s` },
      { head: "Amplification", meaning: "bytes written for one that was accepted, since the start", kind: "n", cell: (row2) => row2.amplification, minor: true },
      { head: "Evicted", kind: "n", cell: (row2) => count(row2.evicted), minor: true },
      { head: "Failures", kind: "n", cell: (row2) => count(row2.failures), mark: (row2) => row2.failures > 0 ? "bad" : "" }
    ],
    () => "disk",
    "No disk."
  );
  made.body.append(table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    made.element.hidden = now.disk === null;
    if (now.disk === null) return;
    const [own, old] = [now.disk, then?.disk];
    const lookups = own.lookups - (old?.lookups ?? 0);
    table.update([
      {
        state: diskState(own),
        used: `${bytes(own.used)} / ${bytes(own.size)}`,
        entries: own.entries,
        rate: share(lookups, seconds2),
        ratio: share(own.hits - (old?.hits ?? 0), lookups),
        p50: p(own.reads, old?.reads, 0.5),
        p99: p(own.reads, old?.reads, 0.99),
        written: share(own.written - (old?.written ?? 0), seconds2),
        amplification: own.accepted > 0 ? (own.written / own.accepted).toFixed(2) : "–",
        evicted: own.evicted - (old?.evicted ?? 0),
        failures: own.failures - (old?.failures ?? 0)
      }
    ]);
  };
  return { element: made.element, update };
}
function remote2() {
  const made = panel("remote", "Remote servers");
  made.element.hidden = true;
  const table = new Table(
    "Remote servers",
    [
      { head: "Server", kind: "url", cell: (row2) => row2.name },
      { head: "State", kind: "state", cell: (row2) => row2.state, mark: (row2) => row2.state === "up" ? "good" : "bad" },
      { head: "Lookups", kind: "n", cell: (row2) => rate(row2.rate) },
      { head: "Hit ratio", kind: "n", cell: (row2) => percent(row2.ratio) },
      { head: "Timeouts", kind: "n", cell: (row2) => count(row2.timeouts), mark: (row2) => row2.timeouts > 0 ? "bad" : "" },
      { head: "Errors", kind: "n", cell: (row2) => count(row2.errors), minor: true },
      { head: "p50", kind: "n", cell: (row2) => row2.p50, minor: true },
      { head: "p99", kind: "n", cell: (row2) => row2.p99 },
      { head: "Writes dropped", kind: "n", cell: (row2) => count(row2.dropped), minor: true }
    ],
    (row2) => row2.name,
    "No remote servers."
  );
  made.body.append(table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    made.element.hidden = now.remote === null;
    const rows = (now.remote?.servers ?? []).map((server) => {
      const old = named(then?.remote?.servers, server.name);
      const lookups = server.lookups - (old?.lookups ?? 0);
      return {
        name: server.name,
        state: server.state,
        rate: share(lookups, seconds2),
        ratio: share(server.hits - (old?.hits ?? 0), lookups),
        timeouts: server.timeouts - (old?.timeouts ?? 0),
        errors: server.errors - (old?.errors ?? 0),
        p50: p(server.latency, old?.latency, 0.5),
        p99: p(server.latency, old?.latency, 0.99),
        dropped: server.writes_dropped - (old?.writes_dropped ?? 0)
      };
    });
    table.update(rows.slice(0, 200));
  };
  return { element: made.element, update };
}
function misses() {
  const made = panel("misses", "Why missed");
  const parts = [
    { title: "Results", bars: new Bars("No requests.", result), of: (s) => since(s.now.http?.results, s.then?.http?.results) },
    { title: "Why it went to the origin", bars: new Bars("No misses.", whyMissed), of: (s) => since(s.now.http?.why_missed, s.then?.http?.why_missed) },
    { title: "Not stored because", bars: new Bars("Everything was stored.", notStored2), of: (s) => since(s.now.http?.not_stored, s.then?.http?.not_stored) }
  ];
  made.body.classList.add("thirds");
  for (const part of parts) made.body.append(h("div", {}, h("h3", {}, part.title), part.bars.element));
  const update = (span) => {
    const [all, missed] = [total(parts[0]?.of(span)), total(parts[1]?.of(span))];
    for (const part of parts) {
      const nothing = all === 0 ? "No requests in this time." : part.title === "Not stored because" && missed === 0 ? "No misses." : void 0;
      part.bars.update(part.of(span), (n, of) => `${count(n)} · ${percent(of)}`, nothing);
    }
  };
  return { element: made.element, update };
}
function queues() {
  const made = panel("queues", "Queues");
  made.element.hidden = true;
  const table = new Table(
    "Queues",
    [
      { head: "Queue", kind: "text", cell: (row2) => row2.name },
      { head: "Items", meaning: "items that wait", kind: "n", cell: (row2) => count(row2.items) },
      { head: "Bytes", kind: "n", cell: (row2) => bytes(row2.bytes), minor: true },
      { head: "Open", meaning: "items that readers have opened and not closed", kind: "n", cell: (row2) => count(row2.open) },
      { head: "Age", meaning: "how long the item read last had waited", kind: "n", cell: (row2) => row2.age },
      { head: "Added", kind: "n", cell: (row2) => rate(row2.added) },
      { head: "Taken", kind: "n", cell: (row2) => rate(row2.taken) },
      { head: "Refused", meaning: "items refused or discarded, since the queue was full", kind: "n", cell: (row2) => count(row2.refused), mark: (row2) => row2.refused > 0 ? "bad" : "" },
      { head: "Failed", meaning: "items that were aborted too often, or whose bytes on disk were damaged", kind: "n", cell: (row2) => count(row2.failed), mark: (row2) => row2.failed > 0 ? "bad" : "" },
      { head: "Aborted", meaning: "open reads that ended by /abort, or by a reader that left", kind: "n", cell: (row2) => count(row2.aborted), minor: true },
      { head: "Expired", kind: "n", cell: (row2) => count(row2.expired), minor: true },
      { head: "Journal", kind: "n", cell: (row2) => bytes(row2.journal), minor: true }
    ],
    (row2) => row2.name,
    "No queues."
  );
  const said = h("p", { class: "said" }, "–");
  made.body.append(said, table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    const all = now.queues ?? null;
    made.element.hidden = all === null;
    if (all === null) return;
    const failures = all.failures - (then?.queues?.failures ?? 0);
    text(
      said,
      `${counted(all.items, "item")} of ${bytes(all.bytes)} in ${counted(all.count, "queue")}, ${bytes(all.memory)} in memory, ${bytes(all.journal)} of journals; ${counted(all.waiting, "reader waits", "readers wait")}` + (failures > 0 ? `; ${counted(failures, "failed write")}: see standard error` : "")
    );
    const rows = [...all.largest].sort((a, b) => b.items - a.items).slice(0, 20);
    table.update(
      rows.map((queue) => {
        const old = named(then?.queues?.largest, queue.name);
        const grown = (figure) => figure(queue) - (old ? figure(old) : 0);
        return {
          name: queue.name,
          items: queue.items,
          bytes: queue.bytes,
          open: queue.open,
          age: seconds(queue.age_ms / 1e3),
          added: share(grown((of) => of.added), seconds2),
          taken: share(grown((of) => of.taken), seconds2),
          refused: grown((of) => of.refused + of.discarded),
          failed: grown((of) => of.failed + of.damaged),
          aborted: grown((of) => of.aborted),
          expired: grown((of) => of.expired),
          journal: queue.journal
        };
      })
    );
  };
  return { element: made.element, update };
}

// src/protocols.ts
var answers = (protocol) => protocol ? protocol.latency.hit.count + protocol.latency.miss.count : 0;
var p2 = (now, then, q) => micros(quantile(now, then, q));
function protocols() {
  const made = panel("protocols", "Protocols");
  const table = new Table(
    "Protocols",
    [
      { head: "Protocol", kind: "url", cell: (row2) => row2.name },
      { head: "Answers", kind: "n", cell: (row2) => rate(row2.rate) },
      { head: "Hit p50", kind: "n", cell: (row2) => row2.hit, minor: true },
      { head: "Hit p99", kind: "n", cell: (row2) => row2.slowHit },
      { head: "Miss p50", kind: "n", cell: (row2) => row2.miss, minor: true },
      { head: "Miss p99", kind: "n", cell: (row2) => row2.slowMiss }
    ],
    (row2) => row2.name,
    "No HTTP requests yet."
  );
  made.body.append(table.element);
  const update = ({ now, then, seconds: seconds2 }) => {
    const all = now.http?.protocols ?? [];
    made.element.hidden = !all.some((protocol) => protocol.name !== "HTTP/1" && answers(protocol) > 0);
    const spoken = all.filter((protocol) => answers(protocol) > 0);
    table.update(spoken.map((protocol) => {
      const old = named(then?.http?.protocols, protocol.name);
      const { hit, miss } = protocol.latency;
      return {
        name: protocol.name,
        rate: share(answers(protocol) - answers(old), seconds2),
        hit: p2(hit, old?.latency.hit, 0.5),
        slowHit: p2(hit, old?.latency.hit, 0.99),
        miss: p2(miss, old?.latency.miss, 0.5),
        slowMiss: p2(miss, old?.latency.miss, 0.99)
      };
    }));
  };
  return { element: made.element, update };
}

// src/purge.ts
var KINDS = [
  ["url", "URL"],
  ["prefix", "Prefix"],
  ["tags", "Tag"],
  ["ban", "Ban"]
];
var ASKS = {
  url: { label: "URL of one page", example: "http://example.org/page" },
  prefix: { label: "URL that the pages begin with", example: "http://example.org/blog/" },
  tags: { label: "Tags, separated by spaces", example: "article-17 frontpage" },
  ban: { label: "Expression", example: 'url ~ "^/blog/" && age > 1h' }
};
function purgeBox() {
  const made = panel("purge", "Purge");
  const what = h("input", { id: "purge-what", name: "what", type: "text", autocomplete: "off", spellcheck: "false", required: true });
  const label2 = h("label", { for: "purge-what" });
  const soft = h("input", { id: "purge-soft", type: "checkbox" });
  const secret = h("input", { id: "purge-token", type: "password", autocomplete: "off" });
  const secretRow = h("div", { class: "field" }, h("label", { for: "purge-token" }, "Token (kept until this tab is closed)"), secret);
  const go = h("button", { type: "submit", class: "primary" }, "Purge");
  const said = h("p", { class: "outcome", role: "status" });
  let armed = "";
  const disarm = () => {
    armed = "";
    text(go, "Purge");
    go.classList.remove("armed");
  };
  const ask = (kind2) => {
    text(label2, ASKS[kind2].label);
    what.placeholder = ASKS[kind2].example;
    disarm();
  };
  const kind = choice("What to purge", KINDS, "url", ask);
  ask("url");
  what.addEventListener("input", disarm);
  secretRow.hidden = token() !== "";
  const form = h(
    "form",
    { class: "purge-form", "aria-label": "Purge" },
    kind.element,
    h("div", { class: "field wide" }, label2, what),
    secretRow,
    h("div", { class: "row" }, h("label", { class: "check", title: "Marks pages as stale instead of removing them: they may still bridge a failing origin" }, soft, "soft: keep as stale"), go),
    said
  );
  const history2 = purges();
  const show = (message, bad) => {
    text(said, message);
    said.classList.toggle("bad", bad);
  };
  const send2 = async () => {
    if (secret.value !== "") setToken(secret.value);
    const value = what.value.trim();
    const order = { [kind.get()]: kind.get() === "tags" ? value.split(/\s+/) : value, soft: soft.checked };
    go.disabled = true;
    show("Purging…", false);
    try {
      const { purged } = await postJson("/api/v1/purge", order);
      show(`${count(purged)} ${purged === 1 ? "entry" : "entries"} ${soft.checked ? "marked stale" : "purged"}: ${value}`, false);
      secret.value = "";
      secretRow.hidden = true;
      history2.poll().catch(() => {
      });
    } catch (error) {
      refused(error);
    } finally {
      go.disabled = false;
      disarm();
    }
  };
  const refused = (error) => {
    show(`Not purged: ${error instanceof Error ? error.message : "unknown error"}`, true);
    if (!(error instanceof ApiError) || !error.wantsToken) return;
    secretRow.hidden = false;
    secret.value = "";
    secret.focus();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const far = kind.get() === "prefix" || kind.get() === "ban";
    if (far && armed !== what.value) {
      armed = what.value;
      text(go, "Press again to purge");
      go.classList.add("armed");
      return;
    }
    void send2();
  });
  made.body.append(form, h("h3", {}, "Recent purges"), history2.element);
  return {
    element: made.element,
    poll: history2.poll,
    focus: () => what.focus(),
    offer: (url) => {
      kind.set("url");
      what.value = url;
      what.focus();
    }
  };
}

// src/tiles.ts
var Tile = class {
  element;
  value = h("strong", {}, "–");
  said = h("span", { class: "note" }, "");
  constructor(id, title, meaning) {
    this.element = h("div", { class: "card tile", id, title: meaning }, h("h2", {}, title), this.value, this.said);
  }
  show(value, said, state2 = "") {
    text(this.value, value);
    text(this.said, said);
    this.element.dataset["state"] = state2;
  }
};
function saved({ now, then }) {
  let [us, hits] = [0, 0];
  for (const site of now.http?.sites ?? []) {
    const old = named(then?.http?.sites, site.name);
    const found = fromMemory(since(site.results, old?.results));
    hits += found;
    us += found * (site.latency.miss.count > 0 ? site.latency.miss.sum_us / site.latency.miss.count : 0);
  }
  return { us, hits };
}
var Tiles = class {
  ratio = new Tile("tile-ratio", "Hit ratio", "share of requests that memory answered, fresh or stale");
  saved = new Tile("tile-saved", "Origin time saved", "requests that memory answered, each as long as a miss of its site took on average");
  errors = new Tile("tile-errors", "Errors", "requests that ended in an error of Larder or of the origin");
  memory = new Tile("tile-memory", "Memory", "memory the store uses, of its budget");
  elements = [this.ratio, this.saved, this.errors, this.memory].map((tile) => tile.element);
  /** `span`: the last minute. */
  update(span) {
    const { now, then } = span;
    const all = since(now.http?.results, then?.http?.results);
    const [requests2, hits] = [total(all), fromMemory(all)];
    const ever = now.http === null ? 0 : share(fromMemory(now.http.results), total(now.http.results));
    this.ratio.show(percent(share(hits, requests2)), requests2 === 0 ? `no requests in the last minute; ${percent(ever)} since the start` : `of ${counted(requests2, "request")} in the last minute; ${percent(ever)} since the start`);
    const worth = saved(span);
    const time = worth.us < 1e6 ? micros(worth.us) : seconds(worth.us / 1e6);
    this.saved.show(worth.us === 0 ? "–" : time, `in the last minute: ${counted(worth.hits, "request")} that the origin did not get`);
    const failed = all["error"] ?? 0;
    this.errors.show(requests2 === 0 ? "–" : percent(share(failed, requests2)), failed === 0 ? "none in the last minute" : `${count(failed)} of ${counted(requests2, "request")} in the last minute`, failed === 0 ? "" : "bad");
    const { used, budget } = now.memory;
    const evicted = now.memory.namespaces.reduce((sum, space) => sum + space.evictions - (named(then?.memory.namespaces, space.name)?.evictions ?? 0), 0);
    this.memory.show(percent(share(used, budget)), `${bytes(used)} of ${bytes(budget)}; ${evicted === 0 ? "nothing" : count(evicted)} evicted in the last minute`);
  }
};

// src/theme.ts
var KEPT = "larder-theme";
var THEMES = ["system", "light", "dark"];
function theme() {
  const kept = localStorage.getItem(KEPT);
  return kept === "light" || kept === "dark" ? kept : "system";
}
function setTheme(value) {
  if (value === "system") {
    localStorage.removeItem(KEPT);
    delete document.documentElement.dataset["theme"];
  } else {
    localStorage.setItem(KEPT, value);
    document.documentElement.dataset["theme"] = value;
  }
}
function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] ?? "system";
  setTheme(next);
  return next;
}

// src/main.ts
var POLL_MS = 4e3;
var RANGES = [
  ["300", "5 min"],
  ["900", "15 min"],
  ["3600", "1 h"]
];
var LOOKS = [
  ["minute", "Last minute"],
  ["start", "Since start"]
];
takeTokenFromAddress();
setTheme(theme());
var samples = new Samples();
var recent = new Recent();
var axis = new TimeAxis(samples);
var advice = new Advice();
var tiles = new Tiles();
var startedMs = 0;
var state = { kind: "loading" };
var purge = purgeBox();
var inspect = inspector((url) => purge.offer(url));
var tail = log((url) => inspect.open(url));
var hotUrls = urls((url) => inspect.open(url));
var hotKeys = keys(() => ["memcached", "redis"].filter((face) => recent.now !== null && recent.now[face] !== null));
var follows = [sites(), misses(), origins(), memory2(), objects(), disk2(), remote2(), apps(), queues(), protocols()];
var range = choice("Time shown in charts", RANGES, "3600", (value) => axis.setRange(Number(value)));
var look = choice("Time counted in tables", LOOKS, "minute", () => showTables());
function build() {
  byId("ranges").append(range.element);
  byId("looks").append(look.element);
  byId("tiles").append(...tiles.elements);
  byId("charts").append(...overview(axis, recent).map((chart) => chart.element));
  const [sites2, misses2, origins2, memory3, objects2, disk3, remote3, apps2, queues2, byProtocol] = follows.map((panel2) => panel2.element);
  const columns = [
    [sites2, byProtocol, misses2, hotUrls.element, disk3, remote3],
    [origins2, apps2, queues2, memory3, objects2, hotKeys.element, purge.element]
  ];
  for (const column2 of columns) {
    byId("panels").append(h("div", { class: "column" }, ...column2.map((element) => element ?? null)));
  }
  byId("panels").append(inspect.element, tail.element);
  for (const link of document.querySelectorAll("nav a")) {
    link.addEventListener("click", () => unfold(document.querySelector(link.getAttribute("href") ?? "")));
  }
  byId("theme").addEventListener("click", showTheme);
  byId("help").addEventListener("click", () => keys_.help());
  byId("retry").addEventListener("click", () => live.connect());
  byId("pause").addEventListener("click", freeze);
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const input = byId("token-input");
    setToken(input.value.trim());
    input.value = "";
    live.connect();
  });
  text(byId("theme"), `Theme: ${theme()}`);
}
function showTheme() {
  text(byId("theme"), `Theme: ${nextTheme()}`);
}
function freeze() {
  axis.frozen = axis.frozen === null ? samples.last : null;
  byId("pause").setAttribute("aria-pressed", String(axis.frozen !== null));
  text(byId("pause"), axis.frozen === null ? "Pause" : "Go on");
  axis.draw();
  showTables();
}
async function catchUp() {
  const since2 = samples.last === 0 ? 0 : samples.last * 1e3;
  samples.fill(await getJson(path("/api/v1/history", { since: since2 })));
  if (axis.frozen === null) axis.draw();
}
function showSnapshot(snapshot) {
  if (startedMs !== 0 && startedMs !== snapshot.started_ms) axis.frozen = null;
  startedMs = snapshot.started_ms;
  recent.push(snapshot);
  document.title = `${snapshot.name} – Larder`;
  text(byId("name"), snapshot.name);
  text(byId("version"), `Larder ${snapshot.larder}`);
  text(byId("uptime"), `up ${seconds(snapshot.uptime_s)}`);
  byId("uptime").title = `process ${snapshot.pid}, ${snapshot.threads} threads, since ${moment(snapshot.started_ms)}`;
  const http = snapshot.http;
  text(byId("total"), http === null ? "HTTP is not served" : `${exact(http.requests)} requests`);
  text(byId("open"), http === null ? "" : counted(http.connections.open, "connection"));
  document.body.classList.toggle("no-objects", snapshot.memcached === null && snapshot.redis === null);
  showTables();
  catchUp().catch(() => {
  });
}
function showTables() {
  const span = look.get() === "minute" ? recent.minute() : recent.sinceStart();
  if (span === null || axis.frozen !== null) return;
  const shown2 = look.get() === "minute" ? `last ${Math.round(span.seconds)} s` : "since the start";
  text(byId("span"), shown2);
  for (const panel2 of follows) panel2.update(span);
  const lately2 = recent.minute();
  if (lately2 === null) return;
  tiles.update(lately2);
  showHints(advice.about(lately2));
}
function showHints(list) {
  const shown2 = list.slice(0, 4);
  const signature = JSON.stringify(shown2.map((hint) => [hint.level, hint.topic ?? hint.title]));
  const home = byId("hints");
  if (home.dataset["shown"] === signature) {
    shown2.forEach((hint, n) => {
      const [title, advice2] = home.children[n]?.children ?? [];
      if (title !== void 0) text(title, hint.title);
      if (advice2 !== void 0) text(advice2, hint.advice);
    });
    return;
  }
  home.dataset["shown"] = signature;
  text(byId("announced"), shown2.map((hint) => hint.title).join(". "));
  home.replaceChildren(
    ...shown2.map(
      (hint) => h(
        "li",
        { class: `hint ${hint.level}` },
        h("strong", {}, hint.title),
        h("span", { class: "advice" }, hint.advice),
        h("cite", {}, h("a", { href: address(hint.docs), target: "_blank", rel: "noopener" }, hint.docs)),
        ...hint.setting === void 0 ? [] : [h("code", { class: "setting" }, hint.setting)],
        ...(hint.evidence ?? []).map((url) => h("span", { class: "evidence" }, url))
      )
    )
  );
}
function address(docs) {
  const [file = "", section] = docs.split(", ");
  const anchor = (section ?? "").toLowerCase().replace(/[^a-z0-9 _-]/g, "").replaceAll(" ", "-");
  return `/${file}${anchor === "" ? "" : `#${anchor}`}`;
}
function showState(next) {
  state = next;
  document.body.dataset["state"] = next.kind;
  byId("token-form").hidden = next.kind !== "locked";
  byId("retry").hidden = next.kind !== "waiting";
  tick();
}
function tick() {
  const seen = recent.now === null ? "no sample yet" : `last sample ${clock(recent.now.now_ms)}`;
  const words2 = {
    loading: () => "connecting…",
    live: () => "live",
    locked: () => "token needed",
    waiting: () => "disconnected"
  };
  text(byId("state"), words2[state.kind]());
  const more = state.kind === "waiting" ? `${seen} · next attempt in ${Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1e3))} s` : state.kind === "locked" ? state.why : "";
  text(byId("state-more"), more);
  byId("state").title = state.kind === "waiting" ? state.why : "";
}
async function poll() {
  if (state.kind !== "live" || document.hidden || axis.frozen !== null) return;
  const polls = [purge];
  if (recent.now?.http !== null) polls.push(hotUrls);
  if (recent.now?.memcached !== null || recent.now?.redis !== null) polls.push(hotKeys);
  await Promise.allSettled(polls.map((one) => one.poll()));
}
function jump(id) {
  const element = byId(id);
  unfold(element);
  element.scrollIntoView({ block: "start" });
  element.focus({ preventScroll: true });
}
var keys_ = keyboard([
  { key: "/", does: "search stored pages", run: () => inspect.focus() },
  { key: "p", does: "purge", run: () => (unfold(byId("purge")), purge.focus()) },
  { key: "l", does: "start or stop the live log", run: () => (jump("log"), tail.toggle()) },
  { key: "o", does: "overview", run: () => jump("overview") },
  { key: "s", does: "sites", run: () => jump("sites") },
  { key: "m", does: "why missed", run: () => jump("misses") },
  { key: "u", does: "hottest URLs", run: () => jump("urls") },
  { key: "r", does: "next time range of the charts", run: () => range.set(RANGES[(RANGES.findIndex(([v]) => v === range.get()) + 1) % 3]?.[0] ?? "300") },
  { key: "w", does: "tables: last minute or since the start", run: () => look.set(look.get() === "minute" ? "start" : "minute") },
  { key: " ", does: "pause and go on (space)", run: freeze },
  { key: "t", does: "theme: system, light, dark", run: showTheme }
], () => void inspect.close());
var live = new Live({ opened: () => catchUp().then(() => void setTimeout(() => void poll(), 300)), snapshot: showSnapshot, state: showState });
build();
showState(state);
setInterval(tick, 500);
setInterval(() => void poll(), POLL_MS);
live.connect();
