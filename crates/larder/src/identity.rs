//! The user that the server runs as after its addresses are bound.

use larder_server::settings::Identity;
use nix::unistd::{Gid, Uid, initgroups, setgroups, setresgid, setresuid};

/// Becomes this user, with all its threads and without a way back. Nothing happens if the process
/// is this user already.
///
/// # Errors
///
/// The reason, for the operator.
pub(crate) fn become_user(identity: &Identity) -> Result<(), String> {
    let (user, group) = (Uid::from_raw(identity.user), Gid::from_raw(identity.group));
    if !Uid::effective().is_root() {
        let same = Uid::effective() == user;
        return same.then_some(()).ok_or_else(|| {
            format!("only root can become {identity}: start it as root, or take out `user`")
        });
    }
    let failed = |error: nix::Error| format!("cannot become {identity}: {}", error.desc());
    match identity.name.as_deref().map(std::ffi::CString::new) {
        Some(Ok(name)) => initgroups(&name, group).map_err(failed)?,
        _ => setgroups(&[group]).map_err(failed)?,
    }
    setresgid(group, group, group).map_err(failed)?;
    setresuid(user, user, user).map_err(failed)?;
    // A saved user ID that was left would be a way back.
    if !user.is_root() && setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
        return Err(format!("{identity} can become root again: nothing is served that way"));
    }
    Ok(())
}
