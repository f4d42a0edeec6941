// The JSON of the admin API, as docs/admin.md and docs/openapi.json describe it. Counters are cumulative since the start.

/** A latency histogram. Buckets are not cumulative: `[upper bound in microseconds, count]`, only those with a count. */
export interface Hist {
    count: number;
    sum_us: number;
    max_us: number;
    p50_us: number;
    p90_us: number;
    p99_us: number;
    p999_us: number;
    buckets: [number, number][];
}

/** Counts by a word: results, status classes, reasons. */
export type Counts = Record<string, number>;

export interface Connections {
    open: number;
    accepted: number;
    refused: number;
}

export interface Namespace {
    name: string;
    items: number;
    bytes: number;
    evictions: number;
    expired: number;
    floor: number | null;
    ceiling: number | null;
}

export interface Site {
    name: string;
    requests: number;
    results: Counts;
    status: Counts;
    bytes_out: number;
    latency: { hit: Hist; miss: Hist };
}

export interface Origin {
    name: string;
    requests: number;
    failures: Counts;
    connections_open: number;
    connections_idle: number;
    ttfb: Hist;
}

export interface Objects {
    connections: Connections;
    gets: number;
    get_hits: number;
    get_misses: number;
    sets: number;
    deletes: number;
    touches: number;
    evictions: number;
    bytes_in: number;
    bytes_out: number;
    commands: Counts;
    latency: Hist;
}

export interface RemoteServer {
    name: string;
    state: string;
    lookups: number;
    hits: number;
    misses: number;
    timeouts: number;
    errors: number;
    ejections: number;
    writes: number;
    writes_dropped: number;
    latency: Hist;
}

export interface Http {
    requests: number;
    results: Counts;
    status: Counts;
    bytes_in: number;
    bytes_out: number;
    connections: Connections;
    latency: { hit: Hist; miss: Hist };
    why_missed: Counts;
    not_stored: Counts;
    rejected: Counts;
    timeouts: Counts;
    sites: Site[];
    origins: Origin[];
}

export interface Snapshot {
    version: number;
    larder: string;
    name: string;
    pid: number;
    started_ms: number;
    now_ms: number;
    uptime_s: number;
    threads: number;
    memory: {
        budget: number;
        used: number;
        resident: number;
        payload: number;
        fragmentation: number;
        namespaces: Namespace[];
    };
    /** Null, as any face, when it is not served. */
    http: Http | null;
    memcached: Objects | null;
    redis: Objects | null;
    remote: { servers: RemoteServer[]; pages: Counts | null } | null;
    loop_delay: Hist;
    log: { lines: number; dropped: number };
}

/** One value a second for each column; `null` where nothing was sampled. */
export interface History {
    step_ms: number;
    from_ms: number;
    columns: Record<string, (number | null)[]>;
}

export interface TopUrl {
    url: string;
    site: string;
    requests: number;
    hits: number;
    misses: number;
    bytes: number;
    mean_us: number;
    max_us: number;
}

export interface Top {
    by: string;
    sampled_one_in: number;
    urls: TopUrl[];
}

export interface TopKey {
    key: string;
    gets: number;
    gets_at_least: number;
}

export interface TopKeys {
    face: string;
    sampled_one_in: number;
    gets: number;
    keys: TopKey[];
}

export interface Purge {
    time_ms: number;
    kind: string;
    what: string;
    soft: boolean;
    purged: number;
    by: string;
}

export interface ObjectRow {
    url: string;
    site: string;
    status: number;
    content_type: string | null;
    size: number;
    age_s: number;
    ttl_s: number;
    state: string;
    /** What selects this variant; null: the page has none. */
    vary: Record<string, string | null> | null;
    tags: string[];
    read: boolean;
    forwarded_host?: string;
    key_fields?: string[];
}

export interface LogLine {
    time_ms: number;
    elapsed_us: number;
    client: string;
    method: string;
    url: string;
    site: string;
    status: number;
    bytes: number;
    /** In Squid's words. */
    result: string;
    /** In the words of the statistics. */
    outcome: string;
    hierarchy: string;
    content_type: string | null;
    cache_status: string | null;
}
