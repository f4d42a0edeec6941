<?php
// Publishes a page by PHP's memcached extension: php publish.php HOST PORT URL SECONDS [HEAD] < BODY
// HEAD: lines such as "Status: 404 Not Found"; without it, the type is that of the URL's extension.
// Needs `[publish] prefix = "page:"`.
if ($argc < 5) {
    fwrite(STDERR, "publish.php HOST PORT URL SECONDS [HEAD] < BODY\n");
    exit(1);
}
[, $host, $port, $url, $seconds] = $argv;
$head = $argv[5] ?? null;
$place = parse_url($url);
$default = ['http' => 80, 'https' => 443][$place['scheme'] ?? ''] ?? null;
if ($default === null || !isset($place['host'])) {
    fwrite(STDERR, "expected a URL such as http://example.org/news, found $url\n");
    exit(1);
}
// As Larder asks for it: the host in lower case, no default port, a path.
$port_of_site = $place['port'] ?? $default;
$name = 'page:' . strtolower($place['host']) . ($port_of_site === $default ? '' : ":$port_of_site")
    . ($place['path'] ?? '/') . (isset($place['query']) ? "?{$place['query']}" : '');
$memcached = new Memcached();
// A page is stored as it is: Larder compresses it for clients.
$memcached->setOption(Memcached::OPT_COMPRESSION, false);
$memcached->addServer($host, (int) $port);
$body = stream_get_contents(STDIN);
if ($head !== null) {
    // Bit 16 of the flags: the object begins with a head.
    $memcached->setOption(Memcached::OPT_USER_FLAGS, 1);
    $body = "$head\r\n\r\n$body";
}
if (!$memcached->set($name, $body, (int) $seconds)) {
    fwrite(STDERR, $memcached->getResultMessage() . "\n");
    exit(1);
}
echo "published\n";
