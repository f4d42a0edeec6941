// Light or dark: the system's wish, until one is chosen here.

const KEPT = 'larder-theme';
const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

export function theme(): Theme {
    const kept = localStorage.getItem(KEPT);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export function setTheme(value: Theme): void {
    if (value === 'system') {
        localStorage.removeItem(KEPT);
        delete document.documentElement.dataset['theme'];
    } else {
        localStorage.setItem(KEPT, value);
        document.documentElement.dataset['theme'] = value;
    }
}

/** The next of system, light, dark. */
export function nextTheme(): Theme {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] ?? 'system';
    setTheme(next);
    return next;
}
