// Small time charts in SVG: drawn from CSS classes, so that themes need no redrawing.

import { h, svg, text } from './dom';
import { clock } from './format';
import { HOUR, type Samples } from './store';

export interface Series {
    label: string;
    /** Class of line and swatch: c1 to c6, or `bad`. */
    tint: string;
    /** Value at a second; NaN: none. */
    value: (samples: Samples, second: number) => number;
    /** How the seconds of one step become one: rates are averaged, of the worst the worst is shown. */
    merge: 'mean' | 'max';
}

export interface ChartOptions {
    id: string;
    title: string;
    /** What is said of the title, for those who cannot see the chart and as its tooltip. */
    meaning: string;
    series: Series[];
    format: (value: number) => string;
    /** Values are on top of each other, as parts of a whole. */
    stacked?: boolean;
    /** Decades instead of even steps. */
    logarithmic?: boolean;
    /** The top of the axis, when it does not follow from the values. */
    top?: () => number | null;
    /** Round numbers are those of bytes. */
    binary?: boolean;
    /** The large figure in the corner; else that of the first series. */
    headline?: (samples: Samples, second: number) => string;
    empty: string;
    /** Zero is a value worth a line: not every other chart has something to show then. */
    zero?: boolean;
}

const LEFT = 52;
const RIGHT = 8;
const TOP = 6;
const BOTTOM = 20;
/** Steps that divide a minute or a quarter of an hour, seconds. */
const STEPS = [1, 2, 3, 5, 10, 15, 20, 30, 60];

/** The shortest stretch of time that is shown: a point in the middle says nothing. */
const LEAST = 60;

/** What all charts share: the stretch of time shown, and the second the pointer is at. */
export class TimeAxis {
    private chosen = HOUR;
    cursor: number | null = null;
    frozen: number | null = null;
    private charts: Chart[] = [];

    constructor(readonly samples: Samples) {}

    add(chart: Chart): void {
        this.charts.push(chart);
    }

    get end(): number {
        return this.frozen ?? this.samples.last;
    }

    /** Seconds shown: those chosen, but no more than there are figures of. */
    get range(): number {
        const { first } = this.samples;
        const known = first === 0 ? 0 : this.end - first;
        return Math.min(this.chosen, Math.max(known, LEAST));
    }

    setRange(seconds: number): void {
        this.chosen = Math.min(seconds, HOUR);
        this.draw();
    }

    point(second: number | null): void {
        if (second === this.cursor) return;
        this.cursor = second;
        this.charts.forEach((chart) => chart.drawCursor());
    }

    draw(): void {
        this.charts.forEach((chart) => chart.draw());
    }
}

/** One step of one series: `at` is the second its middle lies at. */
interface Point {
    at: number;
    value: number;
}

export class Chart {
    readonly element: HTMLElement;
    private readonly plot = svg('svg', { class: 'plot', 'aria-hidden': 'true', preserveAspectRatio: 'none' });
    private readonly grid = svg('g', { class: 'grid' });
    private readonly marks = svg('g');
    private readonly line = svg('line', { class: 'cursor', y1: TOP });
    private readonly paths: { area: SVGPathElement | null; stroke: SVGPathElement }[];
    private readonly values: HTMLElement[] = [];
    private readonly headline = h('output', { class: 'headline', 'aria-live': 'off' }, '–');
    private readonly when = h('span', { class: 'when' });
    private readonly empty: HTMLElement;
    private width = 320;
    private height = 150;

    constructor(
        private readonly axis: TimeAxis,
        private readonly options: ChartOptions,
    ) {
        this.paths = options.series.map((series) => {
            const area = options.stacked === true ? svg('path', { class: `area ${series.tint}` }) : null;
            const stroke = svg('path', { class: `line ${series.tint}` });
            if (area !== null) this.marks.append(area);
            return { area, stroke };
        });
        // Lines lie over areas, and the first series over the others.
        [...this.paths].reverse().forEach(({ stroke }) => this.marks.append(stroke));
        this.plot.append(this.grid, this.marks, this.line);
        this.empty = h('p', { class: 'chart-empty' }, 'Loading…');
        const frame = h('div', {
            class: 'frame',
            tabindex: 0,
            role: 'img',
            'aria-label': `${options.title}: ${options.meaning}. Left and right arrows read values.`,
        });
        frame.append(this.plot, this.empty);
        this.element = h(
            'section',
            { class: 'card', id: options.id, 'aria-label': `${options.title}, chart` },
            h('header', {}, h('h2', { id: `${options.id}-title`, title: options.meaning }, options.title), this.when, this.headline),
            this.legend(),
            frame,
        );
        this.listen(frame);
        axis.add(this);
        new ResizeObserver(() => {
            this.width = Math.max(frame.clientWidth, 120);
            this.height = Math.max(frame.clientHeight, 80);
            this.draw();
        }).observe(frame);
    }

