//! Who the process becomes once its interfaces are open.

use nix::unistd::{Gid, Uid};

/// Where local users stand, as passwd(5) has it.
const PASSWD: &str = "/etc/passwd";

/// The ids of `user`: a name, `UID` or `UID:GID`. The local file is asked first, and without the C library: a static
/// program cannot load the modules that nsswitch.conf(5) names, and may run where there is no library at all.
///
/// # Errors
/// In words, with what to do instead.
pub(super) fn ids(user: &str) -> Result<(Uid, Gid), String> {
    let passwd = std::fs::read(PASSWD).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    match local(user, &passwd)? {
        Some((uid, gid)) => Ok((Uid::from_raw(uid), Gid::from_raw(gid))),
        None => directory(user),
    }
}

/// What the text of a passwd file says of `user`; numbers need no entry.
fn local(user: &str, passwd: &str) -> Result<Option<(u32, u32)>, String> {
    let mut entries = passwd.lines().filter_map(|line| {
        let mut cells = line.split(':');
        let (name, uid, gid) = (cells.next()?, cells.nth(1)?, cells.next()?);
        Some((name, uid.parse::<u32>().ok()?, gid.parse::<u32>().ok()?))
    });
    if let Some((_, uid, gid)) = entries.clone().find(|e| e.0 == user) {
        return Ok(Some((uid, gid)));
    }
    let (uid, gid) = user.split_once(':').map_or((user, None), |(u, g)| (u, Some(g)));
    let Ok(uid) = uid.parse::<u32>() else { return Ok(None) };
    let gid = match gid {
        Some(gid) => gid.parse().map_err(|_| format!("UID:GID was required, both numbers, {user:?} was there"))?,
        // Without an entry, the group of the same number: that of a user who was made with a group of its own.
        None => entries.find(|e| e.1 == uid).map_or(uid, |e| e.2),
    };
    // (id) -1 means "leave as it is" to the kernel.
    if uid == u32::MAX || gid == u32::MAX {
        return Err("4294967295 is no id".to_string());
    }
    Ok(Some((uid, gid)))
}

/// Users whom only a directory service knows.
#[cfg(not(target_feature = "crt-static"))]
fn directory(user: &str) -> Result<(Uid, Gid), String> {
    let entry = nix::unistd::User::from_name(user).map_err(|e| e.to_string())?;
    entry.map(|e| (e.uid, e.gid)).ok_or_else(|| "no such user; numbers are taken too: UID:GID".to_string())
}

#[cfg(target_feature = "crt-static")]
fn directory(_: &str) -> Result<(Uid, Gid), String> {
    Err(format!(
        "not in {PASSWD}, and this static build asks no directory service: give numbers, UID:GID (id -u, id -g)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "root:x:0:0:root:/root:/bin/sh\n+::::::\nbad:x:y:z\nscope:x:998:997::/:/usr/sbin/nologin\n12:x:7:8::/:/bin/sh\n";

    #[test]
    fn names_come_from_the_file() {
        assert_eq!(local("scope", TEXT), Ok(Some((998, 997))));
        assert_eq!(local("12", TEXT), Ok(Some((7, 8))), "a name of digits is a name where there is one");
        assert_eq!(local("nobody", TEXT), Ok(None));
        assert_eq!(local("bad", TEXT), Ok(None));
        assert_eq!(local("", TEXT), Ok(None));
    }

    #[test]
    fn numbers_need_no_entry() {
        assert_eq!(local("1000:1001", TEXT), Ok(Some((1000, 1001))));
        assert_eq!(local("998", TEXT), Ok(Some((998, 997))));
        assert_eq!(local("1000", ""), Ok(Some((1000, 1000))));
        assert!(local("1000:x", TEXT).is_err() && local("4294967295", TEXT).is_err());
        assert!(local("5:4294967295", TEXT).is_err());
    }

    #[test]
    fn the_c_library_agrees() {
        let root = nix::unistd::User::from_uid(Uid::from_raw(0)).unwrap().unwrap();
        assert_eq!(ids(&root.name), Ok((root.uid, root.gid)));
        assert!(ids("no such user of this machine").is_err());
    }
}
