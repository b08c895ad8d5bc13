//! What the process gives up once its interfaces are open.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};

use super::error::LiveError;

/// How far Landlock confines the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confined {
    /// As asked.
    Fully,
    /// The kernel knows some of what was asked.
    Partly,
    /// The kernel has no Landlock.
    Not,
}

/// Becomes `user` (a name, `UID` or `UID:GID`), with that user's own group alone. Nothing is done without the privilege to: who is not root needs no
/// such step.
///
/// # Errors
/// When there is no such user, or the system refuses.
pub fn drop_privileges(user: &str) -> Result<(), LiveError> {
    let failed = |reason: String| LiveError::User { user: user.to_string(), reason };
    let (uid, gid) = super::user::ids(user).map_err(&failed)?;
    if nix::unistd::geteuid() == uid {
        return Ok(());
    }
    // Groups first: after setuid there is no right to change them.
    nix::unistd::setgroups(&[gid]).map_err(|e| failed(format!("setgroups: {e}")))?;
    nix::unistd::setgid(gid).map_err(|e| failed(format!("setgid: {e}")))?;
    nix::unistd::setuid(uid).map_err(|e| failed(format!("setuid: {e}")))?;
    if nix::unistd::setuid(nix::unistd::Uid::from_raw(0)).is_ok() {
        return Err(failed("root could be taken back".to_string()));
    }
    Ok(())
}

/// Confines the calling thread and all it starts to writing below `writable` and reading `readable`. `runs`: it starts
/// programs (alerts), which must be read and may use the network.
///
/// # Errors
/// The kernel's, where it has Landlock and refuses the rules.
pub fn confine(writable: &[PathBuf], readable: &[PathBuf], runs: bool) -> Result<Confined, landlock::RulesetError> {
    let abi = ABI::V4;
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(abi))?;
    if !runs {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    let mut rules = ruleset.create()?;
    let allow = |path: &Path, access| PathFd::new(path).ok().map(|fd| PathBeneath::new(fd, access));
    for path in writable {
        let access = if path.is_dir() { AccessFs::from_all(abi) } else { AccessFs::from_file(abi) };
        if let Some(rule) = allow(path, access) {
            rules = rules.add_rule(rule)?;
        }
    }
    for path in readable {
        let access =
            if path.is_dir() { AccessFs::from_read(abi) } else { AccessFs::from_read(abi) & AccessFs::from_file(abi) };
        if let Some(rule) = allow(path, access) {
            rules = rules.add_rule(rule)?;
        }
    }
    if runs {
        for (path, access) in
            [("/", AccessFs::from_read(abi)), ("/dev", AccessFs::from_all(abi)), ("/tmp", AccessFs::from_all(abi))]
        {
            if let Some(rule) = allow(Path::new(path), access) {
                rules = rules.add_rule(rule)?;
            }
        }
    }
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Confined::Fully,
        RulesetStatus::PartiallyEnforced => Confined::Partly,
        RulesetStatus::NotEnforced => Confined::Not,
    })
}
