// Elements, made without markup: URLs and keys come from clients, so nothing here ever parses HTML.

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean | null>;

/** An HTML element with attributes (`false` and `null` leave one out, `true` sets it empty) and children; strings become text. */
export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    setAll(element, attributes);
    for (const child of children) {
        if (child !== null) element.append(child);
    }
    return element;
}

/** An SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}): SVGElementTagNameMap[K] {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    setAll(element, attributes);
    return element;
}

function setAll(element: Element, attributes: Attributes): void {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === false) continue;
        element.setAttribute(name, value === true ? '' : String(value));
    }
}

/** Sets the text of an element if it differs: an unchanged one costs no layout and is not read out again. */
export function text(element: Element, value: string): void {
    if (element.textContent !== value) element.textContent = value;
}

/** The element of the page with this id, which index.html has. */
export function byId(id: string): HTMLElement {
    const element = document.getElementById(id);
    if (element === null) throw new Error(`index.html has no #${id}`);
    return element;
}

/** A row of buttons of which one is pressed, as a radio group: arrow keys move, as the pattern for toolbars asks. */
export function choice<T extends string>(
    label: string,
    options: readonly (readonly [T, string])[],
    first: T,
    chosen: (value: T) => void,
): { element: HTMLElement; set: (value: T) => void; get: () => T } {
    let current = first;
    const buttons = options.map(([value, name]) =>
        h('button', { type: 'button', role: 'radio', 'data-value': value }, name),
    );
    const element = h('div', { class: 'choice', role: 'radiogroup', 'aria-label': label }, ...buttons);
    const show = () => {
        buttons.forEach((button, n) => {
            const on = options[n]?.[0] === current;
            button.setAttribute('aria-checked', String(on));
            button.tabIndex = on ? 0 : -1;
        });
    };
    const set = (value: T) => {
        if (value === current) return;
        current = value;
        show();
        chosen(value);
    };
    buttons.forEach((button, n) => {
        const value = options[n]?.[0];
        if (value !== undefined) button.addEventListener('click', () => set(value));
        button.addEventListener('keydown', (event) => {
            const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
            if (step === undefined) return;
            event.preventDefault();
            const next = (n + step + buttons.length) % buttons.length;
            const to = options[next]?.[0];
            if (to !== undefined) set(to);
            buttons[next]?.focus();
        });
    });
    show();
    return { element, set, get: () => current };
}

/** A panel: a titled section with a place for controls in its head. */
export function panel(id: string, title: string, note = ''): { element: HTMLElement; head: HTMLElement; body: HTMLElement; note: HTMLElement } {
    const noted = h('span', { class: 'note' }, note);
    // Seen on phones alone, where the panels stand in one long column.
    const fold = h('button', { type: 'button', class: 'fold', 'aria-controls': `${id}-body`, 'aria-label': `${title}: show or hide` });
    const head = h('div', { class: 'panel-head' }, h('h2', { id: `${id}-title` }, title), noted, fold);
    const body = h('div', { class: 'panel-body', id: `${id}-body` });
    const element = h('section', { class: 'panel', id, 'aria-labelledby': `${id}-title`, tabindex: -1 }, head, body);
    fold.addEventListener('click', () => setFolded(element, !element.classList.contains('folded')));
    setFolded(element, !UNFOLDED.includes(id));
    return { element, head, body, note: noted };
}

/** Panels that are open on a phone at first. */
const UNFOLDED = ['sites', 'misses', 'origins'];

function setFolded(element: Element, folded: boolean): void {
    element.classList.toggle('folded', folded);
    element.querySelector('.fold')?.setAttribute('aria-expanded', String(!folded));
}

/** Shows the content of a panel. */
export function unfold(element: Element | null): void {
    if (element !== null && element.classList.contains('folded')) setFolded(element, false);
}
