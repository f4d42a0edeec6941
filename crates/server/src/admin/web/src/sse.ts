// Server-sent events as the HTML standard's section 9.2.6 says: the part of it that Larder sends.

/** More than this without the end of an event is no stream of ours. A snapshot of thousands of sites stays far below. */
const LONGEST_EVENT = 8 * 1024 * 1024;

export interface Message {
    event: string;
    data: string;
}

/** Feeds on text as it comes and gives whole events. Comments keep the connection alive and mean nothing. */
export class EventParser {
    private rest = '';

    push(chunk: string): Message[] {
        this.rest += chunk;
        const messages: Message[] = [];
        for (;;) {
            const end = /\r?\n\r?\n/.exec(this.rest);
            if (end === null) break;
            const message = parse(this.rest.slice(0, end.index));
            this.rest = this.rest.slice(end.index + end[0].length);
            if (message !== null) messages.push(message);
        }
        if (this.rest.length > LONGEST_EVENT) throw new Error('an event without an end');
        return messages;
    }
}

function parse(block: string): Message | null {
    let event = 'message';
    const data: string[] = [];
    for (const line of block.split(/\r?\n/)) {
        const colon = line.indexOf(':');
        if (colon === 0) continue;
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (name === 'event') event = value;
        else if (name === 'data') data.push(value);
    }
    return data.length === 0 ? null : { event, data: data.join('\n') };
}

/** Reads a stream to its end. `heard` is called for every chunk, comments too: it tells that the other side lives. */
export async function readEvents(
    stream: ReadableStream<Uint8Array>,
    got: (message: Message) => void,
    heard: () => void = () => {},
): Promise<void> {
    const reader = stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    const parser = new EventParser();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            heard();
            parser.push(value).forEach(got);
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
