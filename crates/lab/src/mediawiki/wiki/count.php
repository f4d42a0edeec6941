<?php
/**
 * Counts what reaches the wiki of the MediaWiki test, before any other script.
 *
 * Every request appends one line to LARDER_MW_LOG: method, target, protocol, Host, cookie names, Accept-Encoding,
 * X-Forwarded-For, separated by tabs ("-" when absent). The test counts renders with it.
 */

$larderLine = [
	$_SERVER['REQUEST_METHOD'],
	$_SERVER['REQUEST_URI'],
	$_SERVER['SERVER_PROTOCOL'],
	$_SERVER['HTTP_HOST'] ?? '-',
	$_COOKIE ? implode( ',', array_keys( $_COOKIE ) ) : '-',
	$_SERVER['HTTP_ACCEPT_ENCODING'] ?? '-',
	$_SERVER['HTTP_X_FORWARDED_FOR'] ?? '-',
];
file_put_contents( getenv( 'LARDER_MW_LOG' ), implode( "\t", $larderLine ) . "\n", FILE_APPEND | LOCK_EX );
