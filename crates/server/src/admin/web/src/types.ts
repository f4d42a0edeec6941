// The JSON of the admin API. Generated from the types of crates/metrics: LARDER_BLESS=1 cargo test -p larder-metrics.

/** The figures of one moment. */
export type Snapshot = {
    /** The version of this form. */
    version: number,
    /** The version of the program. */
    larder: string,
    /** The name of this instance. */
    name: string,
    /** The number of the process. */
    pid: number,
    /** Its start. */
    started_ms: number,
    /** The moment of these figures. */
    now_ms: number,
    /** Seconds between the two. */
    uptime_s: number,
    /** Worker threads. */
    threads: number,
    /** The store. */
    memory: Memory,
    /** The HTTP face. */
    http: Http | null,
    /** Compressed forms of pages; null: no site has them. */
    compression: Compression | null,
    /** Causes of misses and their settings, of the last minutes. */
    advice: Array<Advice>,
    /** The certificates of HTTPS. */
    certificates: Array<Certificate>,
    /** The applications that Larder runs. */
    apps: Array<App>,
    /** The memcached face. */
    memcached: Objects | null,
    /** The Redis face. */
    redis: Objects | null,
    /** The queue face. */
    queues: Queues | null,
    /** The disk tier. */
    disk: Disk | null,
    /** The remote tier. */
    remote: Remote | null,
    /** The family of caches; null: there is none. */
    family: Family | null,
    /** How late workers handle a timer: the waiting time of all ready work. */
    loop_delay: Histogram,
    /** States of the whole process. */
    conditions: Conditions,
    /** The access log. */
    log: LogFigures,
    /** Spans for the collector of traces; null: requests are not traced. */
    tracing: Spans | null,
};

/** Counts by a word: reasons, commands, events. */
export type Counts = { [key in string]: number };

/** A latency histogram. Buckets are not cumulative: `[upper bound in microseconds, count]`, only
 * those with a count. */
export type Histogram = { count: number, sum_us: number, max_us: number, p50_us: number, p90_us: number, p99_us: number, p999_us: number, buckets: Array<[number, number]>,
};

/** The store's memory. */
export type Memory = {
    /** The part of the budget that is used for entries and holds no live one, 0 to 1. */
    fragmentation: number,
    /** The entries of each face. */
    namespaces: Array<Namespace>,
    /** Budget of the store. */
    budget: number,
    /** Used part of the store's budget, including bookkeeping. */
    used: number,
    /** Resident memory of the process. */
    resident: number,
    /** Keys and values stored. */
    payload: number,
};

/** The entries of one face. */
export type Namespace = {
    /** `pages`, `compressed` (forms of pages), `memcached` or `redis`. */
    name: string,
    /** Memory reserved for them; null: none. */
    floor: number | null,
    /** Limit of their memory; null: the whole budget. */
    ceiling: number | null,
    /** Entries stored now. */
    items: number,
    /** Keys and values stored now. */
    bytes: number,
    /** Entries evicted because memory was needed. */
    evictions: number,
    /** Entries evicted although they had been read in the last minute. */
    evictions_recent: number,
    /** Entries removed because they had expired. */
    expired: number,
};

