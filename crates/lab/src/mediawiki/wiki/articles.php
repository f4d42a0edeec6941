<?php
/**
 * Writes a MediaWiki XML dump of generated articles to standard output, and their URL paths to a file.
 *
 *   php articles.php COUNT SEED PATHS_FILE [MEDIAN SIGMA] > dump.xml
 *
 * The same seed gives the same bytes. Articles are as long as those of a small encyclopaedia (2 to 12 kB of wikitext)
 * and use what pages use: sections, lists, a table, a template, categories, links to each other and to pages that do not
 * exist; 'Contents' lists them all. Some titles need escaping in a URL, so that what MediaWiki purges and what a browser asks for must agree.
 *
 * With MEDIAN and SIGMA the articles are those of the experiments: lengths in bytes of wikitext are lognormal (the logarithm has
 * the mean log(MEDIAN) and the standard deviation SIGMA; cut off at SHORTEST and LONGEST), each has an infobox made with parser
 * functions, footnotes that name sources through a template, and a list of them at the end. Each line of PATHS_FILE then has
 * the length behind the path, after a tab.
 */

const SHORTEST = 600;
const LONGEST = 80000;

const WORDS = 'water river stone bridge village market winter summer harvest road mill forest valley engine letter
number theory pattern signal measure colour glass copper iron salt sugar bread paper ink printer museum theatre music
violin drum dancer singer painter garden orchard apple cherry maple oak birch heron falcon otter salmon trout anchor
sailor harbour lighthouse island coast current tide storm thunder cloud compass map atlas border treaty council
election mayor senate citizen school teacher student library archive record census century decade era dynasty king
queen merchant caravan desert oasis camel horse saddle wheel cart canal lock barge tunnel railway station signalman';

/** One generator with its own stream of numbers. */
class Writer {
	/** @var string[] */
	private array $words;
	/** @var string[] */
	private array $titles = [];
	/** @var bool[] those of the article at hand, by name */
	private array $sources = [];

	public function __construct( int $seed, int $count ) {
		mt_srand( $seed, MT_RAND_MT19937 );
		$this->words = preg_split( '/\s+/', WORDS );
		for ( $number = 1; $number <= $count; $number++ ) {
			$this->titles[] = $this->title( $number );
		}
	}

	/** @return string[] */
	public function titles(): array {
		return $this->titles;
	}

	/** Every seventh title has something that is escaped in URLs or must not be. */
	private function title( int $number ): string {
		$odd = [ 'Café', 'R&D', "King's", 'C++', 'Übersicht: A/B', 'What?', '100% (music)' ];
		$name = ucfirst( $this->word() ) . ' ' . $this->word() . ' ' . $number;
		return $number % 7 === 0 ? $odd[intdiv( $number, 7 ) % count( $odd )] . ' ' . $name : $name;
	}

	private function word(): string {
		return $this->words[mt_rand( 0, count( $this->words ) - 1 )];
	}

	private function link(): string {
		$kind = mt_rand( 0, 9 );
		$title = $this->titles[mt_rand( 0, count( $this->titles ) - 1 )];
		return match ( true ) {
			$kind < 6 => "[[$title]]",
			$kind < 8 => "[[$title|" . $this->word() . ' ' . $this->word() . ']]',
			default => '[[Missing ' . $this->word() . ']]',
		};
	}

	private function sentence(): string {
		$words = [ ucfirst( $this->word() ) ];
		for ( $n = mt_rand( 6, 18 ); $n > 0; $n-- ) {
			$words[] = match ( mt_rand( 0, 24 ) ) {
				0, 1 => $this->link(),
				2 => "'''" . $this->word() . "'''",
				3 => "''" . $this->word() . "''",
				4 => '<code>' . $this->word() . '</code>',
				default => $this->word(),
			};
		}
		return implode( ' ', $words ) . '.';
	}

	private function paragraph( bool $notes = false ): string {
		$sentences = [];
		for ( $n = mt_rand( 3, 7 ); $n > 0; $n-- ) {
			$sentences[] = $this->sentence() . ( $notes && mt_rand( 0, 3 ) === 0 ? $this->footnote() : '' );
		}
		return implode( ' ', $sentences ) . "\n\n";
	}

	private function items(): string {
		$items = '';
		for ( $n = mt_rand( 3, 8 ); $n > 0; $n-- ) {
			$items .= ( mt_rand( 0, 3 ) ? '* ' : '** ' ) . $this->link() . ': ' . $this->sentence() . "\n";
		}
		return "$items\n";
	}

	private function table(): string {
		$table = "{| class=\"wikitable\"\n! Year !! Place !! Number\n";
		for ( $n = mt_rand( 3, 10 ); $n > 0; $n-- ) {
			$table .= "|-\n| " . mt_rand( 1200, 2000 ) . ' || ' . $this->link() . ' || ' . mt_rand( 1, 99999 ) . "\n";
		}
		return "$table|}\n\n";
	}

