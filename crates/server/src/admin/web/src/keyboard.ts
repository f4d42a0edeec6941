// Shortcuts: single keys, off while one types, listed on `?`.

import { h } from './dom';

export interface Shortcut {
    key: string;
    does: string;
    run: () => void;
}

/** Listens for the shortcuts and makes the list of them. `escape`: what Esc does outside of fields and of the list. */
export function keyboard(shortcuts: Shortcut[], escape: () => void): { help: () => void } {
    const close = h('button', { type: 'button', class: 'primary' }, 'Close');
    const list = h('dl', { class: 'shortcuts' });
    const dialog = h('dialog', { 'aria-labelledby': 'help-title' }, h('h2', { id: 'help-title' }, 'Keyboard'), list, close);
    const help = () => (dialog.open ? dialog.close() : dialog.showModal());
    const all = [...shortcuts, { key: '?', does: 'this list', run: help }];
    for (const { key, does } of all) list.append(h('dt', {}, h('kbd', {}, key)), h('dd', {}, does));
    list.append(
        h('dt', {}, h('kbd', {}, '←'), ' ', h('kbd', {}, '→')),
        h('dd', {}, 'on a chart: read values at other times'),
        h('dt', {}, h('kbd', {}, 'Esc')),
        h('dd', {}, 'close this list or the page that was opened, leave a field'),
    );
    close.addEventListener('click', () => dialog.close());
    document.body.append(dialog);
    document.addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const at = event.target;
        if (event.key === 'Escape' && at instanceof HTMLElement && at.matches('input, select')) at.blur();
        else if (event.key === 'Escape' && !dialog.open) escape();
        if (at instanceof HTMLElement && at.matches('input, select, textarea')) return;
        const shortcut = all.find(({ key }) => key === event.key);
        if (shortcut === undefined || (dialog.open && shortcut.key !== '?')) return;
        event.preventDefault();
        shortcut.run();
    });
    return { help };
}