/** The HTTP face. */
export type Http = {
    /** Requests by outcome. */
    results: Results,
    /** Requests by the status of their answer. */
    status: Statuses,
    /** Over all sites. */
    latency: Latencies,
    /** By protocol: HTTP/1, HTTP/2, HTTP/3. */
    protocols: Array<Protocol>,
    /** Requests that memory alone could not answer, by the reason in the words of RFC 9211
     * section 2.2. */
    why_missed: Counts,
    /** Responses not stored, by reason. */
    not_stored: Counts,
    /** Requests that could not be read, by reason. */
    rejected: Counts,
    /** Connections to a port of HTTPS that failed for TLS, or spoke none, by reason. */
    tls_failures: Counts,
    /** Connections of HTTP/2 that ended because the client sent too many frames that cost
     * more than they are worth, by kind. */
    http2_floods: Counts,
    /** By site, in the order of the configuration. */
    sites: Array<Site>,
    /** By origin. */
    origins: Array<Origin>,
    /** Bytes received from clients. */
    bytes_in: number,
    /** Bytes that the system accepted for clients. */
    bytes_out: number,
    /** Requests that waited for an open fetch instead of asking the origin. */
    coalesced_waits: number,
    /** Requests refused because their client had sent too many (`limit`). */
    limited: number,
    /** Connections refused because their client had too many (`connections_per_client`). */
    crowded: number,
    /** Requests sent to the origin past the cache: misses, tunnels and failures among them. */
    passes: number,
    /** Fetches that failed before a response head. */
    origin_failures: number,
    /** Pages stored, including those updated by a 304. */
    stored: number,
    /** Pages not stored because the store was full or the page too large. */
    store_refused: number,
    /** Responses that the origin cut off in the middle. */
    truncated: number,
    /** Responses of origins with neither length nor chunks: their end is the end of the
     * connection. */
    unframed: number,
    /** Parts of pages that were put in (ESI). */
    parts: number,
    /** Parts of pages that failed. */
    parts_failed: number,
    /** Files of this machine that were opened to be kept, anew after a change. */
    files_opened: number,
    /** TLS handshakes that succeeded. */
    tls_handshakes: number,
    /** TLS handshakes of clients that had a ticket. */
    tls_resumed: number,
    /** Connections of HTTP/2. */
    http2_connections: number,
    /** Requests of HTTP/2. */
    http2_requests: number,
    /** Streams of HTTP/2 that clients reset. */
    http2_resets: number,
    /** Malformed requests of HTTP/2, whose streams were reset. */
    http2_malformed: number,
    /** Connections of HTTP/2 that ended because of an error of the client. */
    http2_errors: number,
    /** Connections of HTTP/3. */
    http3_connections: number,
    /** Requests of HTTP/3. */
    http3_requests: number,
    /** Requests of HTTP/3 that clients gave up. */
    http3_resets: number,
    /** Malformed requests of HTTP/3, whose streams were reset. */
    http3_malformed: number,
    /** Connections of HTTP/3 that ended because of an error of the client. */
    http3_errors: number,
    /** Connections of HTTP/3 that ended because the client did too much in vain. */
    http3_floods: number,
    /** Connections of trusted proxies without a header of the PROXY protocol, where one has
     * to be. */
    proxy_failures: number,
    /** Requests, refused and aborted ones included. */
    requests: number,
    /** Second copies of frequently requested large pages, in files in memory, from which
     * they are sent without copying. */
    sendfile_cache: number,
    /** Files of this machine that are kept open. */
    open_files: number,
    /** Content of small files of this machine, kept in memory. */
    file_memory: number,
    /** Connections of clients. */
    connections: Connections,
    /** Clients that took too long. */
    timeouts: Timeouts,
};

/** Requests by outcome. In JSON: a map with every outcome. */
export type Results = { [key in Outcome]: number };

/** The outcome of an HTTP request: each request has one. */
export type Outcome = "hit" | "stale" | "refresh" | "coalesced" | "miss" | "pass" | "hit_for_miss" | "error" | "purge" | "denied" | "refused" | "tunnel" | "aborted";

/** Answers by the class of their status. */
export type Statuses = {
    /** 101 only: interim answers are not counted. */
    "1xx": number,
    /** 200 to 299. */
    "2xx": number,
    /** 300 to 399. */
    "3xx": number,
    /** 400 to 499. */
    "4xx": number,
    /** 500 and above. */
    "5xx": number,
    /** No answer: the client left before. */
    none: number,
};

/** Connections of clients. */
export type Connections = {
    /** Accepted, the refused ones included. */
    accepted: number,
    /** Refused because there were too many. */
    refused: number,
    /** Open now. */
    open: number,
};

/** Connections closed because the client took too long. */
export type Timeouts = {
    /** To send a request head. */
    header: number,
    /** To send a request body. */
    body: number,
    /** To take its answer. */
    send: number,
};