	public function article( string $title ): string {
		$text = "{{Note|$title}}\n'''$title''' is an article. " . $this->paragraph();
		for ( $section = mt_rand( 2, 8 ); $section > 0; $section-- ) {
			$text .= '== ' . ucfirst( $this->word() ) . ' and ' . $this->word() . " $section ==\n" . $this->paragraph();
			$text .= match ( mt_rand( 0, 3 ) ) {
				0 => $this->items(),
				1 => $this->table(),
				default => $this->paragraph(),
			};
		}
		return $text . '[[Category:' . ucfirst( $this->word() ) . "]]\n";
	}

	/** A source, by the template that names sources; some are named again further down. */
	private function footnote(): string {
		$name = $this->word();
		if ( isset( $this->sources[$name] ) ) {
			return "<ref name=\"$name\" />";
		}
		$this->sources[$name] = true;
		$title = ucfirst( $this->word() ) . ' ' . $this->word() . ' ' . $this->word();
		$year = mt_rand( 0, 2 ) ? '|year=' . mt_rand( 1850, 2020 ) : '';
		return "<ref name=\"$name\">{{Cite|author=" . ucfirst( $this->word() ) . "|title=$title$year}}</ref>";
	}

	/** From the lognormal distribution, by the transform of Box and Muller. */
	private function length( float $median, float $sigma ): int {
		$unit = static fn () => ( mt_rand( 0, 0x3fffffff ) + 1 ) / 0x40000000;
		$normal = sqrt( -2 * log( $unit() ) ) * cos( 2 * M_PI * $unit() );
		return (int)max( SHORTEST, min( LONGEST, $median * exp( $sigma * $normal ) ) );
	}

	/** An article of the experiments. Sections come until it is as long as was drawn. */
	public function long_article( string $title, float $median, float $sigma ): string {
		$length = $this->length( $median, $sigma );
		$this->sources = [];
		$end = "== References ==\n<references />\n[[Category:" . ucfirst( $this->word() ) . "]]\n";
		$text = "{{Infobox|name=$title|kind=" . $this->word() . ( mt_rand( 0, 1 ) ? '|people=' . mt_rand( 100, 99999 ) : '' )
			. "|place=" . $this->link() . "}}\n'''$title''' is an article. " . $this->paragraph( true );
		for ( $section = 1; strlen( $text ) + strlen( $end ) < $length; $section++ ) {
			$text .= '== ' . ucfirst( $this->word() ) . ' and ' . $this->word() . " $section ==\n" . $this->paragraph( true );
			$text .= match ( mt_rand( 0, 4 ) ) {
				0 => $this->items(),
				1 => $this->table(),
				2 => '=== ' . ucfirst( $this->word() ) . " ===\n" . $this->paragraph( true ),
				default => $this->paragraph( true ),
			};
		}
		return $text . $end;
	}
}

function page( string $title, int $namespace, string $text ): string {
	$title = htmlspecialchars( $title, ENT_XML1 );
	$text = htmlspecialchars( $text, ENT_XML1 );
	return "<page><title>$title</title><ns>$namespace</ns><revision><timestamp>2020-01-01T00:00:00Z</timestamp>"
		. "<contributor><username>Generator</username></contributor><model>wikitext</model>"
		. "<format>text/x-wiki</format><text xml:space=\"preserve\">$text</text></revision></page>\n";
}

/** As wfUrlencode() of MediaWiki does: this is the form in links, and the form that is purged. */
function path( string $title ): string {
	$kept = [ '%3B' => ';', '%40' => '@', '%24' => '$', '%21' => '!', '%2A' => '*', '%28' => '(', '%29' => ')',
		'%2C' => ',', '%2F' => '/', '%7E' => '~', '%3A' => ':' ];
	return '/wiki/' . strtr( urlencode( str_replace( ' ', '_', $title ) ), $kept );
}

const TEMPLATES = [
	'Note' => "<div class=\"note\">{{{1}}} is generated text, first edition.</div>\n",
	'Infobox' => "{| class=\"infobox\"\n! colspan=2 | {{{name}}}\n|-\n| Kind || {{{kind}}}\n|-\n| Place || {{{place}}}\n"
		. "{{#if:{{{people|}}}|{{!}}-\n{{!}} People {{!}}{{!}} {{formatnum:{{{people}}}}} "
		. "({{#ifexpr:{{{people}}} > 20000|a town|a village}})}}\n|}\n",
	'Cite' => "{{{author}}}: ''{{{title}}}''{{#if:{{{year|}}}|, {{{year}}}|, no date}}.",
];

[ , $count, $seed, $pathsFile ] = $argv;
$long = isset( $argv[5] );
$writer = new Writer( (int)$seed, (int)$count );
$paths = '';
echo '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">', "\n";
foreach ( TEMPLATES as $name => $text ) {
	if ( $long || $name === 'Note' ) {
		echo page( "Template:$name", 10, $text );
	}
}
foreach ( $writer->titles() as $title ) {
	$text = $long ? $writer->long_article( $title, (float)$argv[4], (float)$argv[5] ) : $writer->article( $title );
	echo page( $title, 0, $text );
	$paths .= path( $title ) . ( $long ? "\t" . strlen( $text ) : '' ) . "\n";
}
echo page( 'Contents', 0, '* [[' . implode( "]]\n* [[", $writer->titles() ) . "]]\n" );
echo "</mediawiki>\n";
file_put_contents( $pathsFile, $paths );