    private legend(): HTMLElement {
        return h(
            'ul',
            // Three to a line, but for four: these are two pairs.
            { class: this.options.series.length === 4 ? 'legend few' : 'legend' },
            ...this.options.series.map((series) => {
                const value = h('span', { class: 'value' }, '–');
                this.values.push(value);
                return h('li', {}, h('i', { class: `swatch ${series.tint}` }), h('span', {}, series.label), value);
            }),
        );
    }

    private listen(frame: HTMLElement): void {
        const secondAt = (x: number) => {
            const share = (x - LEFT) / (this.width - LEFT - RIGHT);
            return Math.round(this.axis.end - this.axis.range * (1 - Math.min(Math.max(share, 0), 1)));
        };
        frame.addEventListener('pointermove', (event) => {
            this.axis.point(secondAt(event.clientX - frame.getBoundingClientRect().left));
        });
        frame.addEventListener('pointerleave', () => this.axis.point(null));
        frame.addEventListener('blur', () => this.axis.point(null));
        frame.addEventListener('keydown', (event) => {
            const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (direction === undefined) return;
            event.preventDefault();
            const from = this.axis.cursor ?? this.axis.end;
            const to = from + direction * Math.max(this.step(), this.axis.range / 60);
            this.axis.point(Math.round(Math.min(Math.max(to, this.axis.end - this.axis.range), this.axis.end)));
        });
    }

    /** Seconds of one step: two pixels or more for each. */
    private step(): number {
        const least = this.axis.range / ((this.width - LEFT - RIGHT) / 2);
        return STEPS.find((step) => step >= least) ?? 60;
    }

    /** The values of a series, step by step; steps lie on whole multiples, so that they do not shimmer as time passes. */
    private points(series: Series): Point[] {
        const { samples, end, range } = this.axis;
        const step = this.step();
        const points: Point[] = [];
        for (let from = Math.floor((end - range) / step) * step; from <= end; from += step) {
            let merged = NaN;
            let known = 0;
            for (let second = from; second < from + step && second <= end; second += 1) {
                const value = series.value(samples, second);
                if (Number.isNaN(value)) continue;
                known += 1;
                if (known === 1) merged = value;
                else merged = series.merge === 'max' ? Math.max(merged, value) : merged + value;
            }
            if (series.merge === 'mean' && known > 0) merged /= known;
            points.push({ at: Math.min(from + (step - 1) / 2, end), value: merged });
        }
        return points;
    }

    draw(): void {
        const { axis, plot } = this;
        plot.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
        const all = this.options.series.map((series) => this.points(series));
        const tops = this.options.stacked === true ? pile(all) : all;
        const anything = all.some((points) => points.some((point) => !Number.isNaN(point.value)));
        const nonzero = all.some((points) => points.some((point) => point.value > 0));
        this.empty.hidden = this.options.zero === true ? anything : nonzero;
        if (axis.samples.last > 0) text(this.empty, this.options.empty);
        const scale = this.scale(tops);
        this.drawGrid(scale, anything);
        this.paths.forEach(({ area, stroke }, n) => {
            const outline = this.outline(tops[n] ?? [], scale);
            stroke.setAttribute('d', anything ? outline : '');
            area?.setAttribute('d', anything ? this.fill(tops[n] ?? [], n === 0 ? null : (tops[n - 1] ?? null), scale) : '');
        });
        this.drawCursor();
    }

    private x(second: number): number {
        const share = 1 - (this.axis.end - second) / this.axis.range;
        return LEFT + share * (this.width - LEFT - RIGHT);
    }

    private scale(tops: Point[][]): Scale {
        const values = tops.flatMap((points) => points.map((point) => point.value).filter((value) => value >= 0));
        const most = values.reduce((a, b) => Math.max(a, b), 0);
        const bottom = this.height - BOTTOM;
        return this.options.logarithmic === true
            ? new Scale(logTicks(values.filter((value) => value > 0)), bottom, true)
            : new Scale(this.evenTicks(most), bottom, false);
    }

