// Numbers as people read them: three figures, a unit, and the same width whatever the value, so that nothing jumps.

const NONE = '–';

function known(value: number | null | undefined): value is number {
    return value !== null && value !== undefined && Number.isFinite(value);
}

/** Three significant figures at most, never an exponent. */
function figures(value: number): string {
    const size = Math.abs(value);
    if (size >= 100 || size === 0) return Math.round(value).toString();
    if (size >= 9.995) return value.toFixed(1);
    return value.toFixed(2);
}

function scaled(value: number, step: number, units: readonly string[]): string {
    let n = 0;
    let left = value;
    while (Math.abs(left) >= step * 0.9995 && n < units.length - 1) {
        left /= step;
        n += 1;
    }
    return `${figures(left)}${units[n] ?? ''}`;
}

/** A count, exact to 9,999, then in thousands (k), millions (M), thousands of millions (G). */
export function count(value: number | null | undefined): string {
    if (!known(value)) return NONE;
    if (Math.abs(value) < 10_000) return Math.round(value).toLocaleString('en-US');
    return scaled(value, 1000, ['', ' k', ' M', ' G', ' T']);
}

/** A count with its noun. */
export function counted(value: number, one: string, several = `${one}s`): string {
    return `${count(value)} ${value === 1 ? one : several}`;
}

/** A whole count, all digits, for titles. */
export function exact(value: number): string {
    return Math.round(value).toLocaleString('en-US');
}

/** So many a second. */
export function rate(value: number | null | undefined): string {
    if (!known(value)) return NONE;
    if (value > 0 && value < 0.01) return '<0.01/s';
    return `${scaled(value, 1000, ['', ' k', ' M', ' G'])}/s`;
}

/** Bytes in powers of 1024. */
export function bytes(value: number | null | undefined): string {
    if (!known(value)) return NONE;
    if (value < 1024) return `${Math.round(value)} B`;
    return scaled(value, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB']);
}

/** A share of one, as a percentage. */
export function percent(value: number | null | undefined): string {
    if (!known(value)) return NONE;
    const hundred = value * 100;
    // 99.97 % is not 100 %: the misses are what one looks for.
    if (hundred > 99 && hundred < 100) return `${Math.min(hundred, 99.99).toFixed(2)} %`;
    if (hundred > 0 && hundred < 0.1) return '<0.1 %';
    return `${hundred.toFixed(1)} %`;
}

/** Microseconds, as µs, ms or s. */
export function micros(value: number | null | undefined): string {
    if (!known(value)) return NONE;
    if (value < 999.5) return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} µs`;
    if (value < 999_500) return `${figures(value / 1000)} ms`;
    return `${figures(value / 1_000_000)} s`;
}

/** Seconds as the two largest of days, hours, minutes, seconds. */
export function seconds(value: number | null | undefined): string {
    if (!known(value)) return NONE;
    const whole = Math.round(Math.abs(value));
    const sign = value < 0 ? '−' : '';
    const parts: [number, string][] = [
        [Math.floor(whole / 86_400), 'd'],
        [Math.floor(whole / 3600) % 24, 'h'],
        [Math.floor(whole / 60) % 60, 'min'],
        [whole % 60, 's'],
    ];
    const first = parts.findIndex(([n]) => n > 0);
    if (first < 0) return '0 s';
    const shown = parts.slice(first, first + 2).filter(([n], at) => at === 0 || n > 0);
    return sign + shown.map(([n, unit]) => `${n} ${unit}`).join(' ');
}

/** Wall clock of a moment, to the second, in the browser's zone. */
export function clock(ms: number): string {
    const date = new Date(ms);
    const two = (n: number) => String(n).padStart(2, '0');
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Date and wall clock. */
export function moment(ms: number): string {
    const date = new Date(ms);
    const two = (n: number) => String(n).padStart(2, '0');
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(ms)}`;
}
