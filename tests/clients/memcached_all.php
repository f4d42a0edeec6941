<?php
// What a PHP site does with the memcached extension. Arguments: text or binary, host, port.
[, $protocol, $host, $port] = $argv;
function expect(bool $holds, string $what): void {
    if (!$holds) {
        fwrite(STDERR, "not so: $what\n");
        exit(1);
    }
}
$m = new Memcached();
$m->setOption(Memcached::OPT_BINARY_PROTOCOL, $protocol === 'binary');
$m->setOption(Memcached::OPT_TCP_NODELAY, true);
$m->addServer($host, (int) $port);
expect($m->set('a', ['list' => [1, 2], 'float' => 1.5], 1000), 'set');
expect($m->get('a') === ['list' => [1, 2], 'float' => 1.5], 'get');
expect($m->get('absent') === false && $m->getResultCode() === Memcached::RES_NOTFOUND, 'miss');
$found = $m->get('a', null, Memcached::GET_EXTENDED);
expect($m->cas($found['cas'], 'a', 'second'), 'cas');
expect(!$m->cas($found['cas'], 'a', 'third') && $m->getResultCode() === Memcached::RES_DATA_EXISTS, 'old cas');
expect(!$m->add('a', 'x'), 'add');
// The binary protocol says that the key exists, the text protocol that nothing was stored.
expect(in_array($m->getResultCode(), [Memcached::RES_NOTSTORED, Memcached::RES_DATA_EXISTS], true), 'why not');
expect($m->replace('a', 'y') && $m->get('a') === 'y', 'replace');
expect($m->set('n', 9) && $m->increment('n', 2) === 11 && $m->decrement('n', 20) === 0, 'count');
expect($m->touch('n', 500) && $m->delete('n') && !$m->delete('n'), 'touch, delete');
$many = [];
for ($i = 0; $i < 500; $i++) {
    $many["many$i"] = str_repeat("$i", $i % 50);
}
expect($m->setMulti($many), 'setMulti');
expect($m->getMulti(array_keys($many)) == $many, 'getMulti');
expect($m->getDelayed(['many1', 'many2'], true) && count($m->fetchAll()) === 2, 'getDelayed');
$m->setOption(Memcached::OPT_COMPRESSION, false);
$large = random_bytes(900000);
expect($m->set('large', $large) && $m->get('large') === $large, 'large');
expect(!$m->set('larger', str_repeat('x', 2 << 20)) && $m->get('a') === 'y', 'too large');
expect(in_array('1.6.18', $m->getVersion(), true), 'version');
expect(isset(current($m->getStats())['curr_items']), 'stats');
expect($m->flush() && $m->get('a') === false, 'flush');
echo "ok\n";
