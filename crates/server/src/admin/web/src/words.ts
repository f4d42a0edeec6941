// What the words of the statistics mean, for those who do not have the RFC at hand.

import { OUTCOMES, type Outcome } from './types';

/** RFC 9211 section 2.2: why a request went forward. */
const WHY_MISSED: Record<string, string> = {
    'uri-miss': 'nothing was stored for this URL',
    'vary-miss': 'something was stored for this URL, but for other request headers (Vary)',
    stale: 'what was stored was too old and had to be confirmed or fetched anew',
    request: 'the request asked for a newer answer (Cache-Control or Pragma of the client)',
    bypass: 'a rule of the site, a cookie or Authorization sends it past the cache',
    method: 'the method is not one that is answered from a cache (POST, PUT, ...)',
    partial: 'only a part of the answer was stored',
    miss: 'not stored, or known not to be storable',
};

const NOT_STORED: Record<string, string> = {
    method: 'answers to this method are not stored',
    status: 'the status is not one that is stored without explicit freshness',
    'request-no-store': 'the client said Cache-Control: no-store',
    'no-store': 'the origin said Cache-Control: no-store',
    private: 'the origin said Cache-Control: private',
    'must-understand': 'the origin said must-understand, and the status is not understood',
    authorization: 'the request had Authorization and the answer does not allow sharing it',
    'set-cookie': 'the answer sets a cookie',
    'vary-star': 'the answer has Vary: *',
    'odd-coding': 'the answer has a content coding that is not understood',
    'coding-not-accepted': 'the answer has a content coding that the client did not ask for',
    'content-range': 'the answer is a part that cannot be completed',
    'no-freshness': 'the answer says neither how long it is fresh nor how to confirm it',
};

export function whyMissed(word: string): string {
    return WHY_MISSED[word] ?? '';
}

export function notStored(word: string): string {
    return NOT_STORED[word] ?? '';
}

export function result(word: string): string {
    return OUTCOMES[word as Outcome] ?? '';
}
