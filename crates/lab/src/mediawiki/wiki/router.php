<?php
/**
 * Router of PHP's built-in server for the MediaWiki test: counts what reaches the wiki, then hands over to MediaWiki.
 */

require __DIR__ . '/count.php';

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