/** The time of answers, until the system had taken them. */
export type Latencies = {
    /** From memory: the origin was neither asked nor waited for. */
    hit: Histogram,
    /** The others that were delivered. */
    miss: Histogram,
};

/** A certificate, or a name that has none yet. */
export type Certificate = {
    /** The first of its names. */
    name: string,
    /** All of its names. */
    names: Array<string>,
    /** `file`, `acme`, or `self-signed`: there is none yet. */
    source: string,
    /** The first moment of its validity; 0 for one that is self-signed. */
    starts_ms: number,
    /** The last moment of its validity; 0 for one that is self-signed. */
    expires_ms: number,
    /** The next order; null: none is planned. */
    renews_ms: number | null,
    /** The reason why the last order failed; null: it did not. */
    reason: string | null,
    /** Certificates that were ordered and came. */
    orders: number,
    /** Orders of a certificate that failed. */
    failures: number,
};

/** Compressed forms of stored pages. */
export type Compression = {
    /** Pages compressed. */
    made: number,
    /** Forms that a page kept when it was written anew with the same content. */
    kept: number,
    /** Pages that a coding does not make smaller. */
    useless: number,
    /** Requests for a compression that were dropped because too many waited. */
    dropped: number,
    /** Bytes before compression. */
    bytes_in: number,
    /** Bytes after compression. */
    bytes_out: number,
    /** Dictionaries made of the documents of a site. */
    dictionaries: number,
    /** Forms that wait to be made, now. */
    waiting: number,
};

/** An application that Larder runs. */
export type App = {
    /** Its name. */
    name: string,
    /** The reason for which a process ended last; null: none did. */
    reason: string | null,
    /** Processes of the application that are wanted. */
    wanted: number,
    /** Processes of the application that run. */
    processes: number,
    /** Processes that were started again after they ended by themselves. */
    restarts: number,
    /** Processes that were replaced: by a reload, their age, or a number of requests. */
    replaced: number,
    /** Starts that failed: the process could not be started, or was not ready in time. */
    failures: number,
    /** 1: its processes end again and again, and are started with waits of up to 10 s. */
    failing: number,
    /** Resident memory of its processes and of their children; shared pages count for each. */
    memory: number,
    /** Requests sent to the application. */
    requests: number,
    /** Requests sent to the application whose answer has not begun: those beyond the
     * processes wait for one. */
    waiting: number,
    /** Lines of the application's log that were left out: more than 100 a second. */
    lines_dropped: number,
};

/** One site. */
export type Site = {
    /** Its name; `-` for requests that reached no site, `other` for sites beyond those
     * counted. */
    name: string,
    /** Requests by outcome. */
    results: Results,
    /** Requests by the status of their answer. */
    status: Statuses,
    /** The time of its answers. */
    latency: Latencies,
    /** Requests, refused and aborted ones included. */
    requests: number,
    /** Bytes of answers, heads included. */
    bytes_out: number,
};

/** The time of answers in one protocol. */
export type Protocol = {
    /** `HTTP/1` (1.0 and 1.1), `HTTP/2` or `HTTP/3`. */
    name: string,
    /** The longest time of HTTP/1 is that of all protocols. */
    latency: Latencies,
};

/** One origin. */
export type Origin = {
    /** `http://host:port`. */
    name: string,
    /** Requests that failed, before a response head or in the middle, by reason. */
    failures: Counts,
    /** From the request to the head of its response: waiting for a connection, connecting
     * and the origin's own time. */
    ttfb: Histogram,
    /** Requests to the origin. */
    requests: number,
    /** Requests that failed there and were sent to another server of the same origin. */
    sent_elsewhere: number,
    /** Requests to it now, until their answers are complete. */
    under_way: number,
    /** Requests that may be under way there: `max_requests`, or less with `adaptive_limit`;
     * 0 without a limit. */
    limit: number,
    /** Servers of this name: one, or an origin of several sites. */
    servers: number,
    /** Those of them that get requests: not taken out for failures in a row. */
    healthy: number,
    /** Connections closed because the origin sent bytes that nobody had asked for, behind
     * an answer or before a request. */
    unasked: number,
    /** Connections to it now, idle ones included, tunnels not. */
    connections_open: number,
    /** Idle connections among them. */
    connections_idle: number,
};

