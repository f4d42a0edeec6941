//! Placement held against the programs it must agree with, key by key. `scripts/test-deps.sh`
//! installs them.

mod libmemcached;
mod peer;
mod php;
mod pymemcache;
mod spymemcached;
mod twemproxy;
