//! From typed values to settings: `user` and `group`, of the server and of its applications.

use larder_server::settings::Identity;
use nix::unistd::{Group, User};

use super::{
    problem::{Problem, Report},
    reader::Values,
};

/// A user ID with its name, and a group ID.
pub(super) type Owner = (Option<(u32, Option<String>)>, Option<u32>);

/// The values of `user` and `group`. None: a mistake, which is in the report.
pub(super) fn owner(values: &Values, report: &mut Report) -> Option<Owner> {
    let text = |name| values.maybe::<String>(name);
    let (mut user, mut group) = (None, None);
    if let Some(name) = text("user") {
        let known = match name.parse::<u32>() {
            Ok(number) => User::from_uid(number.into()).ok().flatten(),
            Err(_) => User::from_name(&name).ok().flatten(),
        };
        user = match (&known, name.parse::<u32>()) {
            (Some(known), _) => Some((known.uid.as_raw(), Some(known.name.clone()))),
            (None, Ok(number)) => Some((number, None)),
            (None, Err(_)) => {
                let message = format!("there is no user \"{name}\"");
                report.error(Problem::new(values.location("user"), message));
                return None;
            }
        };
        group = known.map(|known| known.gid.as_raw());
    }
    if let Some(name) = text("group") {
        let known = Group::from_name(&name).ok().flatten().map(|group| group.gid.as_raw());
        group = known.or(name.parse().ok());
        if group.is_none() {
            let message = format!("there is no group \"{name}\"");
            report.error(Problem::new(values.location("group"), message));
            return None;
        }
    }
    Some((user, group))
}

/// The user that the server becomes; None: it stays as it is started.
pub(super) fn identity(root: &Values, report: &mut Report) -> Option<Identity> {
    let (user, group) = owner(root, report)?;
    let mut wrong = |name: &str, message: &str| {
        report.error(Problem::new(root.location(name), message.to_owned()));
    };
    match (user, group) {
        (Some((user, name)), Some(group)) => Some(Identity { user, group, name }),
        (Some((user, _)), None) => {
            wrong("user", &format!("there is no user {user}: write its `group` too"));
            None
        }
        (None, Some(_)) => {
            wrong("group", "it goes with `user`");
            None
        }
        (None, None) => None,
    }
}