/** An object face. */
export type Objects = {
    /** Connections of clients. */
    connections: Connections,
    /** Commands by name; those never used are left out. */
    commands: Counts,
    /** memcached: of batches of commands, until the system had taken the answers. Redis: of
     * commands, their own time. */
    latency: Histogram,
    /** Keys requested. */
    gets: number,
    /** Keys requested and found. */
    get_hits: number,
    /** Keys requested and not found. */
    get_misses: number,
    /** Values stored (memcached: sent to be stored). */
    sets: number,
    /** Keys deleted (memcached: asked to be). */
    deletes: number,
    /** Times a key was given another time to live. */
    touches: number,
    /** Entries evicted because memory was needed. */
    evictions: number,
    /** TLS handshakes that succeeded. */
    tls_handshakes: number,
    /** TLS handshakes of clients that had a ticket. */
    tls_resumed: number,
    /** Connections that ended before their TLS handshake was done. */
    tls_failures: number,
    /** Bytes received from clients. */
    bytes_in: number,
    /** Bytes sent to clients. */
    bytes_out: number,
};

/** One queue. */
export type Queue = {
    /** Its name. */
    name: string,
    /** Items that wait. */
    items: number,
    /** Bytes of items that wait. */
    bytes: number,
    /** Items that clients have opened. */
    open: number,
    /** Milliseconds that the item read last had waited; 0 once the queue is empty. */
    age_ms: number,
    /** Items added. */
    added: number,
    /** Items taken or opened. */
    taken: number,
    /** Items refused, since the queue was full. */
    refused: number,
    /** Items discarded to make room for new ones. */
    discarded: number,
    /** Items that expired before they were read. */
    expired: number,
    /** Open reads that were aborted, by `/abort` or by a client that left. */
    aborted: number,
    /** Items that were aborted too often. */
    failed: number,
    /** Items whose bytes on disk were damaged. */
    damaged: number,
    /** Bytes of its journal. */
    journal: number,
};

/** The queue face. */
export type Queues = {
    /** Connections of clients. */
    connections: Connections,
    /** The queues with the most items that wait, at most a hundred. */
    largest: Array<Queue>,
    /** Queues, children included. */
    count: number,
    /** Items that wait, over all queues. */
    items: number,
    /** Bytes of items that wait, over all queues. */
    bytes: number,
    /** Memory of items, beside `memory`. */
    memory: number,
    /** Bytes of all journals. */
    journal: number,
    /** Readers that wait for an item. */
    waiting: number,
    /** Times that a journal was not written, or not had on the device. */
    failures: number,
    /** Bytes received from clients. */
    bytes_in: number,
    /** Bytes sent to clients. */
    bytes_out: number,
};

/** The remote tier. */
export type Remote = {
    /** Its servers. */
    servers: Array<RemoteServer>,
    /** Lookups and stores of pages. */
    pages: RemotePages,
    /** Events between Larders, and reasons why records were not used. */
    events: Counts,
};

/** One server of the remote tier. */
export type RemoteServer = {
    /** Its address. */
    name: string,
    /** `up`, `down`, `probing` or `ejected`, now. */
    state: string,
    /** The time of its answers. */
    latency: Histogram,
    /** Keys requested. */
    lookups: number,
    /** Keys requested and found. */
    hits: number,
    /** Keys requested and not found. */
    misses: number,
    /** Requests to the server that took too long. */
    timeouts: number,
    /** Requests to the server that failed otherwise. */
    errors: number,
    /** Times the server was ejected because it failed. */
    ejections: number,
    /** Values written: pages and their parts, leases, the journal of purges. */
    writes: number,
    /** Values not written because too many waited. */
    writes_dropped: number,
};

