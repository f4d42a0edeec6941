//! The users and groups of the application and of its socket.

use nix::unistd::{Gid, Group, Uid, User};

use super::{Exit, Typed, flags::strtol};

/// The owners by number; None: they stay as they are.
#[derive(Debug, Default)]
pub(super) struct Owner {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// The name of the user, whose supplementary groups the application gets.
    pub(super) name: Option<String>,
    pub(super) socket_user: Option<u32>,
    pub(super) socket_group: Option<u32>,
}

/// One pair of flags: `-u` and `-g`, or `-U` and `-G`.
#[derive(Default)]
struct Pair {
    user: Option<u32>,
    group: Option<u32>,
    name: Option<String>,
}

pub(super) fn find(typed: &Typed) -> Result<Owner, Exit> {
    let own = pair(typed.user.as_deref(), typed.group.as_deref())?;
    let socket = pair(typed.socket_user.as_deref(), typed.socket_group.as_deref())?;
    if let (Some(user), None) = (own.user, own.group) {
        eprintln!(
            "spawn-fcgi: WARNING: couldn't find the user for uid {user} and no group was \
             specified, so only the user privileges will be dropped"
        );
    }
    Ok(Owner {
        socket_user: socket.user.or(own.user),
        socket_group: socket.group.or(own.group),
        user: own.user,
        group: own.group,
        name: own.name,
    })
}

/// A positive number, which needs no name.
fn number(text: &str) -> Option<u32> {
    let (number, whole) = strtol(text, 10);
    u32::try_from(number).ok().filter(|number| whole && *number > 0)
}

fn pair(user: Option<&str>, group: Option<&str>) -> Result<Pair, Exit> {
    let mut found = Pair::default();
    let mut known = None;
    if let Some(name) = user {
        if let Some(number) = number(name) {
            found.user = Some(number);
            known = User::from_uid(Uid::from_raw(number)).ok().flatten();
            found.name = known.as_ref().map(|user| user.name.clone());
        } else {
            let user = User::from_name(name).ok().flatten();
            let user = user.ok_or_else(|| format!("can't find user name {name}"));
            let user = user.map_err(Exit::Failure)?;
            if user.uid.is_root() {
                return Err(Exit::failure("I will not set uid to 0"));
            }
            found.user = Some(user.uid.as_raw());
            found.name = Some(name.to_owned());
            known = Some(user);
        }
    }
    let root = Exit::failure("I will not set gid to 0");
    match (group, &known) {
        (Some(name), _) => match number(name) {
            Some(number) => found.group = Some(number),
            None => {
                let group = Group::from_name(name).ok().flatten();
                let group = group.ok_or_else(|| format!("can't find group name {name}"));
                let group = group.map_err(Exit::Failure)?;
                if group.gid == Gid::from_raw(0) {
                    return Err(root);
                }
                found.group = Some(group.gid.as_raw());
            }
        },
        (None, Some(user)) if user.gid == Gid::from_raw(0) => return Err(root),
        (None, Some(user)) => found.group = Some(user.gid.as_raw()),
        (None, None) => {}
    }
    Ok(found)
}
