//! Commands about the server.

mod acl;
mod acl_file;
mod cluster;
mod config;
mod help;
mod info;
mod latency;
mod memory;
mod misc;
mod sections;
mod slowlog;

use larder_proto::resp::table::Id;

use super::dispatch::Handler;

pub(crate) use info::memory as memory_in_use;

/// The handler of a command about the server; None: another command.
pub(crate) fn handler(id: Id) -> Option<Handler> {
    Some(match id {
        Id::AclCat => acl::categories,
        Id::AclDeluser => acl::delete,
        Id::AclDryrun => acl::dry_run,
        Id::AclGenpass => acl::generate,
        Id::AclGetuser => acl::get_user,
        Id::AclList => acl::list,
        Id::AclLoad => acl_file::load,
        Id::AclLog => acl::log,
        Id::AclSave => acl_file::save,
        Id::AclSetuser => acl::set_user,
        Id::AclUsers => acl::users,
        Id::AclWhoami => acl::who_am_i,
        Id::ConfigGet => config::get,
        Id::ConfigSet => config::set,
        Id::ConfigResetstat => config::reset_statistics,
        Id::ConfigRewrite => config::rewrite,
        Id::Info => info::info,
        Id::LatencyDoctor => latency::doctor,
        Id::LatencyGraph => latency::graph,
        Id::LatencyHistogram => latency::histogram,
        Id::LatencyHistory => latency::history,
        Id::LatencyLatest => latency::latest,
        Id::LatencyReset => latency::reset,
        Id::MemoryDoctor => memory::doctor,
        Id::MemoryMallocStats => memory::allocator,
        Id::MemoryPurge => memory::purge,
        Id::MemoryStats => memory::stats,
        Id::MemoryUsage => memory::usage,
        Id::SlowlogGet => slowlog::get,
        Id::SlowlogLen => slowlog::len,
        Id::SlowlogReset => slowlog::reset,
        Id::Bgsave | Id::Save => misc::save,
        Id::Debug => misc::debug,
        Id::Lastsave => misc::last_save,
        Id::Lolwut => misc::lolwut,
        Id::Role => misc::role,
        Id::Shutdown => misc::shutdown,
        Id::Time => misc::time,
        Id::Wait => misc::wait,
        Id::AclHelp
        | Id::ClientHelp
        | Id::CommandHelp
        | Id::ConfigHelp
        | Id::FunctionHelp
        | Id::LatencyHelp
        | Id::MemoryHelp
        | Id::PubsubHelp
        | Id::ScriptHelp
        | Id::SlowlogHelp => help::help,
        _ => return cluster::handler(id),
    })
}