/** Pages in the remote tier. */
export type RemotePages = {
    /** Pages looked up. */
    lookups: number,
    /** Found and used. */
    hits: number,
    /** Not found. */
    misses: number,
    /** The server did not answer. */
    failed: number,
    /** Found after the origin's answer. */
    late: number,
    /** Found and damaged. */
    damaged: number,
    /** Sent to be stored. */
    stores: number,
    /** Not sent, because too many waited. */
    dropped: number,
};

/** A family of caches. */
export type Family = {
    /** Peers that are asked before the origin. */
    peers: Array<FamilyPeer>,
    /** Protocols by which others ask. */
    asked: Array<FamilyAsked>,
};

/** A peer. */
export type FamilyPeer = {
    /** Its name. */
    name: string,
    /** `parent` or `sibling`. */
    role: string,
    /** The time of answers to queries. */
    latency: Histogram,
    /** 1: it is waited for and asked; 0: it does not answer. */
    up: number,
    /** Queries sent to the peer (ICP, HTCP). */
    queries: number,
    /** Answers that the peer has the page. */
    hits: number,
    /** Answers that the peer does not have the page. */
    misses: number,
    /** Queries that were waited for without an answer. */
    unanswered: number,
    /** Answers that the peer does not want to be asked. */
    refusals: number,
    /** Requests sent to the peer by HTTP. */
    fetches: number,
    /** Requests that the peer should have had an answer for, and had none (504). */
    false_hits: number,
    /** Requests that the peer failed to answer. */
    failures: number,
    /** Purges sent to the peer (HTCP CLR). */
    clears: number,
};

/** A protocol by which others ask. */
export type FamilyAsked = {
    /** `icp` or `htcp`. */
    name: string,
    /** Queries of other caches. */
    queries: number,
    /** Queries answered with a hit. */
    hits: number,
    /** Purges received by CLR and carried out. */
    clears: number,
    /** Messages of those who may not send them, or with a wrong signature. */
    denied: number,
    /** Datagrams that are no messages of the protocol, or of a kind that is not served. */
    invalid: number,
};

/** One cause of misses of one site, of the last minutes. */
export type Advice = {
    /** The site. */
    site: string,
    /** `no-freshness`, `cookie`, `bypass-cookie`, `set-cookie`, `private`, `no-store`, `vary` or
     * `query`. */
    reason: string,
    /** Requests with this cause. */
    requests: number,
    /** Requests of the site that memory did not answer. */
    of: number,
    /** The observation, and the remedy. */
    text: string,
    /** The setting to copy into the `[[site]]`; empty: it is the site that has to change. */
    setting: string,
    /** Some of the URLs. */
    urls: Array<string>,
};

/** States of the whole process; those of now are 1 while they last, and told on the terminal. */
export type Conditions = {
    /** Whether the last reload failed: the configuration in use is an older one. */
    reload_failed: number,
    /** Reloads of the configuration. */
    reloads: number,
    /** Reloads that failed. */
    reloads_failed: number,
    /** Whether memory is full and entries are evicted that were read in the last minute. */
    memory_short: number,
    /** Whether there is no descriptor for connections or files. */
    descriptors_short: number,
    /** Connections and files that could not be opened for want of descriptors. */
    descriptor_failures: number,
};

