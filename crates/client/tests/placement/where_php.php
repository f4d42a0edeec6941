<?php
/* Says where PHP's memcached extension places keys.
 *
 * Argument: a JSON array of [option, value], an option by the name of its constant, set before servers are added. Standard
 * input: a line "HOST PORT WEIGHT" for each server, an empty line, a key a line. Standard output: for each key a line with
 * the index of its server.
 */
$fleet = new Memcached();
foreach (json_decode($argv[1], true) as [$option, $value]) {
    $value = is_string($value) ? constant("Memcached::$value") : $value;
    if (!$fleet->setOption(constant("Memcached::$option"), $value)) {
        exit(1);
    }
}
$indices = [];
while (($line = fgets(STDIN)) !== "\n") {
    [$host, $port, $weight] = explode(' ', $line);
    $indices["$host:" . (int) $port] = count($indices);
    $fleet->addServer($host, (int) $port, (int) $weight);
}
while (($key = fgets(STDIN)) !== false) {
    $server = $fleet->getServerByKey(rtrim($key, "\n"));
    echo $indices[$server['host'] . ':' . $server['port']], "\n";
}
