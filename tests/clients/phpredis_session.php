<?php
// One request of a PHP site whose sessions are in Redis, locked while it runs. Arguments: host, port, session id.
// Counts to 50 in the session and prints where it ends.
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', "tcp://$argv[1]:$argv[2]?prefix=S:");
ini_set('session.use_cookies', '0');
ini_set('session.cache_limiter', '');
ini_set('redis.session.locking_enabled', '1');
ini_set('redis.session.lock_expire', '60');
ini_set('redis.session.lock_wait_time', '2000');
ini_set('redis.session.lock_retries', '-1');
for ($i = 0; $i < 50; $i++) {
    session_id($argv[3]);
    if (!session_start()) {
        exit(1);
    }
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    $count = $_SESSION['count'];
    session_write_close();
}
echo "$count\n";
