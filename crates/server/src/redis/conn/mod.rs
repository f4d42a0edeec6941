//! Commands of connections, channels and transactions, and their handlers.

mod basic;
pub(crate) mod client;
mod command;
mod kill;
pub(crate) mod pubsub;
pub(crate) mod tracking;

pub(crate) use basic::REDIS_VERSION;
use larder_proto::resp::table::Id;

use super::{admin, data, dispatch::Handler, monitor, multi, pause, script};

/// The handler of a command; None: another command.
pub(crate) fn handler(id: Id) -> Option<Handler> {
    data::command(id)
        .or_else(|| own(id))
        .or_else(|| admin::handler(id))
        .or_else(|| script::handler(id))
}

fn own(id: Id) -> Option<Handler> {
    Some(match id {
        Id::Auth => basic::auth,
        Id::Hello => basic::hello,
        Id::Ping => basic::ping,
        Id::Echo => basic::echo,
        Id::Select => basic::select,
        Id::Quit => basic::quit,
        Id::Reset => basic::reset,
        Id::ClientCaching => tracking::caching,
        Id::ClientGetname => client::get_name,
        Id::ClientGetredir => tracking::get_redirect,
        Id::ClientId => client::id,
        Id::ClientInfo => client::info,
        Id::ClientKill => kill::kill,
        Id::ClientList => client::list,
        Id::ClientNoEvict => client::no_evict,
        Id::ClientPause => pause::pause,
        Id::ClientUnpause => pause::unpause,
        Id::ClientReply => client::reply,
        Id::ClientSetname => client::set_name,
        Id::ClientTracking => tracking::tracking,
        Id::ClientTrackinginfo => tracking::info,
        Id::ClientUnblock => client::unblock,
        Id::Multi => multi::multi,
        Id::Exec => multi::exec,
        Id::Discard => multi::discard,
        Id::Watch => multi::watch,
        Id::Unwatch => multi::unwatch,
        Id::Monitor => monitor::monitor,
        Id::Subscribe => pubsub::subscribe,
        Id::Unsubscribe => pubsub::unsubscribe,
        Id::Psubscribe => pubsub::psubscribe,
        Id::Punsubscribe => pubsub::punsubscribe,
        Id::Ssubscribe => pubsub::ssubscribe,
        Id::Sunsubscribe => pubsub::sunsubscribe,
        Id::Publish => pubsub::publish,
        Id::Spublish => pubsub::spublish,
        Id::PubsubChannels => pubsub::channels,
        Id::PubsubShardchannels => pubsub::shard_channels,
        Id::PubsubNumsub => pubsub::numsub,
        Id::PubsubShardnumsub => pubsub::shard_numsub,
        Id::PubsubNumpat => pubsub::numpat,
        Id::Command => command::command,
        Id::CommandCount => command::count,
        Id::CommandDocs => command::docs,
        Id::CommandInfo => command::info,
        Id::CommandList => command::list,
        Id::CommandGetkeys => command::get_keys,
        Id::CommandGetkeysandflags => command::get_keys_and_flags,
        _ => return None,
    })
}
