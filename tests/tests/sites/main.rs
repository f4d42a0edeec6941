//! Real sites before Larder: MediaWiki and WordPress.
//! One executable: a suite is a module, `cargo test --test sites SUITE::` runs one.

mod mediawiki;
mod mediawiki_htcp;
mod mediawiki_objects;
mod wordpress;
