// The live connection: snapshots once a second, and what to do when they stop.
//
//   loading -> live <-> waiting (pause of 1, 2, 4 ... 30 s) -> live
//          \-> locked: a token is needed; stays until one is given

import { ApiError, openStream, path } from './api';
import { readEvents } from './sse';
import type { Snapshot } from './types';

/** A snapshot comes every second; after this long without any sign the connection is dead, whatever TCP believes. */
const SILENCE_MS = 6_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export type State =
    | { kind: 'loading' }
    | { kind: 'live' }
    | { kind: 'waiting'; why: string; retryAt: number }
    | { kind: 'locked'; why: string };

export interface Listener {
    /** Called before the first snapshot of each connection; what was missed meanwhile can be fetched here. */
    opened: () => Promise<void>;
    snapshot: (snapshot: Snapshot) => void;
    state: (state: State) => void;
}

export class Live {
    private pause = FIRST_PAUSE_MS;
    private abort = new AbortController();
    private timer = 0;
    private lastHeard = 0;

    constructor(private readonly listener: Listener) {
        setInterval(() => {
            const silent = this.lastHeard > 0 && Date.now() - this.lastHeard > SILENCE_MS;
            if (silent) this.abort.abort(new Error('nothing came for some seconds'));
        }, 1_000);
        // A laptop that wakes up, a network that is back: no need to sit out the pause.
        addEventListener('online', () => this.hurry());
        document.addEventListener('visibilitychange', () => {
            if (!document.hidden) this.hurry();
        });
    }

    /** Connects now, ending what is there. */
    connect(): void {
        clearTimeout(this.timer);
        this.timer = 0;
        this.abort.abort();
        this.abort = new AbortController();
        void this.run(this.abort);
    }

    private hurry(): void {
        if (this.timer !== 0) this.connect();
    }

    private async run(abort: AbortController): Promise<void> {
        try {
            const stream = await openStream(path('/api/v1/live'), abort.signal);
            await this.listener.opened();
            this.lastHeard = Date.now();
            await readEvents(stream, (message) => this.take(message.event, message.data), () => {
                this.lastHeard = Date.now();
            });
            this.failed(abort, new ApiError(0, 'ended', 'Larder closed the connection'));
        } catch (error) {
            this.failed(abort, error);
        }
    }

    private take(event: string, data: string): void {
        if (event !== 'stats') return;
        this.pause = FIRST_PAUSE_MS;
        const snapshot = JSON.parse(data) as Snapshot;
        this.listener.state({ kind: 'live' });
        this.listener.snapshot(snapshot);
    }

    private failed(abort: AbortController, error: unknown): void {
        // Another connection has taken this one's place.
        if (abort !== this.abort) return;
        this.lastHeard = 0;
        if (error instanceof ApiError && error.wantsToken) {
            this.listener.state({ kind: 'locked', why: error.message });
            return;
        }
        const why = error instanceof Error ? error.message : 'unknown';
        this.listener.state({ kind: 'waiting', why, retryAt: Date.now() + this.pause });
        this.timer = setTimeout(() => this.connect(), this.pause);
        this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
    }
}
