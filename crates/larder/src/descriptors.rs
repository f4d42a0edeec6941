//! Descriptors: how many there may be.

use larder_server::settings::Settings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of descriptors, one for each connection of clients and origins, as far as the
/// system allows.
pub(crate) fn raise(settings: &Settings) {
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: now.maximum, maximum: now.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => now.maximum,
        Err(_) => now.current,
    };
    let http = if settings.serves_pages() { settings.http.limits.connections } else { 0 };
    let memcached = settings.memcached.as_ref().map_or(0, |face| face.connections);
    let redis = settings.redis.as_ref().map_or(0, |face| face.connections);
    // A queue has a file that is written, and one that is read.
    let queue = settings.queue.as_ref();
    let queue = queue.map_or(0, |face| face.connections + 2 * face.rules.queues);
    let files = settings.sendfile_cache_files() + settings.open_files() + settings.disk_files();
    let wanted = (http + memcached + redis + queue + files) as u64;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < wanted) {
        eprintln!(
            "larder: warning: {allowed} descriptors are allowed, and there may be {wanted} \
             connections and files: raise `ulimit -n`"
        );
    }
}
