<?php
/**
 * The wiki of the MediaWiki test and of `larder lab mediawiki`: what an operator sets to put Larder in front of a wiki, and what keeps a test fast.
 *
 * Everything that differs from run to run comes from the environment:
 *   LARDER_MW_DIR     directory for the databases and caches of this run
 *   LARDER_MW_SERVER  URL under which readers see the wiki: Larder's address
 *   LARDER_MW_CDN     address of Larder as host:port, to which MediaWiki sends its purges; unset: none are sent
 *   LARDER_MW_HTCP    instead: addresses of Larders as host:port with commas between, to which it sends its purges by HTCP
 *   LARDER_MW_MEMCACHED  address of Larder's memcached face as host:port: objects and sessions are kept there; unset: no objects
 *                     are cached, sessions lie in the database
 *   LARDER_MW_CLIENT  with it: memcached-php (MediaWiki's own client, the default) or memcached-pecl (libmemcached)
 *   LARDER_MW_ROUTE   of the experiments: a file read with each request, so that one wiki can be asked by several ways. Lines
 *                     database=HOST:PORT or database=localhost:SOCKET (MariaDB, in the place of SQLite), and
 *                     objects=HOST:PORT (in the place of LARDER_MW_MEMCACHED)
 */

if ( !defined( 'MEDIAWIKI' ) ) {
	exit;
}

$larderDir = getenv( 'LARDER_MW_DIR' );
$larderRoute = getenv( 'LARDER_MW_ROUTE' ) ? parse_ini_file( getenv( 'LARDER_MW_ROUTE' ), false, INI_SCANNER_RAW ) : [];
$larderObjects = $larderRoute['objects'] ?? getenv( 'LARDER_MW_MEMCACHED' );

// What matters for the cache in front. docs/operations.md explains each line.
$wgServer = getenv( 'LARDER_MW_SERVER' );
$wgUseCdn = true;
$wgCdnServers = array_filter( [ getenv( 'LARDER_MW_CDN' ) ] );
if ( getenv( 'LARDER_MW_HTCP' ) ) {
	// docs/family.md: every cache is told by a datagram of its own, or all by one to a multicast group.
	$wgCdnServers = [];
	$wgHTCPRouting = [ '' => array_map(
		static fn ( $place ) => array_combine( [ 'host', 'port' ], explode( ':', $place ) ),
		explode( ',', getenv( 'LARDER_MW_HTCP' ) )
	) ];
}
// Believe X-Forwarded-For of the cache in front: recent changes then show the readers' addresses.
$wgCdnServersNoPurge = [ '127.0.0.1' ];
$wgCdnMaxAge = 18000;
$wgUsePrivateIPs = true;
// Jobs (purges of pages that use an edited template) run at the end of the request that caused them.
$wgJobRunRate = 100;
$wgRunJobsAsync = false;

$wgSitename = 'Larder test wiki';
$wgMetaNamespace = 'Project';
$wgLanguageCode = 'en';
$wgLocaltimezone = 'UTC';
$wgScriptPath = '';
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgSecretKey = str_repeat( '0123456789abcdef', 4 );
$wgAuthenticationTokenVersion = '1';
$wgEnableEmail = false;
$wgEnableUploads = false;
$wgPingback = false;
$wgRateLimits = [];
$wgDefaultSkin = 'vector';
wfLoadSkin( 'Vector' );

if ( !$larderRoute ) {
	// One SQLite file for everything; the run's directory is thrown away, so nothing waits for the disk.
	$wgDBtype = 'sqlite';
	$wgDBname = 'wiki';
	$wgSQLiteDataDir = "$larderDir/data";
	$wgDBservers = [ [
		'type' => 'sqlite',
		'dbname' => $wgDBname,
		'dbDirectory' => $wgSQLiteDataDir,
		'variables' => [ 'synchronous' => 'OFF' ],
		'trxMode' => 'IMMEDIATE',
		'flags' => DBO_DEFAULT,
		'load' => 1,
	] ];
	$wgObjectCaches[CACHE_DB] = [
		'class' => SqlBagOStuff::class,
		'loggroup' => 'SQLBagOStuff',
		'server' => [
			'type' => 'sqlite',
			'dbname' => 'wikicache',
			'tablePrefix' => '',
			'variables' => [ 'synchronous' => 'OFF' ],
			'dbDirectory' => $wgSQLiteDataDir,
			'trxMode' => 'IMMEDIATE',
			'flags' => 0,
		],
	];
} else {
	// The experiments: MariaDB, the extensions and the parser functions that articles of an encyclopaedia use, and no job that
	// would run with some page views and not with others. Where no object cache is named, no parser output is kept, not even in
	// the database.
	$wgDBtype = 'mysql';
	$wgDBname = 'wiki';
	$wgDBserver = $larderRoute['database'];
	$wgDBuser = $wgDBpassword = 'wiki';
	$wgParserCacheType = $wgMessageCacheType = CACHE_NONE;
	$wgJobRunRate = 0;
	wfLoadExtensions( [ 'Cite', 'ParserFunctions' ] );
}
$wgMainCacheType = CACHE_NONE;
if ( $larderObjects ) {
	// What docs/operations.md says: everything that may be lost lies in the object cache, on the server that has the pages.
	$wgMemCachedServers = [ $larderObjects ];
	$wgMainCacheType = getenv( 'LARDER_MW_CLIENT' ) ?: 'memcached-php';
	$wgParserCacheType = $wgMainCacheType;
	$wgMessageCacheType = $wgMainCacheType;
	$wgSessionCacheType = $wgMainCacheType;
}
$wgCacheDirectory = "$larderDir/cache";
$wgLocalisationCacheConf['store'] = 'array';
