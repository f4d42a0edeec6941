<?php
// phpredis as WordPress, Laravel and others use it. Arguments: host, port. Prints OK at the end.
ini_set('zend.assertions', '1');
ini_set('assert.exception', '1');
[$host, $port] = [$argv[1], (int) $argv[2]];
$r = new Redis();
assert($r->connect($host, $port, 20.0));

// Strings and keys.
assert($r->set('a', 'x') === true && $r->get('a') === 'x' && $r->get('nothing') === false);
assert($r->set('a', 'y', ['nx', 'ex' => 10]) === false && $r->set('a', 'y', ['xx', 'px' => 100000]) === true);
assert($r->ttl('a') > 90 && $r->setex('s', 100, 'v') && $r->psetex('s', 100000, 'v') && $r->setnx('s', 'w') === false);
assert($r->mset(['m1' => '1', 'm2' => '2']) && $r->mget(['m1', 'none', 'm2']) === ['1', false, '2']);
assert($r->incr('n') === 1 && $r->incrBy('n', 9) === 10 && $r->decr('n') === 9 && $r->incrByFloat('f', 1.5) === 1.5);
assert($r->exists('a') === 1 && $r->exists(['a', 'm1', 'none']) === 2 && $r->del('m1', 'm2') === 2 && $r->unlink('s') === 1);
assert($r->append('a', 'z') === 2 && $r->strlen('a') === 2 && $r->getRange('a', 0, 0) === 'y' && $r->getSet('a', 'q') === 'yz');
assert($r->expire('a', 100) && $r->pexpire('a', 100000) && $r->expireAt('a', time() + 100) && $r->persist('a'));
assert($r->type('a') === Redis::REDIS_STRING && $r->rename('a', 'b') && $r->dbSize() > 0);

// Hashes.
assert($r->hSet('h', 'one', '1') === 1 && $r->hMSet('h', ['two' => '2', 'three' => '3']) && $r->hLen('h') === 3);
assert($r->hGetAll('h') === ['one' => '1', 'two' => '2', 'three' => '3'] && $r->hMGet('h', ['one', 'x']) === ['one' => '1', 'x' => false]);
assert($r->hIncrBy('h', 'one', 2) === 3 && $r->hExists('h', 'one') && $r->hDel('h', 'three') === 1 && $r->hKeys('h') === ['one', 'two']);

// Many at once.
$replies = $r->multi(Redis::PIPELINE)->set('p', '1')->incr('p')->get('p')->exec();
assert($replies === [true, 2, '2']);
assert($r->multi()->set('p', '5')->incr('p')->exec() === [true, 6]);
$r->watch('p');
$other = new Redis();
$other->connect($host, $port, 20.0);
$other->set('p', 'changed');
assert($r->multi()->set('p', 'mine')->exec() === false && $r->get('p') === 'changed');

// Arrays and objects, a prefix, another database: what Laravel and object caches set.
foreach ([Redis::SERIALIZER_PHP, defined('Redis::SERIALIZER_IGBINARY') ? Redis::SERIALIZER_IGBINARY : Redis::SERIALIZER_PHP] as $serializer) {
    $c = new Redis();
    $c->connect($host, $port, 20.0);
    $c->setOption(Redis::OPT_SERIALIZER, $serializer);
    $c->setOption(Redis::OPT_PREFIX, 'wp:');
    $c->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
    $c->select(2);
    $value = ['list' => [1, 2.5, null, true], 'text' => "\0ä"];
    assert($c->set('option', $value) && $c->get('option') === $value && $c->mget(['option']) === [$value]);
    $c->hSet('group', 'key', $value);
    assert($c->hGet('group', 'key') === $value);
    for ($i = 0; $i < 300; $i++) {
        $c->set("post:$i", $i, 1000);
    }
    [$found, $cursor] = [0, null];
    while (($keys = $c->scan($cursor, 'wp:post:*', 50)) !== false) {
        $found += count($keys);
    }
    assert($found === 300, "$found");
    assert($c->flushDB() && $c->dbSize() === 0);
}
assert($r->get('p') === 'changed', 'another database was flushed');

// Laravel's Cache::add and its locks are scripts.
$add = "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";
assert($r->eval($add, ['once', 'mine', 60], 1) === true && $r->eval($add, ['once', 'other', 60], 1) === false);
assert($r->get('once') === 'mine' && $r->ttl('once') > 50);
$release = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n    return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend";
assert($r->eval($release, ['once', 'other'], 1) === 0 && $r->eval($release, ['once', 'mine'], 1) === 1);

// Lists, sets and sorted sets.
assert($r->rPush('queue', 'a', 'b') === 2 && $r->blPop(['none', 'queue'], 1) === ['queue', 'a']);
assert($r->sAdd('tags', 'x', 'y') === 2 && $r->sCard('tags') === 2);
assert($r->zAdd('board', 3, 'ann', 1.5, 'bob') === 2 && $r->zRange('board', 0, -1) === ['bob', 'ann']);
assert($r->del('queue', 'tags', 'board') === 3);

// What a cache is not for.
foreach ([['rawCommand', 'REPLICAOF', 'no', 'one']] as $call) {
    $r->clearLastError();
    assert($r->{array_shift($call)}(...$call) === false && str_contains($r->getLastError(), 'Larder'), $r->getLastError() ?? 'no error');
}
assert($r->ping() && $r->info()['redis_version'] !== '' && $r->config('GET', 'maxmemory')['maxmemory'] > 0);
assert($r->flushAll() && $r->dbSize() === 0);
echo "OK\n";
