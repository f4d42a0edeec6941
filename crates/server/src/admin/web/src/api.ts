// Requests to the admin API. The token is kept for this tab only, and never in the address bar, history or a cookie.

const TOKEN = 'larder-token';
/** Longer than any answer takes; a request that hangs must not keep a panel waiting for ever. */
const TIMEOUT_MS = 15_000;

/** What the API said no with; `status` 0 when there was no answer at all. */
export class ApiError extends Error {
    constructor(
        readonly status: number,
        readonly code: string,
        message: string,
    ) {
        super(message);
    }

    /** The answer to "who are you": a token is missing or wrong. */
    get wantsToken(): boolean {
        return this.code === 'no_token' || this.code === 'bad_token';
    }
}

export function token(): string {
    return sessionStorage.getItem(TOKEN) ?? '';
}

export function setToken(value: string): void {
    if (value === '') sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, value);
}

/** Takes `#token=...` out of the address, where it would be bookmarked and shown on projectors. */
export function takeTokenFromAddress(): void {
    const found = /^#token=(.+)$/.exec(location.hash);
    if (found?.[1] === undefined) return;
    let value = found[1];
    try {
        value = decodeURIComponent(value);
    } catch {
        // Not percent-encoded, then: taken as it stands.
    }
    setToken(value);
    history.replaceState(null, '', location.pathname + location.search);
}

function headers(body: boolean): Headers {
    const all = new Headers({ Accept: 'application/json' });
    if (token() !== '') all.set('Authorization', `Bearer ${token()}`);
    if (body) all.set('Content-Type', 'application/json');
    return all;
}

async function refusal(response: Response): Promise<ApiError> {
    const said: unknown = await response.json().catch(() => null);
    const error = (said as { error?: { code?: unknown; message?: unknown } } | null)?.error;
    return new ApiError(
        response.status,
        typeof error?.code === 'string' ? error.code : 'http',
        typeof error?.message === 'string' ? error.message : `the answer was ${response.status} ${response.statusText}`,
    );
}

async function send(path: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
        response = await fetch(path, { ...init, cache: 'no-store', credentials: 'omit' });
    } catch (cause) {
        throw new ApiError(0, 'unreachable', cause instanceof Error ? cause.message : 'no answer');
    }
    if (!response.ok) throw await refusal(response);
    return response;
}

/** A path with those parameters that say something. */
export function path(base: string, parameters: Record<string, string | number | null> = {}): string {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
        if (value !== null && value !== '') query.set(name, String(value));
    }
    const said = query.toString();
    return said === '' ? base : `${base}?${said}`;
}

/** The JSON at a path. */
export async function getJson<T>(at: string): Promise<T> {
    const response = await send(at, { headers: headers(false), signal: AbortSignal.timeout(TIMEOUT_MS) });
    return (await response.json()) as T;
}

/** Sends JSON to a path that changes something; purges of everything walk the store, so there is no deadline here. */
export async function postJson<T>(at: string, body: unknown): Promise<T> {
    const response = await send(at, { method: 'POST', headers: headers(true), body: JSON.stringify(body) });
    return (await response.json()) as T;
}

/** Opens a stream of server-sent events. `EventSource` cannot send a token, so it is read here (see sse.ts). */
export async function openStream(at: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const all = headers(false);
    all.set('Accept', 'text/event-stream');
    const response = await send(at, { headers: all, signal });
    if (response.body === null) throw new ApiError(0, 'unreachable', 'the answer has no body');
    return response.body;
}
