// Tables whose rows keep their place in the page while their numbers change: focus and selection survive an update.

import { h, text } from './dom';

export interface Column<R> {
    head: string;
    /** Said of the column on hovering its head. */
    meaning?: string;
    /** `n` for numbers, `url` for what gets all the room left, `text` for what may be cut, `state` for a word with a dot. */
    kind?: 'n' | 'url' | 'text' | 'state';
    cell: (row: R) => string;
    /** A class for the cell, such as `bad`. */
    mark?: (row: R) => string;
    /** Left out where there is little room. */
    minor?: boolean;
    /** Makes the cell a button. */
    press?: (row: R) => void;
}

export class Table<R> {
    readonly element: HTMLElement;
    private readonly body = h('tbody');
    private readonly empty = h('p', { class: 'empty' });
    private rows = new Map<string, { row: R; tr: HTMLTableRowElement; cells: HTMLElement[] }>();

    constructor(
        label: string,
        private readonly columns: Column<R>[],
        private readonly key: (row: R) => string,
        private readonly whenEmpty: string,
    ) {
        const heads = columns.map((column) =>
            h('th', { scope: 'col', class: classes(column), title: column.meaning ?? null }, column.head),
        );
        const table = h('table', { 'aria-label': label }, h('thead', {}, h('tr', {}, ...heads)), this.body);
        // It scrolls where it is narrow: then the keyboard has to reach it.
        this.element = h('div', { class: 'table', tabindex: 0, role: 'group', 'aria-label': `${label}, table` }, table, this.empty);
        text(this.empty, 'Loading…');
    }

    update(rows: R[]): void {
        const old = this.rows;
        this.rows = new Map();
        for (const row of rows) {
            // Two rows of one name would lose one of them.
            let key = this.key(row);
            while (this.rows.has(key)) key += '\0';
            const line = old.get(key) ?? this.line(row);
            old.delete(key);
            line.row = row;
            this.show(line);
            this.rows.set(key, line);
        }
        old.forEach(({ tr }) => tr.remove());
        let at = this.body.firstElementChild;
        for (const { tr } of this.rows.values()) {
            if (tr === at) at = at.nextElementSibling;
            else this.body.insertBefore(tr, at);
        }
        this.say(rows.length === 0 ? this.whenEmpty : '');
    }

    /** Says something in place of rows. */
    say(message: string): void {
        this.empty.hidden = message === '';
        text(this.empty, message);
    }

    private line(row: R): { row: R; tr: HTMLTableRowElement; cells: HTMLElement[] } {
        const line = { row, tr: h('tr'), cells: [] as HTMLElement[] };
        this.columns.forEach((column, n) => {
            const cell = n === 0 ? h('th', { scope: 'row' }) : h('td');
            const press = column.press;
            let inner: HTMLElement = cell;
            if (press !== undefined) {
                inner = h('button', { type: 'button', class: 'link' });
                inner.addEventListener('click', () => press(line.row));
                cell.append(inner);
            }
            line.cells.push(inner);
            line.tr.append(cell);
        });
        return line;
    }

    private show(line: { row: R; tr: HTMLTableRowElement; cells: HTMLElement[] }): void {
        this.columns.forEach((column, n) => {
            const cell = line.cells[n];
            if (cell === undefined) return;
            const value = column.cell(line.row);
            text(cell, value);
            if (column.kind === 'url' || column.kind === 'text') cell.title = value;
            const outer = cell.closest('td, th');
            const wanted = `${classes(column)} ${column.mark?.(line.row) ?? ''}`.trim();
            if (outer !== null && outer.className !== wanted) outer.className = wanted;
        });
    }
}

function classes<R>(column: Column<R>): string {
    return `${column.kind ?? ''}${column.minor === true ? ' minor' : ''}`.trim();
}

/** Counts as bars, largest first: what a breakdown is read as. */
export class Bars {
    readonly element = h('ul', { class: 'bars' });
    private readonly empty = h('li', { class: 'empty' }, 'Loading…');
    private items = new Map<string, { item: HTMLElement; bar: HTMLElement; name: HTMLElement; value: HTMLElement }>();

    constructor(
        private readonly whenEmpty: string,
        private readonly explain: (name: string) => string,
        private readonly most = 8,
    ) {
        this.element.append(this.empty);
    }

    update(counts: Record<string, number>, format: (value: number, share: number) => string, whenEmpty = this.whenEmpty): void {
        const sorted = Object.entries(counts).sort((a, b) => b[1] - a[1]).slice(0, this.most);
        const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
        const old = this.items;
        this.items = new Map();
        for (const [name, n] of sorted) {
            const item = old.get(name) ?? this.make(name);
            old.delete(name);
            item.bar.style.width = `${((100 * n) / all).toFixed(1)}%`;
            text(item.value, format(n, n / all));
            item.value.title = n.toLocaleString('en-US');
            this.items.set(name, item);
        }
        old.forEach(({ item }) => item.remove());
        this.empty.hidden = sorted.length > 0;
        text(this.empty, whenEmpty);
        [...this.items.values()].forEach(({ item }, n) => {
            if (this.element.children[n] !== item) this.element.insertBefore(item, this.element.children[n] ?? null);
        });
    }

    private make(name: string): { item: HTMLElement; bar: HTMLElement; name: HTMLElement; value: HTMLElement } {
        const bar = h('i', { class: 'bar', 'aria-hidden': 'true' });
        const label = h('span', { class: 'bar-name' }, name);
        const value = h('span', { class: 'bar-value' });
        const why = this.explain(name);
        const item = h('li', { title: why === '' ? null : why }, bar, label, value);
        return { item, bar, name: label, value };
    }
}
