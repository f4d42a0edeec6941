// The last hour, one value a second for each column of /api/v1/history. What is missing is NaN and drawn as a gap.

import type { Columns } from './types';

/** Seconds kept: as many as Larder keeps. */
export const HOUR = 3600;

export class Samples {
    private columns = new Map<string, Float64Array>();
    /** The newest second there is a value for; 0: nothing yet. */
    last = 0;
    /** The oldest second there is a value for; 0: nothing yet. */
    first = 0;

    /** Adds what the API gave; seconds already known are written over. */
    fill(history: Columns): void {
        const first = Math.floor(history.from_ms / 1000);
        const rows = Math.max(0, ...Object.values(history.columns).map((column) => column.length));
        if (rows === 0) return;
        this.forget(first + rows - 1);
        const columns = Object.values(history.columns);
        const known = columns.map((column) => column.findIndex((value) => value !== null)).filter((n) => n >= 0);
        if (known.length > 0) {
            const oldest = first + Math.min(...known);
            if (this.first === 0 || oldest < this.first) this.first = oldest;
        }
        this.first = Math.max(this.first, this.last - HOUR + 1);
        for (const [name, values] of Object.entries(history.columns)) {
            const ring = this.ring(name);
            values.forEach((value, n) => {
                const second = first + n;
                if (second > this.last - HOUR && second <= this.last) ring[second % HOUR] = value ?? NaN;
            });
        }
    }

    /** Moves on to a newer second; what lies between is unknown until it is filled. */
    private forget(second: number): void {
        if (second <= this.last) return;
        const from = Math.max(this.last + 1, second - HOUR + 1);
        for (const ring of this.columns.values()) {
            for (let n = from; n <= second; n += 1) ring[n % HOUR] = NaN;
        }
        this.last = second;
    }

    private ring(name: string): Float64Array {
        let ring = this.columns.get(name);
        if (ring === undefined) {
            ring = new Float64Array(HOUR).fill(NaN);
            this.columns.set(name, ring);
        }
        return ring;
    }

    /** The value of a column at a second; NaN when it is not known. */
    at(name: string, second: number): number {
        if (second > this.last || second <= this.last - HOUR) return NaN;
        return this.columns.get(name)?.[second % HOUR] ?? NaN;
    }

    clear(): void {
        this.columns.clear();
        this.last = 0;
        this.first = 0;
    }
}