    private evenTicks(most: number): number[] {
        const top = this.options.top?.() ?? null;
        if (top !== null) return [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
        if (this.options.binary !== true) return evenTicks(most);
        const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(most, 1)) / 10));
        return evenTicks(most / unit).map((tick) => tick * unit);
    }

    private outline(points: Point[], scale: Scale): string {
        let d = '';
        let open = false;
        for (const { at, value } of points) {
            const x = this.x(at);
            if (Number.isNaN(value) || x < LEFT - 0.5) {
                open = false;
                continue;
            }
            d += `${open ? 'L' : 'M'}${x.toFixed(1)} ${scale.y(value).toFixed(1)}`;
            // A value alone between gaps is still seen.
            if (!open) d += 'h0.01';
            open = true;
        }
        return d;
    }

    private fill(points: Point[], below: Point[] | null, scale: Scale): string {
        const floor = scale.y(0);
        const shown = points
            .map((point, n) => ({ ...point, low: below?.[n]?.value ?? 0 }))
            .filter((point) => !Number.isNaN(point.value) && this.x(point.at) >= LEFT - 0.5);
        if (shown.length === 0) return '';
        const there = shown.map((p) => `${this.x(p.at).toFixed(1)} ${scale.y(p.value).toFixed(1)}`);
        const back = shown.reverse().map((p) => `${this.x(p.at).toFixed(1)} ${(Number.isNaN(p.low) ? floor : scale.y(p.low)).toFixed(1)}`);
        return `M${there.join('L')}L${back.join('L')}Z`;
    }

    private drawGrid(scale: Scale, anything: boolean): void {
        const parts: SVGElement[] = [];
        // Without values only the frame: words stand in the middle.
        const ticks = anything ? scale.ticks : [scale.ticks[0] ?? 0, scale.ticks.at(-1) ?? 1];
        for (const tick of ticks) {
            const y = scale.y(tick);
            parts.push(svg('line', { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
            if (!anything) continue;
            const label = svg('text', { x: LEFT - 6, y: y + 3.5, 'text-anchor': 'end' });
            label.textContent = short(this.options.format(tick));
            parts.push(label);
        }
        const every = [15, 30, 60, 120, 300, 600, 900].find((s) => this.axis.range / s <= Math.max((this.width - LEFT) / 68, 2)) ?? 900;
        const { end, range } = this.axis;
        for (let at = Math.ceil((end - range) / every) * every; at <= end && anything; at += every) {
            const x = this.x(at);
            if (x < LEFT + 12 || x > this.width - 16) continue;
            const label = svg('text', { x, y: this.height - 5, 'text-anchor': 'middle' });
            label.textContent = every < 60 ? clock(at * 1000) : clock(at * 1000).slice(0, 5);
            parts.push(svg('line', { x1: x, x2: x, y1: this.height - BOTTOM, y2: this.height - BOTTOM + 4 }), label);
        }
        this.grid.replaceChildren(...parts);
    }

    /** The figures of the legend: at the pointer, else the newest. */
    drawCursor(): void {
        const { cursor, samples, end } = this.axis;
        const shown = cursor !== null && cursor >= end - this.axis.range && samples.last > 0;
        this.line.setAttribute('visibility', shown ? 'visible' : 'hidden');
        if (shown) {
            const x = this.x(cursor);
            this.line.setAttribute('x1', String(x));
            this.line.setAttribute('x2', String(x));
            this.line.setAttribute('y2', String(this.height - BOTTOM));
        }
        const second = shown ? cursor : end;
        text(this.when, shown ? `at ${clock(second * 1000)}` : '');
        this.options.series.forEach((series, n) => {
            const element = this.values[n];
            if (element !== undefined) text(element, this.options.format(series.value(samples, second)));
        });
        const first = this.options.series[0];
        const headline = this.options.headline?.(samples, second);
        text(this.headline, headline ?? (first === undefined ? '–' : this.options.format(first.value(samples, second))));
    }
}

/** A value as it stands at an axis: no `/s`, no zeros after the point. */
function short(value: string): string {
    return value.replace('/s', '').replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');
}

/** Series on top of each other. */
function pile(all: Point[][]): Point[][] {
    let below: Point[] | null = null;
    return all.map((points) => {
        const under: Point[] | null = below;
        const piled = points.map((point, n) => ({ at: point.at, value: point.value + (under?.[n]?.value ?? 0) }));
        below = piled;
        return piled;
    });
}

class Scale {
    constructor(
        readonly ticks: number[],
        private readonly bottom: number,
        private readonly logarithmic: boolean,
    ) {}

    y(value: number): number {
        const low = this.ticks[0] ?? 0;
        const high = this.ticks.at(-1) ?? 1;
        const share = this.logarithmic
            ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
            : (value - low) / (high - low);
        return this.bottom - Math.min(Math.max(share, 0), 1.02) * (this.bottom - TOP);
    }
}

/** Zero to the next round number, in two to five steps. */
function evenTicks(most: number): number[] {
    if (!(most > 0)) return [0, 1];
    const power = 10 ** Math.floor(Math.log10(most));
    const step = [0.25, 0.5, 1, 2, 2.5, 5].map((n) => n * power).find((s) => most / s <= 4) ?? power * 5;
    const steps = Math.max(1, Math.ceil(most / step - 1e-9));
    return Array.from({ length: steps + 1 }, (_, n) => n * step);
}

/** Powers of ten round all values, at least two decades. */
function logTicks(values: number[]): number[] {
    if (values.length === 0) return [10, 100, 1000];
    const low = Math.floor(Math.log10(Math.max(values.reduce((a, b) => Math.min(a, b), Infinity), 1)));
    const high = Math.max(Math.ceil(Math.log10(values.reduce((a, b) => Math.max(a, b), 1)) + 1e-9), low + 2);
    return Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n));
}
