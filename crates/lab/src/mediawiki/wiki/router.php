<?php
/**
 * Router of PHP's built-in server for the MediaWiki test: counts what reaches the wiki, then hands over to MediaWiki.
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

$larderPath = explode( '?', $_SERVER['REQUEST_URI'], 2 )[0];
$larderRoot = getenv( 'MW_INSTALL_PATH' );
$larderEntries = [ '/index.php', '/api.php', '/load.php', '/rest.php', '/opensearch_desc.php' ];
if ( preg_match( '#^/(resources|skins|extensions)/#', $larderPath ) ) {
	return false;
}
$larderEntry = in_array( $larderPath, $larderEntries, true ) ? $larderPath : '/index.php';
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = $larderEntry;
$_SERVER['SCRIPT_FILENAME'] = $larderRoot . $larderEntry;
chdir( $larderRoot );
require $larderRoot . $larderEntry;