/** The disk tier. */
export type Disk = {
    /** The time of reads. */
    reads: Histogram,
    /** 1: the disk is in use; 0: it failed, or could not be opened. */
    up: number,
    /** Configured size. */
    size: number,
    /** Bytes in files, room for the open segment included. */
    used: number,
    /** Pages and markers found by the index. */
    entries: number,
    /** Memory of the index, beside `memory`. */
    index: number,
    /** Entries found at the start. */
    loaded: number,
    /** Milliseconds that filling the index took; 0: it is being filled. */
    load_ms: number,
    /** Bytes of records that came from memory. */
    accepted: number,
    /** Bytes of records that were written again, as they were asked for when their segment
     * was evicted. */
    rewritten: number,
    /** All bytes written. Divided by those accepted: the write amplification. */
    written: number,
    /** Pages dropped to make room. */
    evicted: number,
    /** Purges made durable. */
    purges: number,
    /** Times that the disk failed. */
    failures: number,
    /** Pages looked up. */
    lookups: number,
    /** Found and used. */
    hits: number,
    /** Not used, because the read took longer than `disk.patience`. */
    slow: number,
    /** Found damaged. */
    damaged: number,
    /** Found, and purged since they left memory. */
    purged: number,
    /** Written. */
    stores: number,
    /** Slices of large pages read. */
    slice_hits: number,
    /** Slices written. */
    slice_stores: number,
    /** Values of memcached's items that were read. */
    object_hits: number,
    /** Such values that were gone or damaged. */
    object_lost: number,
    /** Such values that were not read within `disk.patience`. */
    object_late: number,
    /** Such values written. */
    object_stores: number,
    /** Items evicted without their values being written. */
    object_drops: number,
    /** Not written: too many waited, or the limit was reached. */
    dropped: number,
    /** Not written, as they are too large. */
    too_large: number,
};

/** The access log. */
export type LogFigures = {
    /** Lines handed to the access log. */
    lines: number,
    /** Lines of the access log that were lost. */
    dropped: number,
};

/** Spans for the collector of traces. */
export type Spans = {
    /** Accepted by the collector. */
    exported: number,
    /** Lost: too many waited, or the collector did not accept them. */
    dropped: number,
};

/** A stretch of the history. */
export type Columns = {
    /** Milliseconds from one value to the next. */
    step_ms: number,
    /** The start of the second of the first value, in milliseconds since the UNIX epoch. */
    from_ms: number,
    /** One value a second in each column, the oldest first; null: nothing was sampled. */
    columns: Record<string, (number | null)[]>,
};

/** A ranking of URLs. */
export type TopUrls = {
    /** The name of the ranking. */
    by: string,
    /** Answers from memory per sample, beyond those that are counted exactly; 0: URLs are not
     * sampled at all. */
    sampled_one_in: number,
    /** Answers from memory that each thread counts exactly in a second. */
    exact_per_second: number,
    /** The first URLs, the highest first. */
    urls: Array<HotUrl>,
};

/** Figures of one URL: estimates, of the recent past. */
export type HotUrl = {
    /** The URL, cut after 512 bytes. */
    url: string,
    /** Its site. */
    site: string,
    /** Requests for it. */
    requests: number,
    /** Requests answered from memory. */
    hits: number,
    /** Requests that were fetched. */
    misses: number,
    /** Requests past the cache. */
    passes: number,
    /** Bytes sent. */
    bytes: number,
    /** Mean time of its answers in microseconds, from the request to the composed answer. */
    mean_us: number,
    /** The longest of these times. */
    max_us: number,
};

/** The hottest keys of an object face. */
export type TopKeys = {
    /** `memcached` or `redis`. */
    face: string,
    /** Gets per sample, beyond those that are counted exactly. */
    sampled_one_in: number,
    /** Gets that each thread counts exactly in a second. */
    exact_per_second: number,
    /** Gets of which the figures are estimates. */
    gets: number,
    /** The first keys, the hottest first. */
    keys: Array<HotKey>,
};

/** A key of an object face, with estimates of the recent past. */
export type HotKey = {
    /** The key. */
    key: string,
    /** Gets of it: exact while few are asked for, an estimate otherwise. */
    gets: number,
    /** Gets that were certainly of this key: those that were looked at. */
    gets_at_least: number,
};

/** A request that has ended, an event of `GET /api/v1/log`. */
export type LogLine = {
    /** Its end, in milliseconds since the UNIX epoch. */
    time_ms: number,
    /** From the first byte of the request to the last byte of the response. */
    elapsed_us: number,
    /** The address of the client. */
    client: string,
    /** The method as received. */
    method: string,
    /** The absolute URL. */
    url: string,
    /** The name of its site. */
    site: string,
    /** The status of the answer; 0: the client left before. */
    status: number,
    /** Bytes sent, head included. */
    bytes: number,
    /** The result in Squid's words. */
    result: string,
    /** The outcome in the words of the statistics. */
    outcome: string,
    /** The server that was asked, in Squid's words. */
    hierarchy: string,
    /** Content-Type of the response. */
    content_type: string | null,
    /** Cache-Status of the response (RFC 9211). */
    cache_status: string | null,
    /** The reference that the page shows, where it is an error of Larder's own. */
    reference: string | null,
    /** `HTTP/1.1` and the like. */
    http_version: string,
    /** Version, cipher suite, and whether the session was resumed; None: the client's connection
     * is not TLS. */
    tls: string | null,
};

/** A stored response in `GET /api/v1/objects`: one row for each variant of a page. */
export type ObjectRow = {
    /** The URL of the page. */
    url: string,
    /** The host that the origin was told, if it is in the key. */
    forwarded_host?: string,
    /** Lines of the site's `key_fields` that are in the key. */
    key_fields?: Array<string>,
    /** The name of its site. */
    site: string,
    /** The stored status. */
    status: number,
    /** Its Content-Type. */
    content_type: string | null,
    /** Bytes of the body. */
    size: number,
    /** Its age in seconds. */
    age_s: number,
    /** Seconds left of its freshness; negative: stale for that long. */
    ttl_s: number,
    /** `fresh` or `stale`. */
    state: string,
    /** The request fields that select this variant; null: the page has no variants. */
    vary: { [key in string]: string | null } | null,
    /** Its tags. */
    tags: Array<string>,
    /** Whether it was published through the admin API. */
    published: boolean,
    /** Whether it was ever served from the store. */
    read: boolean,
    /** The last time it was served, in milliseconds since the UNIX epoch. */
    last_read_ms: number,
};

/** A purge that was carried out, in `GET /api/v1/purges`. */
export type Purge = {
    /** The moment, in milliseconds since the UNIX epoch. */
    time_ms: number,
    /** `url`, `prefix`, `tags` or `ban`. */
    kind: string,
    /** The URL, the tags, the expression. */
    what: string,
    /** Marked as stale instead of removed. */
    soft: boolean,
    /** Pages that were there. */
    purged: number,
    /** The client and the interface it used. */
    by: string,
};

/** An error that Larder answered with itself, in `GET /api/v1/errors`. */
export type AnsweredError = {
    /** The reference that its page shows. */
    reference: string,
    /** The moment, in milliseconds since the UNIX epoch. */
    time_ms: number,
    /** From the first byte of the request to the answer, in microseconds. */
    elapsed_us: number,
    /** The status. */
    status: number,
    /** The reason as the visitor was told it. */
    why: string,
    /** The reason in full, where there is more to say: the error of the origin. */
    detail: string | null,
    /** The method as received. */
    method: string,
    /** The absolute URL. */
    url: string,
    /** The name of the site; empty: none has this host. */
    site: string,
    /** The address of the client. */
    client: string,
    /** `HTTP/1.1` and the like. */
    http_version: string,
};

/** The outcomes with their meanings. */
export const OUTCOMES: Record<Outcome, string> = {
    hit: "answered from memory, fresh",
    stale: "answered from memory, stale, as the rules or the origin's failure allow",
    refresh: "answered from memory after the origin confirmed the page",
    coalesced: "followed another request's fetch",
    miss: "fetched: nothing usable was stored",
    pass: "fetched past the cache, by rule or method",
    hit_for_miss: "fetched without waiting for others, because the page is known not to be storable",
    error: "answered with the origin's failure",
    purge: "a purge",
    denied: "a purge that was not permitted",
    refused: "refused by Larder itself: no such site, malformed, too large, a loop",
    tunnel: "became a tunnel (Upgrade)",
    aborted: "the client left before the answer began",
};
